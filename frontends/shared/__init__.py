"""What several frontends share. Imports nothing of the other packages of frontends.

Text on a terminal; escape codes come from `style` alone, everything else passes through `sanitise` first:
- `sanitise`: makes foreign text harmless: no text of a model, tool or file can control the terminal
- `style`: colours and symbols, if the terminal can show them
- `output`, `streams`: writing to stdout and stderr without ever blocking the event loop, and asking questions
- `text_width`, `figures`: tables and lines that fit, and human-readable times, sizes, paths and costs
- `activity_words`: what a session does, in a word or two
- `conversation`: a conversation as people read it: the view of `run`, and the words about tools and messages
- `progress`: a progress line for slow work

The command line:
- `parser`: how it is parsed, and `UsageError` for arguments that make no sense
- `signals`: signals during startup
- `attachments`: files attached to a prompt, and the required shape of an answer

What is in a home:
- `home`, `wait_for_home`: where sessions are stored, reading them beside a writer, waiting for a home in use
- `session_lookup`: finds a session by what was typed, and the shortest form of an id
- `socket_path`: the path of the socket of a home
- `folder_config`: the configuration that applies in a folder
- `config_problems`, `mcp_servers`, `json_lines`: what is wrong with the configuration, with its lines
- `extension_lookup`: finds all extensions, and one by its name or folder
- `trial_run`: one extension from start to end, with what was noticed and how long each step took
"""
