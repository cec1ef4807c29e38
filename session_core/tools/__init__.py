"""What a model can do besides talking.

- `base`: the `Tool` protocol, what a running tool gets (`ToolContext`) and gives (`ToolOutput`, `ToolFailed`)
- `files`: list, read and count text files beneath the session's folder; nothing here can change one
- `process`: run a program so that stopping it leaves no process behind; for tools that need one

What comes in: arguments that some model made up, so nothing about them is trusted: every tool checks them and names the
argument that is wrong. What goes out: bounded text, or `ToolFailed` with a sentence from which the model can learn what
to do instead.

Not its business: whether a call is allowed (each tool states its `effects`, the permission tier decides), the order of
calls, and what becomes of the result.

To add a tool: write one class with `spec`, `effects` and `run`. Blocking work belongs in a thread, programs in
`process.run_in_group`, and when `run` is cancelled everything it started must have ended before it lets go.
"""
