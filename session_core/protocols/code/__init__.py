"""The protocol `code`: the model acts by writing Python, one fenced cell per step.

- `cells`: finds the cell in what a model has written, or says what is wrong with it
- `driver`: runs the cell, mends what can be mended, and knows when a turn is done
- `instructions`: what the model is told, and how tools become functions
- `executor`: runs cells in a confined process whose globals live on; `cell_run`, `cell_output`: one cell
- `worker_process`, `confinement`: that process, and what it can reach; `worker_restore`, `saved_state`: what it keeps
- `worker`, `worker_wire`, `worker_state`: the program in it, sent as text, which has nothing but the standard library
- `protocol`: puts them together, with their options

A step: the model writes prose, which people see, and a cell, which they do not. The cell runs; what it printed, or how
it failed, is the next message to the model. In the cell the session's tools are functions, whose calls pass the same
permissions and hooks as calls of a model. The turn ends when an answer has no cell, or a cell calls `finish(value)`.

`cells`, `driver` and `instructions` are pure.
"""
