"""The full-screen terminal, started by `session-core` without arguments. Textual on asyncio, a client of the service.

- `command`: opens the terminal; `options`: its command line options
- `backend`: finds or starts the service, or runs one in this process
- `connection`: keeps the terminal connected to it
- `feeds`: what the terminal knows, folded from the service's feeds; no widgets
- `destination`: the viewed session, and the one that a message goes to, fixed at the key press
- `preferences`: what is remembered between runs; `tty`: taking over the terminal and restoring it
- `app`: the application: what it is made of, and what keys and clicks mean; `main_view`: what is on screen
- `actions`: what keys, clicks and slash commands do; `context`: what all of them work with
- `composer`: writing a prompt
- `transcript`: the conversation
- `questions`: approvals and extension dialogs
- `panels`: everything around the conversation: sidebar, status line, queue, plan, notices
- `screens`: pickers, search, help, usage
- `look`: styles, themes, wording and safe text

In: snapshots and events of the service, keys, the mouse. Out: commands, and the screen.
"""
