"""How the model acts inside a turn. A protocol decides; it never does anything to a session itself.

- `api`: what a protocol is: a factory, and the bundle that it builds for each session
- `driver`: view in, actions out, in plain synchronous functions; `check_actions` refuses what breaks the contract
- `options`: options of protocols: stated, resolved once by a pure function, recorded with the opening
- `contexts`: what callbacks are given; of use only while they run
- `execution`: running code, and keeping what it leaves behind; `prose`: what people see of an answer
- `frames`: where a conversation begins anew for the model
- `registry`: which protocols there are; `lifecycle`: the only caller of their code; `faults`: what can be wrong
- `result_checks`: what plugins give back, looked at before it is relied on
- `structured`: turns that were asked for JSON of a shape end with that, whoever ends them
- `standard`: native tool calling, the protocol of sessions that name none
- `code`: the model writes cells of Python, which run in a confined process of their own

The interpreter of a driver's actions is `session_core.agent.turn`: it alone asks models, runs tools and code, and
records events. So a driver can be tested with values alone, and one that misbehaves (raises, returns nonsense, passes
over tool calls, goes round in circles) fails its own turn with a reason, and nothing else.
"""
