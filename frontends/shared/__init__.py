"""What frontends that print to a terminal share.

- `sanitise`: makes foreign text harmless: nothing a model, tool or file says can steer the terminal
- `style`: colours and symbols, where the terminal can show them
- `output`, `streams`: writing to stdout and stderr without ever stalling the event loop, and asking
- `text_width`, `figures`: tables and lines that fit, and times, sizes and places in people's words
- `progress`: a line about work that takes long
- `signals`: being asked to end while something is still being started
- `socket_path`: where the socket of a home is

What comes in: text from anywhere. What goes out: bytes on a file descriptor. Escape codes come from `style` alone;
everything else passes through `sanitise` first.
"""
