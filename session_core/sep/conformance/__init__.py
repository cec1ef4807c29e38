"""Whether an extension, in whatever language, keeps to the protocol: schemas, fixtures, and a runner that drives one.

`schemas/` holds one JSON schema (draft 2020-12) for each method, with `params` and, where there is one, `result` among
its `$defs`; and those of the shapes they share: `message`, `common`, `registrations`, `render_block`, `hook_outcome`.
References between them are relative to the folder. `fixtures/` holds values that fit and values that do not, with the
reason. Both are for everybody who writes a host or an SDK. Unknown keys are passed over by whoever receives them, so no
schema refuses any; the runner warns of them, as most are slips of the pen.

- `catalogue`: the schemas by method, and what is wrong with a value (no I/O but reading the files once)
- `frames`: one line from an extension, judged; which ids were answered (pure)
- `sample_arguments`: arguments made up from the schema of a tool, right and wrong ones (pure)
- `host_messages`: what the runner tells and asks: the greeting, hooks, events, lines that are no messages (pure)
- `verdicts`: judging answers (pure)
- `report`: steps, and all of them together
- `target`: the folder or command line that is checked, and how it is started
- `fake_host`: the host's side, without a service: everything is answered, nothing is done
- `peer`: a running extension whose every line is looked at
- `driver`: the peer through crashes, and the steps so far
- `call_steps`, `message_steps`, `ending_steps`: what is tried
- `runner`: `check_extension`
"""
