"""`session-core run`: one prompt in, one answer out, for people and for scripts.

- `run`: finds or creates the session, in the running service or an embedded one, and sends the prompt
- `options`: the command line options: what to do, how a turn is shown, and who may be asked
- `attached_service`: the running service, as `run` sees it
- `embedded_service`: a service in this process instead, with remarks about its model, extensions and MCP servers
- `prompt_kind`: what a prompt means: a message, an extension command, or a shell line
- `extensions`: waits until they have started, and reports which are not used
- `stdin`: input from stdin: the prompt, or a text attached to it
- `send_and_wait`: sends the message and waits for its answer, even if others keep the session busy
- `extension_commands`: runs an extension command or a shell line instead
- `own_turn`: tracks the turn that holds our message, and how it ended; no I/O
- `find_message`: finds our message again after missed events
- `turn_follower`: follows the session to the end of the turn or command, and shows it
- `interrupt`: what Ctrl-C ends
- `approval_text`: the text of an approval: what would happen, why, and the possible answers; pure functions
- `dialogs`: the text of an extension's dialog, and the meaning of an answer; pure functions
- `approval_answers`: parses the answers to approvals
- `requests`: asks on the terminal, one question at a time
- `extension_login`: `ext login`, a conversation with an extension on this terminal

Stdout carries the answer (or, with `--json`, the events) and nothing else; everything about the work, such as
thinking, tool calls and the outcome, goes to stderr.
"""
