"""The service: one actor that runs commands in order, and the work it starts.

- `service`: `SessionService` and `open_session_service`, the way in
- `config`: `ServiceConfig`, where everything has a default
- `mailbox`: the bounded queue of commands, and the actor that drains it
- `preparation`: what happens to a command before it is sent: extensions are asked, its folder is read
- `session_queues`: keeps the commands of one session in order while one of them is being prepared
- `validation`: checks of the texts and files that commands carry
- `handlers`: one synchronous function per command, in a table
- `core`: what handlers work with: sessions, starting and ending turns
- `stop`: the stop contract, beside the mailbox
- `idempotency`: replies remembered for retries
- `feed`: a snapshot, events, and a new snapshot after a lag, for readers in this process
- `loaded_sessions`: which sessions are in memory, and how they leave and come back
- `session_tree`: which sessions work for which
- `child_sessions`: what a turn does for its tools: files kept for an undo, child sessions
- `side_tasks`: what runs beside turns: commands of extensions, logins, reloads
- `compact_and_restore`: compaction and undo, which are no turns
- `protocols`: which protocol a session uses, and its options
- `extension_api`: `Extensions`, what handlers need of extensions, and in whose name those act
- `extension_bridge`: the service as extensions reach it
- `file_finder`: files of a session's folder by some letters of their paths
- `retention`: what is archived and deleted by itself, if anything

In come commands; out go replies and, through the sessions, events. Frontends are not its business, nor is how an agent
is put together: see `session_core.assembly`.
"""
