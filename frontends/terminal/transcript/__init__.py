"""The conversation on the screen.

- `view`: the scrolling widget; `layout`: which block is at which line
- `block_builder`: a conversation as the blocks of `shared/conversation`, updated as the session changes
- `older_messages`: messages from before the session's window
- `rendering`: draws blocks
"""
