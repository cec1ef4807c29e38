"""How values travel: as JSON, read strictly and written quickly.

What comes in from outside is bytes that nobody vouches for; what goes out is a vocabulary value or one
`ProtocolError` that names the place and the fault. Nothing else is ever raised because of bad bytes, and nothing is
coerced, guessed or silently left out.

- `codec`: the door: `encode`, `decode`, `to_json`, `from_json`, and `encode_event`, which all readers of an event share
- `strict_json`: from bytes to plain JSON, without duplicate keys, NaN, half characters or bottomless nesting
- `reader`: from plain JSON to values; one private converter that knows every kind of type hint of the vocabulary
- `writer`: from values to plain JSON
- `catalogue`: which classes travel, and their tags: `"type": "part_delta"` stands first in every object we write
- `error_text`: JSON paths, and what is said about faults
- `json_schema`: the schema of a class; `errors`: errors as they travel
- `schema`: makes `vocabulary.schema.json`, for clients in other languages

Every field is written, even when it has its default; what comes in may leave such fields out. `Vector` and tuples are
lists, `Rope` is text, ids are text, and JSON of unknown shape stays as it is, to a depth that leaves room for what
stands around it.

Sockets, sessions and the meaning of what is said are not the business of this package.
"""
