"""Where sessions are kept: an append-only journal of events per session, and what is derived from it.

- `base`: `SessionStore` and `StoreReader`, what the service needs of a store
- `memory`: `MemoryStore`, which lives as long as the process
- `sqlite`: `SqliteStore`, the default: group commit into one file per home; `sqlite_reader` reads it, also beside it
- `writer`, `reader`, `session_list`: batches into SQL, SQL into values; in worker threads
- `executor_state`: the large parts of what executors keep; `search`: full text; `rows`: inserting many rows
- `kv`: small values that extensions keep
- `schema`: tables and migrations
- `records`: events as the journal holds them: checksums, and long texts apart
- `partial_text`: the text of unfinished answers, saved now and then
- `files`, `home`, `home_lock`: the files of a store, their modes, and the lock that makes one writer
- `settings`: what `config.toml` of a home says
- `maintenance`: verify, rebuild, compact, back up, export, import

In come recorded events, synchronously; out comes what a session goes on from, its messages, and search.
"""
