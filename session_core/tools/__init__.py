"""The tools that models call.

- `base`: the `Tool` protocol, the preview of a call (`CallPreview`), the input of a running tool (`ToolContext`)
  and its result (`ToolOutput`, `ToolFailed`); `argument_schemas` declares the arguments of a tool, `arguments` checks
  and reads those of a call
- files: `read`, `write`, `edit`, `list_files`, `search` (with `search_worker`, `search_results`, `path_patterns`), and
  beneath them `text_files`, `command_confinement`, `text_match`, `similar_lines`, `diffs`, `excluded_files`; `files`
  has the read-only tools
- path completion: `paths_beneath` (lists the candidates), `fuzzy` (ranks them by the letters typed)
- programs: `shell` runs a command in the sandbox, `background_jobs` and `job_tools` run commands in the background,
  `sandbox_hints`: what the sandbox may have kept from a command that failed;
  `output_files`: where each session's outputs are that are too long for a result
- the web: `web_fetch`, with `web_address`, `html_tokens` and `html_text`
- `plan`, `task` (child sessions), `skills`

Input: arguments from a model, which are not trusted: every tool checks them and names the argument that is wrong.
Output: bounded text, or `ToolFailed` with a sentence that tells the model what to do instead.

Out of scope: whether a call is allowed (each tool states its `effects` and previews its calls; `permissions` decides),
the order of calls, and what happens to the result.

To add a tool: write one class with `spec`, `effects` and `run`, and `preview` if it changes anything. Blocking work
belongs in a thread, programs in `processes.run.run_in_group`. When `run` is cancelled, it must end everything it
started before it returns.
"""
