"""Tools of extensions.

- `tools`: extension tools as tools of the agent
- `tool_calls`: one call, its progress and its result
- `tool_search`: the search for deferred tools
"""
