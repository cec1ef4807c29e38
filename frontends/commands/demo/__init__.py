"""`session-core demo`: a guided tour of the service, live, offline, and honest: it claims only what it has checked.

- `tour`: the program: opens the service, plays the scenes, gives the figures and the exit code
- `scenes`: the steps of the tour, each of which really does what it says
- `viewer`: followers that fold what they receive, can stop reading, and count; on a terminal, what the first one sees
  is shown by the view of `run`, between the lines of the tour

Every claim goes through `Stage.check`: a true one is shown with a tick, a false one makes the program fail.
"""
