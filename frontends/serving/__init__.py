"""The service of a home as a process of its own: starting it, finding it, asking it, ending it.

Like tmux: the first frontend that needs the service starts it in the background, others find and attach to it, and it
ends itself when there has been nobody and nothing to do for a while.

| module | holds |
| --- | --- |
| `places` | where a running service has its lock and its log |
| `logbook` | the log as lines of JSON, bounded, without secrets |
| `foreground` | the service itself: `serve --foreground` |
| `background` | starting it as a process of its own, and why that failed |
| `finding` | `find`, `find_or_start`: exactly one service, however many look for it at once |
| `attaching` | being a client of the service that runs, if one does |
| `presence` | whether the service is still there, for those who read from it |
| `talking` | one short conversation with a running service, for commands that ask one thing and leave |
| `reporting` | `status` |
| `ending` | `shutdown` |
| `words`, `dispatch` | what the command line says, and who does it |
| `command` | `serve` |
| `keys` | whether the service that runs has the keys that are set here |
| `letting_in` | `serve --login`; `token show` and `rotate`, which are `serve --token` and `--rotate-token` too |
| `token_words`, `sharing` | `token`: what it says, and tokens with fewer rights for others |

A service holds two locks: the one of the home, as everybody does who writes to it, and before that the one of
`<home>/run`. Who finds only the first of them held knows that some other program uses the home, without a door.
"""
