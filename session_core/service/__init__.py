"""The service: one actor that runs commands in order, and the work it starts.

- `service`: the entry points `SessionService` and `open_session_service`
- `config`: `ServiceConfig`, where everything has a default
- `mailbox`: the bounded queue of commands, preparing or ready, and the actor that drains it
- `preparation`: the steps before a command is ready: asking extensions, reading its folder, loading its session
- `validation`: checks the text, images and files that commands carry, and that the queue has room
- `handlers`: one synchronous function per command, in a table
- `handler_api`: what a handler gets and gives: the caller, and a reply now or later
- `core`: the state that handlers share: sessions, starting and ending turns
- `stop`: the stop contract, beside the mailbox
- `idempotency`: replies remembered for retries
- `feed`: a snapshot, events, and a new snapshot after a lag, for readers in this process
- `loaded_sessions`: which sessions are in memory, and how they are unloaded and reloaded
- `session_tree`: which sessions work for which
- `turn_host`: services of a turn for its tools: files saved for an undo, child sessions
- `side_tasks`: work beside turns: extension commands, logins, reloads
- `compact_and_restore`: compaction and undo, which are not turns
- `protocols`: which protocol a session uses, and its options
- `extension_api`: `Extensions`, what handlers need from extensions, and the clients that extensions act as
- `extension_bridge`: the service as extensions see it
- `speaker_chain`: keeps extensions from driving each other without end
- `file_finder`: finds files of a session's folder by a few letters of their paths
- `retention`: automatic archiving and deletion, if configured

Commands go in; replies and, through the sessions, events come out. The service knows nothing about frontends, nor about
how an agent is put together: see `session_core.assembly`.
"""
