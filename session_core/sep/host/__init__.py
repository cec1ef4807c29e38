"""The host of extensions: one process per extension serves all sessions of a service.

The host decides what an extension may do. The `Delegate` carries out its actions in sessions, as ordinary commands of
the service.

- `host`, `config`: `ExtensionHost`, which ties everything together, and its configuration
- `extension`: one extension through crash, restart and reload, and its callbacks to the host
- `catalogue`: which extensions there are, and which may run
- `process`: the child process, from its launch to its end
- `calls`: requests of extensions, and requests to them
- `registrations`, `registry_updates`: what an extension registers, read strictly, and its updates in order
- `tools`: tools of extensions
- `models`: models of extensions
- `info`: what people see of extensions, and why one is not used
"""
