"""Which extensions there are, and which may run.

- `search_paths`: the folders that hold extensions
- `discovery`: which of them are used, and why others are not
- `consent`: what people have agreed to
- `folder_digest`: the digest of all files of an extension, to which a consent is pinned
- `agreed_copies`: the private copies that extensions run from, made while the digest is taken
"""
