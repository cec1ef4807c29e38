"""Reading damaged SQLite files page by page.

- `raw_file`: pages and write-ahead frames of a file, without SQLite
- `harvest`: every record that can still be read, gathered in a scratch file
- `salvage`: a new store out of what was harvested
"""
