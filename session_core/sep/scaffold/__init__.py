"""A new extension in Python, as a folder that works at once: manifest, source, tests and a README.

- `template`: filling a template in, and putting the folder there in one step
- `no_bytecode`: a pytest plugin that the folder's tests are run with
- `templates/`: the files, with `@NAME@` and the like where something is to be filled in; what differs from kind to kind
  lies in folders. They end in `.txt`, as they are no modules of this package.
"""
