"""The protocol `code`: the model acts by writing Python, one fenced cell per step.

- `cells`: finds the cell in a model's answer, or describes what is wrong with it
- `driver`: runs the cell, repairs what it can, and decides when a turn is done
- `instructions`: the model's instructions, and how tools become functions
- `executor`: runs cells in a sandboxed process whose globals persist; `cell_run`, `cell_output`: one cell
- `worker_process`, `confinement`: that process, and what it can reach; `worker_restore`, `saved_state`: its saved state
- `worker`, `worker_wire`, `worker_state`: the program in it, sent as text, which uses only the standard library
- `protocol`: combines them, with their options

A step: the model writes prose, which people see, and a cell, which they do not. The cell runs; its output, or its
error, is the next message to the model. In the cell the session's tools are functions, whose calls pass the same
permissions and hooks as a model's calls. The turn ends when an answer has no cell, or a cell calls `finish(value)`.

`cells`, `driver` and `instructions` are pure.
"""
