"""Everything around the conversation.

- `panel`: the base of all panels: redraws only what has changed, and follows the theme
- `sidebar`: the list of sessions; `session_lines`: its lines; `session_order`: their order
- `status_line`: the last line; `welcome`: what an empty screen shows
- `message_queue`: messages that wait for their turn; `plan`: the agent's to-do list
- `notices`: short messages of extensions; `extension_widgets`: their widgets; `shortcut_keys`: their keys
"""
