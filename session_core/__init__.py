"""session-core: a session service for AI agents that many frontends can watch and steer at once.

`__init__.pyi` lists the public names; nothing else is promised. The rest is behind a few more doors:

- `commands`, `events`, `replies`: the catalogues, as modules
- `setup`: an agent as its user has configured it: homes, configuration, models, trust
- `extensions`: the extensions there are, their manifests, consent and checks
- `protocols`: for authors of protocols
- `wire`: the codec, JSON-RPC and the client protocol, for servers and clients
- `maintenance`: verify, repair, back up, export and import stores
- `testing`: helpers for tests

Names are loaded on first use, so `import session_core` costs next to nothing. Start with `open_session_service`, or
read `docs/architecture.md`.
"""

from session_core._door import open_door
from session_core._version import __version__ as __version__

__getattr__, __dir__ = open_door(__name__, __file__)
