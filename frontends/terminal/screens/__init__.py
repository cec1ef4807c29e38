"""Screens on top of the conversation.

- `picker`: choose from a list, type a line, confirm, and `ListScreen`, the base of lists under an input;
  `picker_choices`: the lists to choose from
- `search`: search all sessions
- `help_page`: all keys and commands
- `usage`: tokens and cost by model and purpose
"""
