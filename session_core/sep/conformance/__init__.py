"""Conformance of extensions in any language: schemas, fixtures, and a runner that drives an extension.

`schemas/` holds one JSON schema (draft 2020-12) per method, with `params` and, if the method has one, `result` among
its `$defs`. Shared shapes have their own: `message`, `common`, `registrations`, `render_block`, `hook_outcome`.
References between schemas are relative to the folder. `fixtures/` holds valid and invalid values, with the reason. Both
are for anyone who writes a host or an SDK. Receivers ignore unknown keys, so no schema refuses them; the runner warns
about them, because most are typos.

- `catalogue`: the schemas by method, and checking values against them (no I/O except reading the files once)
- `frames`: judges one line from an extension; tracks which ids were answered (pure)
- `sample_arguments`: valid and invalid arguments, made up from a tool's schema (pure)
- `host_messages`: what the runner sends: the greeting, hooks, events, malformed lines (pure)
- `verdicts`: judges answers (pure)
- `report`: the steps and their summary
- `target`: the folder or command line to check, and how to start it
- `fake_host`: the host's side without a service: it answers everything and does nothing
- `peer`: a running extension, with every line checked
- `driver`: keeps a peer running through crashes, and collects the steps
- `call_steps`, `message_steps`, `ending_steps`: the checks
- `runner`: `check_extension`
"""
