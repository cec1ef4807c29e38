"""Care for the SQLite store of a home: look whether it is sound, make it sound again, keep it small and safe.

- `verify`: `verify_store`, which reads everything and says what does not fit; changes nothing
- `rebuild`: `rebuild_store`, which makes a new file from every record that can still be read, and swaps it in
- `store_files`: `compact_store`, `backup_store`, `restore_store`, `store_statistics`
- `export_import`: sessions as JSON lines, out and in
- `partial_answers`: the text of an answer that is being written, for an export and an import
- `findings`: what `verify` reports
- `session_check`, `table_check`: the parts of `verify`, for one session and for what all share
- `file_swap`: a new file in the place of the old one, whatever crashes meanwhile
- `forensics`: reading damaged files page by page

Rules:
1. A record proves itself: its checksum fits the session it names and its place in it. Nothing else is believed.
2. A session stays a beginning of what it was: after the first record that is lost, nothing of it is kept in its place.
3. The old file is only replaced by a complete one, and kept beside it if anything in it could not be read.

Everything blocks: call it in a worker thread. `progress` is told, in words for people, what is being done.
"""
