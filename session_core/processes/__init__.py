"""Child processes: one way to start a program, and to end it with everything that it has started.

Tools, extensions, code cells and MCP servers all run their programs through here.

- `child`: `open_child` and `start_child`: a running child, its pipes and its end
- `run`: `run_in_group`: a program run to its end, with bounded output
- `sandbox_processes`: the processes inside a bubblewrap, seen from outside
- `process_table`: what /proc says of processes that are not our children
"""
