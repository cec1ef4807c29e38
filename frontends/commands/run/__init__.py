"""`session-core run`: one prompt in, one answer out, for people and for scripts.

- `run`: finds or makes the session, in the service that runs or an embedded one, and sends the prompt
- `options`: what was asked of it
- `attached_service`: the service that runs, as `run` sees it
- `embedded_service`: sets the agent up as its user has configured it, and says what people should know about that
- `prompt_kind`: what a prompt means: a message, a command of an extension, or a line for the shell
- `extensions`: waits until they have started, and says which are not used
- `stdin`: what comes by stdin: the prompt, or a text that goes along with one
- `attachments`: files that go along with a prompt, and the shape of an answer
- `send_and_wait`: sends the message and stays until it was answered, also where others keep the session busy
- `extension_commands`: has an extension or the shell do something instead
- `own_turn`: what is ours: the turn that holds our message, and how that one ended; no I/O
- `find_message`: finds our message again after events were missed
- `output_mode`: how a turn is shown, and whom it may ask
- `conversation`: follows the session to the end of the turn or command, and shows it
- `interrupt`: what Ctrl-C ends
- `view`: turns what the session says into pieces of text for stdout and stderr, catching up after a lag
- `work_lines`: the sentences and lines about tools, plans, helpers and outcomes; pure functions
- `approval_text`: the words of an approval: what would happen, why, and what may be answered; pure functions
- `dialogs`: the words of a question that an extension asks, and what an answer means; pure functions
- `approval_answers`: reads the answers to approvals
- `requests`: asks on the terminal, one question at a time

Stdout carries the answer (or, with `--json`, the events) and nothing else; whatever is about the work, such as
thoughts, tool calls and the outcome, goes to stderr.
"""
