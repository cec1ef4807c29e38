"""A session as a document for people: one Markdown text or one HTML page, which is safe to open and to pass on.

- `conversation`: the conversation that is shown, message by message out of the store, and where other branches leave it
- `clean_text`: foreign text made harmless, freed of keys, and cut where it is very long
- `paragraphs`: prose and blocks of code in a text, told apart by our own rules
- `facts`: the facts and sentences that both kinds of document share
- `html`: the page; its table of elements and attributes is all that ever stands in one
  (its policy lets a browser load nothing else)
- `markdown`: the Markdown text; foreign text makes no heading, no link, no HTML
- `document`: all of it as pieces of bytes, written as they are read

Whoever writes to the home meanwhile is not disturbed: the document is the session at the moment when it was begun.
Memory holds the newest messages (the state of the session) and a few older ones, however long the session is.
"""
