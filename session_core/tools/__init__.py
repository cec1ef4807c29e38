"""What a model can do besides talking.

- `base`: the `Tool` protocol, what a call would do (`CallPreview`), what a running tool is given (`ToolContext`)
  and gives (`ToolOutput`, `ToolFailed`); `arguments`: checking and reading what a model has made up
- files: `read`, `write`, `edit`, `list_files`, `search` (with `search_worker`, `search_results`, `path_patterns`), and
  beneath them `text_files`, `confined`, `text_match`, `nearest`, `diffs`, `withheld`; `files` has the tools
  that only look
- for people who type a path: `paths_beneath` (what there is to name), `fuzzy` (what fits some letters, best first)
- programs: `shell` runs a command in the sandbox, `background` and `job_tools` go on while the model does other things,
  `process` runs a program so that stopping it leaves no process behind, `namespace` keeps it apart
- the web: `web_fetch`, with `web_address`, `html_tokens` and `html_text`
- `plan`, `task` (child sessions), `skills`

What comes in: arguments that some model made up, so nothing about them is trusted: every tool checks them and names the
argument that is wrong. What goes out: bounded text, or `ToolFailed` with a sentence from which the model can learn what
to do instead.

Not its business: whether a call is allowed (each tool states its `effects` and shows in a preview what a call would do;
`agent.permissions` decides), the order of calls, and what becomes of the result.

To add a tool: write one class with `spec`, `effects` and `run`, and `preview` if it changes anything. Blocking work
belongs in a thread, programs in `process.run_in_group`, and when `run` is cancelled everything it started must have
ended before it lets go.
"""
