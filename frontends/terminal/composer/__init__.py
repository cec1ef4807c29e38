"""Writing a prompt.

- `composer`: the input with its suggestions and attachments, the walk through earlier prompts, and messages being sent
- `editor`: the text area: many lines, Emacs keys, a kill ring, folded pastes; `keys`: its keys as data
- `paste`: pasted text made safe to show, large pastes folded to a label
- `completion`: the meaning of `/`, `@` and `!`; `suggestions`: what is offered while typing; `popup`: the lists
- `attachments`: the chips above the input; `attached_files`: the images and files behind them
- `drafts`: text that is not sent yet
- `prompt_history`: earlier prompts on disk
"""
