"""What people may set, from which places, and sentences about everything that is wrong.

- `values`: `Config` and its parts: what the rest of the program gets to see
- `settings`: the table of all settings: type, default, variable, and whether a project may make it stricter
- `kinds`: types and bounds of single values
- `rules`, `globs`: permission rules, which of them decides about a call, and their patterns; `LiveRules` can change
- `command_lines`, `shell_words`, `starters`: which commands a command line runs, read as a shell would, also behind
  programs that start others
- `tool_names`: names of tools that no tool has, and which tools are switched off
- `tables`: the parts of the file that are more than single values: rules, providers, models
- `toml_files`, `positions`: reading a file with care, and in which line each key stands
- `layers`: what one file, the environment or the flags say
- `load`: `load_config`, which puts the layers on top of each other
- `problems`: `ConfigProblem` and the one error that holds all of them
- `origins`: each value with the place it came from, keys masked
- `watch`: `ConfigWatcher`, which notices that a file was changed

What comes in: two files, the environment and flags. What goes out: one frozen `Config`, or `ConfigInvalid` with every
problem at once. Layers, each on top of those before: defaults, the user's `config.toml` in the home, the project's
`.session-core/config.toml`, variables, flags.

A project's file is somebody else's text: it is read only in a trusted folder, and it can only make things stricter;
what goes further is passed over with a warning (`Config.ignored`).
Keys are `Secret`s from the moment they are read, and no problem ever repeats a value that could be one.

Not its business: who trusts a folder (`confine`), the MCP servers' own file, and what is done with the values.

To add a setting: a row in `settings`, a field in `values.Config`, a line in `docs/configuration.md`.
"""
