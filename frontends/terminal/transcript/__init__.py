"""The conversation on the screen.

- `view`: the scrolling widget; `layout`: which block is at which line
- `blocks`: a conversation as blocks, updated as the session changes
- `block_builder`: makes blocks; `block_values`: their types
- `older_messages`: messages from before the session's window
- `rendering`: draws blocks
"""
