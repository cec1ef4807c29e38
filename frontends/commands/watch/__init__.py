"""Watching the sessions of a service from any shell, and stopping them.

| module | holds |
| --- | --- |
| `watch` | `watch`: one or several sessions, or what all of them are doing, live |
| `screen` | one session as text, for a viewer who joins in the middle |
| `session_lines` | all sessions, one line per change; pure functions |
| `stop` | `stop`, and an honest report of what it did |

`frontends.client` does the watching: it reconnects, and reports what was missed.
"""
