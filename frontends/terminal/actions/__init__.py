"""What keys, clicks and slash commands do.

- `event_handlers`: from keys, clicks and typed commands to actions
- `session_actions`: user actions on sessions; each sends one or two commands to the service
- `session_queries`: read-only requests: models, commands, files, messages, exports
- `settings_actions`: choosing the model, the permission mode, the theme and the like
- `history_actions`: editing a message, going back, forking, copying
- `stop_and_quit`: stopping work and leaving; keys that mean more when pressed twice
- `slash_commands`: the table of commands typed after `/`
"""
