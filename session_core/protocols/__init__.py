"""How the model acts inside a turn. A protocol decides; it never changes a session itself.

- `api`: the parts of a protocol: a factory, and the bundle that it builds for each session
- `driver`: view in, actions out, in plain synchronous functions; `check_actions` refuses what breaks the contract
- `options`: options of protocols: stated, resolved once by a pure function, recorded with the opening
- `contexts`: the arguments of callbacks; usable only while they run
- `execution`: running code and saving its state; `prose`: what people see of an answer
- `frames`: where a conversation starts fresh for the model
- `adapters`: bases for parts that need little: code without state, prose by a plain function
- `registry`: the available protocols; `lifecycle`: the only caller of their code; `faults`: their errors
- `result_checks`: checks the return values of plugins before they are used
- `structured`: makes turns that must return JSON of a given shape end with it, however they end
- `standard`: native tool calling, the protocol of sessions that name none
- `code`: the model writes cells of Python, which run in their own sandboxed process

The interpreter of a driver's actions is `session_core.agent.turn`: it alone asks models, runs tools and code, and
records events. So a driver can be tested with values alone, and one that misbehaves (raises, returns nonsense, skips
tool calls, loops) fails its own turn with a reason, and nothing else.
"""

from session_core._door import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
