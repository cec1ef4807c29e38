"""`session-core export`: a session as lines of JSON for another home, or as a document for people.

A document is one Markdown text or one HTML page, safe to open and to pass on.

- `command`: `export`, into a file that is written as a whole or not at all
- `conversation`: the messages of the conversation, read one by one from the store, and where other branches leave it
- `document_text`: makes foreign text harmless, masks keys, and cuts very long text
- `paragraphs`: tells prose from code blocks in a text, by our own rules
- `facts`: the facts about the session that both kinds of document state
- `writer`: what both kinds write of a conversation, and in which order; each kind says how its elements look
- `html`: the page; its table of elements and attributes lists everything a page may contain
  (its policy lets a browser load nothing else)
- `markdown`: the Markdown text; foreign text makes no heading, no link, no HTML
- `document`: the whole document as pieces of bytes, written as they are read

A writer to the home is not disturbed: the document shows the session at the moment the export began. Memory holds the
newest messages (the state of the session) and a few older ones, however long the session is.
"""
