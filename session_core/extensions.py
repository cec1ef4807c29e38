"""The public names about extensions: discovery, manifests, consent, checks, and what people type to run them."""

from session_core._door import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
