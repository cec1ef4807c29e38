"""How a conversation is drawn: blocks in, rows of a given width out. No widgets, no waiting.

- `draw`: the one door; `Drawer` remembers what grows
- `flow`, `passages`: Markdown that grows, cut into passages which are drawn once
- `markdown`, `tables`, `code`: one passage
- `tools`: cards of tool calls; `subjects` (what they are about), `diffs`, `shell`
- `said`: what people say, what models think, summaries, remarks; `entries`: what extensions show
- `lines`: wrapping and cutting, beneath all others

Every text is made inert (`frontends.terminal.look.harmless_text`) before it is measured, and every length is bounded.
"""
