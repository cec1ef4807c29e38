"""Writing a prompt.

- `composer`: the input with its suggestions and attachments, and the walk through earlier prompts
- `editor`: the text area: many lines, Emacs keys, a kill ring, folded pastes; `keys`: its keys as data
- `paste`: pasted text made safe to show, large pastes folded to a label
- `completion`: the meaning of `/`, `@` and `!`; `suggestions`: what is offered while typing; `popup`: the lists
- `attached_files`: the images and files that go along; `mentions`: those that a message names
- `drafts`: text that is not sent yet
- `prompt_history`: earlier prompts on disk
"""
