"""The daemon: the service of a home as a separate process; starting, finding, querying and ending it.

Like tmux: the first frontend that needs the service starts it in the background, others find and attach to it, and it
ends itself after some time without clients or work.

| module | holds |
| --- | --- |
| `runtime_paths` | the paths of the lock and the log of a running service |
| `log_file` | the log as lines of JSON, bounded, without secrets |
| `foreground` | the service itself: `serve --foreground` |
| `background` | starting it as a separate process, and reporting why that failed |
| `discovery` | `find_service`, `find_or_start`: exactly one service, however many processes look for it at once |
| `attached_client` | clients of the running service: `talk_if_running` for a moment, `connect_if_running` to stay |
| `presence` | whether the service still runs, for its readers |
| `status` | `status` |
| `shutdown` | `shutdown` |
| `messages` | the texts of the command line |
| `command` | `serve` |
| `keys` | whether the running service has the keys that are set here |
| `login_commands` | `serve --login`; `token show` and `rotate`, also known as `serve --token` and `--rotate-token` |
| `token_messages`, `token_commands` | `token`: its texts, and scoped tokens, for others |

A service holds two locks: first the one of `<home>/run`, then the one of the home, like every program that writes to
it. If only the lock of the home is held, some other program uses the home, without a listener.
"""
