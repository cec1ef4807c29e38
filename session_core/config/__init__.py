"""Settings: where they come from, and clear messages about everything that is wrong.

- `values`: `Config` and its parts, as the rest of the program uses them
- `settings`: the table of all settings: type, default, variable, and whether a project may make it stricter
- `setting_kinds`: types and bounds of single values
- `tool_names`: unknown tool names, and which tools are disabled
- `nested_tables`: the parts of the file that are more than single values: rules, providers, models
- `toml_files`, `toml_key_lines`: safe reading of a file, and the line of each key
- `layers`: the values of one file, the environment or the flags
- `load`: `load_config`, which merges the layers
- `problems`: `ConfigProblem` and the one error that holds all of them
- `setting_report`: each value with its source, keys masked
- `watch`: `ConfigWatcher`, which notices that a file was changed

Input: two files, the environment and flags. Output: one frozen `Config`, or `ConfigInvalid` with every problem at once.
Layers, each on top of those before: defaults, the user's `config.toml` in the home, the project's
`.session-core/config.toml`, variables, flags.

A project's file was written by others: it is read only in a trusted folder, and it can only make things stricter;
anything else is ignored with a warning (`Config.ignored`).
Keys are `Secret`s from the moment they are read, and no problem ever repeats a value that could be one.

Out of scope: what rules decide (`permissions`), trust in folders (`sandbox`), the MCP servers' own file, and the use of
the values.

To add a setting: a row in `settings`, a field in `values.Config`, a line in `docs/configuration.md`.
"""
