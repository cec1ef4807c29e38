"""Session storage: an append-only journal of events per session, and data derived from it.

- `base`: `SessionStore` and `StoreReader`, the interfaces that the service needs
- `memory`: `MemoryStore`, which lives as long as the process
- `sqlite`: `SqliteStore`, the default, with the group commit into one file per home; `sqlite_reader` reads that file,
  even concurrently
- `writer`, `reader`, `session_list`: one batch into SQL, SQL into values; in worker threads
- `executor_state`: the large parts of executor states; `search`: full text
- `rows`: inserts many rows at once, and tells whether a store has a table
- `kv`: small values stored by extensions
- `schema`: tables and migrations
- `records`: events as the journal holds them: checksums, and long strings stored separately
- `partial_text`: the text of unfinished answers, saved periodically
- `files`, `home`, `home_lock`: the files of a store, their modes, and the lock that ensures a single writer
- `private_files`, `private_table`: the one way to read and write what only we may read; small tables in JSON files
- `ownership`: whether other users could have written a file, for everything that steers this program
- `retention_settings`: how long sessions are kept
- `maintenance`: verify, rebuild, compact, back up, export, import

Input: recorded events, synchronously. Output: the state from which a session resumes, its messages, and search.
"""
