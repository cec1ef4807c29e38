"""The host of extensions: one process per extension serves all sessions of a service.

What an extension may do is decided here. What its actions do to sessions is the business of the `Delegate`, which turns
them into ordinary commands of the service.

- `host`, `settings`: `ExtensionHost`, all of it together, and what it is told
- `extension`: one extension through crash, restart and reload, and its host as it sees it
- `catalogue`: which extensions there are, and which may run
- `process`: the child process, from its launch to its end
- `calls`: what extensions ask, and what they are asked
- `registrations`, `registry_updates`: what an extension brings, read strictly, and changes of it in order
- `tools`: tools of extensions
- `models`: models that extensions bring
- `info`: what people get to know of extensions, and how what they type reaches one
"""
