"""What a server and its clients agree on, beside the vocabulary.

- `socket_place`: where the socket of a home is, however long the path of that home may be
"""
