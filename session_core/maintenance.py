"""The public names for looking after a store: verify, rebuild, compact, back up, restore, export, import."""

from session_core._door import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
