"""Vocabulary values as JSON, read strictly and written quickly.

Input is untrusted bytes; output is a vocabulary value or one `ProtocolError` that names the path and the fault. Bad
bytes never raise anything else, and nothing is coerced, guessed or silently dropped.

- `codec`: the public API: `encode`, `decode`, `to_json`, `from_json`, and `encode_event`, shared by all event readers
- `strict_json`: from bytes to plain JSON, without duplicate keys, NaN, lone surrogates or bottomless nesting
- `reader`: from plain JSON to values; one private converter that knows every kind of type hint of the vocabulary
- `writer`: from values to plain JSON
- `catalogue`: which classes are on the wire, and their tags: `"type": "part_delta"` comes first in each written object
- `error_text`: JSON paths, and texts of faults
- `json_schema`: checks values against foreign JSON schemas; `errors`: errors on the wire
- `schema`: makes `vocabulary.schema.json`, for clients in other languages

Every field is written, even if it has its default; input may omit such fields. `Vector`s and tuples are lists, `Rope`
is text, ids are text, and JSON of unknown shape stays as it is, to a depth that leaves room for the values around it.

Sockets, sessions and the meaning of messages are out of scope.
"""

from session_core._door import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
