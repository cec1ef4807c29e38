"""May this run, must somebody be asked, and whose answer counts: one decision for everything that runs.

- `decision`: `decide`, a pure function, with its table of deciders beside it (of modes: `vocabulary.strictness`)
- `answers`: which answers an approval leaves to whom, as a table
- `call_facts`: the facts about a tool call, from its preview, and its fingerprint
- `rules`, `globs`: permission rules of the configuration, and their patterns; `LiveRules` can change
- `command_lines`, `shell_words`, `wrapper_programs`, `command_options`, `opaque_programs`: the commands that a command
  line runs, parsed like a shell, including those started by other programs, and what may run commands unseen
- `line_rights`: the rights beyond the sandbox that a person's shell line wants
- `standing_grants`: calls that are always allowed, stored in the home
- `path_filter`: files that rules hide from tools that visit many files

Everything that runs is decided here: calls of models and of their code, shell lines of people, programs of extensions
and of protocols, cells of code without a sandbox. The callers prepare the facts, ask people if the decision says so,
and run exactly what was decided. What a program can reach once it runs is the business of `sandbox`.
"""
