"""A conversation as people read it, whatever shows it.

- `tool_calls`: what a tool call is about and how it ended, in a few words
- `messages`: who speaks in a message, why it ends early, the shell line it is the result of
- `view`: a conversation as text that only grows, for `run`, `show`, `watch` and the tour
- `work_lines`: the lines of that view about the work: tools, plans, subagents, outcomes

The terminal draws blocks and the export writes documents, with the same words from `tool_calls` and `messages`.
"""
