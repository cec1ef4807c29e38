"""Looking at sessions that run in a service, from any shell, and stopping them.

| module | holds |
| --- | --- |
| `watch` | `watch`: one or several sessions, or what all of them are doing, live |
| `screen` | one session as text, for somebody who joins in the middle and did not ask for it |
| `session_lines` | all sessions, one line per change; pure functions |
| `stop` | `stop`, and the truth about what it did |

Watching is done by `frontends.client`: a lost connection is got over, and what was missed is told.
"""
