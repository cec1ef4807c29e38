"""Which extensions there are, and which may run.

- `search_paths`: the folders in which extensions lie
- `discovery`: which of them count, and why others do not
- `consent`: what people have agreed to
- `folder_digest`: the digest of all files of an extension, to which a consent is pinned
"""
