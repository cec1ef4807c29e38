"""Requests of extensions to the host, and of the host to extensions.

- `contexts`: dispatch tokens: who may act in which session, and for how long
- `requests`: requests of an extension, checked in a fixed order
- `notifications`: notifications of an extension
- `rate_limit`: how much it may publish
- `commands`: arguments and completions of commands
- `hooks`: asks extensions in order, and interprets their answers
- `events`: sends events to extensions
"""
