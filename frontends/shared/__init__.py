"""Shared parts of the frontends that print to a terminal.

- `sanitise`: makes foreign text harmless: no text of a model, tool or file can control the terminal
- `style`: colours and symbols, if the terminal can show them
- `output`, `streams`: writing to stdout and stderr without ever blocking the event loop, and asking questions
- `text_width`, `figures`: tables and lines that fit, and human-readable times, sizes and paths
- `progress`: a progress line for slow work
- `signals`: signals during startup
- `socket_path`: the path of the socket of a home

Input: text from anywhere. Output: bytes on a file descriptor. Escape codes come from `style` alone;
everything else passes through `sanitise` first.
"""
