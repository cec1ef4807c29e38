"""`session-core ext ...`: the extensions there are, who has agreed to them, and how they are doing.

- `lookup`: what was found, and the one that somebody means
- `description`: what an extension would run and may do, in words
- `list_and_info`: `ext list` and `ext info`
- `trust`: `ext trust`, `ext enable`, `ext disable`
- `logs`: `ext logs`
- `login`: `ext login`; `logins`: `ext logout`
- `new`: `ext new`: the folder of a new one
- `check`: `ext check`: driving one, in any language, through the whole protocol
- `doctor`: `ext doctor` and `ext reload`: starting one for real, and a report about it
- `trial_run`: the way of one extension from its start to its end, with what was noticed and how long each step took

What comes in: the home, the folder one works in, the environment. What goes out: lines for people, or JSON. No service
is needed. Names, manifests and logs come from whoever wrote an extension: nothing of them is printed raw.
"""
