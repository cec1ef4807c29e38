"""A conversation as text for people, for every frontend that prints to a terminal.

- `view`: turns the session's events into pieces of text for stdout and stderr, catching up after a lag
- `work_lines`: the lines about tools, plans, subagents and outcomes; pure functions
"""
