"""Maintenance of the SQLite store of a home: verify it, repair it, keep it small and safe.

- `verify`: `verify_store`, which reads everything and reports faults; changes nothing
- `rebuild`: `rebuild_store`, which makes a new file from every readable record, and swaps it in
- `store_files`: `compact_store`, `backup_store`, `restore_store`, `store_statistics`
- `export_import`: sessions as JSON lines, out and in; `leaf_lines`: the large parts of their executors' states
- `import_rules`: what an import takes from the file, and what from the home that the session comes into
- `partial_answers`: the text of an unfinished answer, for an export and an import
- `findings`: what `verify` reports
- `session_check`, `table_check`: the parts of `verify`, for one session and for shared data
- `file_swap`: replaces the old file by a new one, safely across crashes
- `forensics`: reading damaged files page by page

Rules:
1. A record proves itself: its checksum matches the session it names and its position in it. Nothing else is trusted.
2. A repaired session is a prefix of the original: after the first lost record, none of its records stay in place.
   Example: if record 5 of 9 is lost, 1 to 4 stay and 6 to 9 are set aside.
3. Only a complete file replaces the old one, which is kept beside it if anything in it could not be read.

Everything blocks: call it in a worker thread. `progress` receives descriptions, for people, of the current step.
"""
