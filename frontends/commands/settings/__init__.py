"""Looking at what is set, and at the models there are.

- `configuration`: `config show`, `config check`, `config path`
- `models`: `models`
- `servers`: `mcp`
- `json_lines`: the line of a JSON file that a field stands in
- `project_effects`: what the files of a project would bring, in words
- `trust`: `trust`, the one command here that changes something: which folders are trusted

What comes in: the home, the folder one works in, the environment. What goes out: lines for people, or JSON. No service
is needed, and no key is ever shown.
"""
