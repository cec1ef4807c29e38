"""How everything looks, and the words it uses.

- `styles`: every style and symbol, made from a theme; `themes`: the colours; `no_colour`: for `NO_COLOR`
- `sanitised_text`: makes text of others safe to display; `text_width`: fits a line into cells
- `activity_glyphs`: what a session is doing, as a glyph and a colour; `permission_words`: permission modes in words
- `clock`: the time in milliseconds
"""
