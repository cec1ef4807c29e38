"""The service: one actor that runs commands in order, and the work it sets going.

- `service`: `SessionService` and `open_session_service`, the way in
- `config`: `ServiceConfig`, where everything has a default
- `core`: what handlers work with: sessions, starting and ending turns
- `other_work`: summaries and undos, which are no turns
- `side_work`: what runs beside turns: commands of extensions, logins, reloads
- `extensions_seam`: `Extensions`, what handlers need of extensions, and in whose name those act
- `tool_host`: what a turn does for its tools: files kept for an undo, child sessions
- `program_gate`: programs that extensions run, judged and confined like commands of a model
- `family`: which sessions work for which
- `file_finder`: files of a session's folder by some letters of their paths
- `before`: what is done about a command before it is sent: extensions are asked, its folder is read
- `setup`: a whole coding agent out of a home and a folder, or a home and any number of folders
- `folders`: the folders that sessions work in, each with its own rules, defaults and MCP servers; `folder_files` reads
  what one says, `folder_servers` opens its servers, `folder_telling` says what it has changed, `open_folder` is
  one of them, `folder_hosts` runs their own extensions, `folder_extensions` joins these with the user's
- `late_models`: models that an extension may bring once it runs
- `reloading`: `follow_config`, which takes changes of the configuration over while the service runs
- `mailbox`: the bounded queue of commands and the actor that drains it; `lines` keeps the order of those of a session
  that have to wait before they come in
- `acknowledging`: replies that wait for the disk
- `residents`: which sessions are in memory, and how they leave and come back
- `retention`: what is archived and deleted by itself, if anything
- `handlers`: one synchronous function per command, in a table
- `stopping`: the stop contract, beside the mailbox
- `wakeups`: messages that deliver themselves later
- `idempotency`: replies remembered for retries
- `statistics`: counts for people and tests
- `feed`: snapshot, events, and a new snapshot after a lag, for readers in this process

In come commands; out go replies and, through the sessions, events. Frontends are not its business.
"""
