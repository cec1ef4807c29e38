"""How fast session-core is, as ratios that hold on any machine: `make bench`, or `python -m bench --only NAME`.

- `measure`: clocks, best-of-several timing of interleaved work, and `Result`
- `limits_of_trio`: the baselines: naive channels, bare checkpoints, ping-pong
- `material`: events and sessions to measure with
- `broadcast`: publishing, delivering and stalls of `EventStream`
- `many_sessions`: the cost of an event among ten sessions and among a thousand
- `commands`: the round trip of a command
- `values`: snapshots and encoding
- `journal`: the cost of durability: publishing with the journal, commands that wait for the disk
- `store_reading`, `store_growth`: opening a long session, a long list, many steps, memory of idle sessions
- `executor_state`: how much is written when one part of a large executor state has changed
- `agent`: steps per second of the whole agent, one session and sixteen at once
- `dispatch`: the overhead of the tool runner over recording a call
- `protocols`: the overhead of the protocol layer in a turn
- `first_token`: the time to the first word of an answer, compared with the bare HTTP client
- `rpc`: requests to another program, compared with a naive connection
- `extensions`: requests to an extension, compared with the peer's host (`peer_host`), and the cost of unused ones;
  `extension_ways` has the hosts that are compared, `peers` the other programs
- `extension_holds`: how long an extension that misbehaves holds the loop; `peers/zoo.py` is that extension
- `server_load`, `server_trouble`: many clients of the server, idle, streaming and stalled; `server_process`,
  `server_bare` and `peers` are measured, `server_driver` and `server_clients` drive them
- `terminal_start`, `terminal_streaming`, `terminal_long`: the terminal: its first picture, while sessions stream, and
  very long sessions; `terminal_window` is the pseudo terminal that it runs in, `terminal_service` the service behind
  it, `terminal_bare` a minimal Textual app
- `store_material`, `workshop`: homes and turns, and a service whose sessions work on command
- `stops`: how many ticks a stop takes
- `extras`: times without a target
- `report`, `picture`: the table, `results/latest.json` and `results/latest.svg`

Absolute times say more about a machine than about a program, so each case alternates between two measurements in one
run, and its target is their ratio. If a target is missed, the exit code is 1.
"""
