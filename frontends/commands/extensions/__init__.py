"""`session-core ext ...`: the installed extensions, consent to them, and their state.

- `description`: what an extension would run and may do, in words
- `list_and_info`: `ext list` and `ext info`
- `trust`: `ext trust`, `ext enable`, `ext disable`
- `logs`: `ext logs`
- `logins`: `ext logout`
- `new`: `ext new`: creates the folder of a new extension, and tries it if asked to
- `check`: `ext check`: drives an extension, in any language, through the whole protocol
- `doctor`: `ext doctor` and `ext reload`: starts an extension for real, and reports on it

In: the home, the working directory, the environment. Out: lines for people, or JSON. No service is needed. Names,
manifests and logs come from the authors of extensions: none of it is printed raw.
"""
