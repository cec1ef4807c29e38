"""Draws a conversation: blocks in, rows of a given width out. No widgets, no waiting.

- `draw`: the only entry point; `Drawer` caches growing blocks
- `growing_markdown`, `passages`: growing Markdown, cut into passages that are drawn once
- `markdown`, `tables`, `code`: one passage
- `tools`: tool calls; `diffs`, `shell`
- `user_messages`: user messages, thinking, summaries, remarks; `entries`: entries of extensions
- `lines`: wrapping and cutting, used by all others

Every text is sanitised (`frontends.terminal.look.sanitised_text`) before it is measured, and every length is bounded.
"""
