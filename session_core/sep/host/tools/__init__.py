"""Tools of extensions, as ours.

- `tools`: extension tools as tools of the agent
- `tool_calls`: one call, its progress and its result
- `tool_search`: the search for tools that are not shown at once
"""
