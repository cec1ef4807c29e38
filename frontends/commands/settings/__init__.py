"""Inspecting the settings and the available models.

- `configuration`: `config show`, `config check`, `config path`
- `models`: `models`
- `extension_models`: the models of extensions, for that list
- `servers`: `mcp`
- `project_effects`: what the files of a project would do, in words
- `trust`: `trust`, the one command here that changes something: which folders are trusted

In: the home, the working directory, the environment. Out: lines for people, or JSON. No service is needed, and no key
is ever shown.
"""
