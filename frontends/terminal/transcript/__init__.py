"""The conversation on the screen.

- `view`: the scrolling widget; `layout`: which block is at which line
- `blocks`: their types, and how messages, calls and outcomes become blocks
- `block_builder`: a conversation as blocks, updated as the session changes
- `older_messages`: messages from before the session's window
- `rendering`: draws blocks
"""
