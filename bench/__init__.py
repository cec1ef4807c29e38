"""How fast session-core is, as ratios that hold on any machine: `make bench`, or `python -m bench --only NAME`.

- `measure`: clocks, best-of-several timing of interleaved work, and `Result`
- `limits_of_trio`: what everything is compared to: naive channels, bare checkpoints, ping-pong
- `material`: events and sessions to measure with
- `broadcast`: publishing, delivering and stalls of `EventStream`
- `many_sessions`: the cost of an event among ten sessions and among a thousand
- `commands`: the round trip of a command
- `values`: snapshots and encoding
- `journal`: what durability costs: publishing with the journal, commands that wait for the disk
- `store_reading`, `store_growth`: opening a long session, a long list, many steps, memory of idle sessions
- `executor_state`: how much is written when one part of a large executor state has changed
- `agent`: steps per second of the whole agent, one session and sixteen at once
- `dispatch`: what running a tool call the safe way adds to recording it
- `protocols`: what it adds to a turn that a protocol drives it
- `first_token`: how long the first word of an answer takes, beside the bare HTTP client
- `rpc`: requests to another program, beside the obvious connection
- `extensions`: asking an extension, beside the peer's host (`peer_host`), and extensions that are not asked;
  `extension_ways` holds the ways to ask, `peers` the other programs
- `server_load`, `server_trouble`: many clients of the server, idle, streaming and stalled; `server_process`,
  `server_bare` and `peers` are what is measured, `server_driver` and `server_clients` drive it
- `terminal_start`, `terminal_streaming`, `terminal_long`: the terminal: its first picture, while sessions stream, and
  very long sessions; `terminal_window` is the pseudo terminal that it runs in, `terminal_service` the service behind
  it, `terminal_bare` the least that Textual can show
- `store_material`, `workshop`: homes and turns, and a service whose sessions work on command
- `stops`: how many ticks a stop takes to arrive
- `extras`: times worth knowing that have no target
- `report`, `picture`: the table, `results/latest.json` and `results/latest.svg`

Absolute times say more about a machine than about a program, so each case measures two things in one run, in turns,
and its target is a ratio of the two. A target that is missed ends the run with exit code 1.
"""
