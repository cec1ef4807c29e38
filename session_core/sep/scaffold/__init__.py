"""A new extension in Python, as a folder that works right away: manifest, source, tests and a README.

- `template`: fills in a template and creates the folder in one step
- `no_bytecode`: a pytest plugin for the folder's tests
- `templates/`: the files, with placeholders such as `@NAME@`; files that differ by kind are in subfolders. They end in
  `.txt` because they are not modules of this package.
"""
