"""The process of an extension.

- `launch_command`: its command line, environment and sandbox
- `copied_paths`: paths of its manifest, turned to the copy that it runs from
- `process`: the child, its pipes and its end
- `startup`: prepares, starts and greets a process, and reads its registrations
- `process_session`: one process, from its greeting to its end
- `extension_log`: what it writes to stderr, and other log lines, bounded
- `error_line`: the line among those that says why it ended
"""
