"""Read damaged SQLite files page by page.

- `raw_file`: pages and write-ahead frames of a file, without SQLite
- `harvest`: every readable record, gathered in a scratch file
- `salvage`: records found in raw pages, each verified by its checksum or digest
"""
