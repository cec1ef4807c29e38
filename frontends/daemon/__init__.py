"""The service of a home as a process of its own: starting it, finding it, asking it, ending it.

Like tmux: the first frontend that needs the service starts it in the background, others find and attach to it, and it
ends itself when there has been nobody and nothing to do for a while.

| module | holds |
| --- | --- |
| `runtime_paths` | where a running service has its lock and its log |
| `log_file` | the log as lines of JSON, bounded, without secrets |
| `foreground` | the service itself: `serve --foreground` |
| `background` | starting it as a process of its own, and why that failed |
| `launcher` | `find`, `find_or_start`: exactly one service, however many look for it at once |
| `attach` | being a client of the service that runs, if one does |
| `presence` | whether the service is still there, for those who read from it |
| `one_request` | one short conversation with a running service, for commands that ask one thing and leave |
| `status` | `status` |
| `shutdown` | `shutdown` |
| `messages`, `dispatch` | what the command line says, and who does it |
| `command` | `serve` |
| `keys` | whether the service that runs has the keys that are set here |
| `login_commands` | `serve --login`; `token show` and `rotate`, which are `serve --token` and `--rotate-token` too |
| `token_messages`, `token_commands` | `token`: what it says, and tokens with fewer rights for others |

A service holds two locks: the one of the home, as everybody does who writes to it, and before that the one of
`<home>/run`. Who finds only the first of them held knows that some other program uses the home, without a door.
"""
