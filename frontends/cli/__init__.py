"""`session-core run`: one prompt in, one answer out, for people and for scripts.

- `run`: finds or makes the session, opens an embedded service and sends the prompt
- `conversation`: follows the session to the end of the turn, shows it, asks, minds Ctrl-C
- `view`: turns what the session says into pieces of text for stdout and stderr, catching up after a lag
- `wording`: the sentences and lines about tools, approvals and outcomes; pure functions
- `consent`: answers approvals: by asking on a terminal, by `--yes`, or by saying no

Stdout carries the answer (or, with `--json`, the events) and nothing else; whatever is about the work, such as
thoughts, tool calls and the outcome, goes to stderr.
"""
