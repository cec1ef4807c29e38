"""A conversation as people read it, whatever shows it.

- `tool_calls`: what a tool call is about and how it ended, in a few words
- `messages`: who speaks in a message, why it ends early, what is attached, the shell line it is the result of
- `blocks`: what a conversation consists of, in which order: messages, answers, calls with their results, remarks
- `view`: a conversation as text that only grows, for `run`, `show`, `watch` and the tour
- `work_lines`: the lines of that view about the work: tools, plans, subagents, outcomes

`show`, the terminal and the documents of an export show the same blocks, with the same words from `tool_calls` and
`messages`.
"""
