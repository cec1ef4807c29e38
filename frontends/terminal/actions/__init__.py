"""What keys, clicks and slash commands do: objects that the app owns. Each knows a `TerminalContext`, and not the app.

- `session_actions`: which session is viewed, begun, searched, named, archived and deleted; unsent text
- `message_actions`: what the user sends to a session; each action sends one or two commands to the service
- `history_actions`: editing a message, going back, forking, copying, exporting
- `settings_actions`: choosing the model, the permission mode, the theme and the like
- `session_choices`: the commands, models and files that can be chosen and completed
- `stop_and_quit`: stopping work and leaving; keys that mean more when pressed twice
- `slash_commands`: the table of commands typed after `/`
"""
