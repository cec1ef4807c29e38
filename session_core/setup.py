"""The public names for setting up an agent as its user has configured it: homes, configuration, models, trust."""

from session_core._door import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
