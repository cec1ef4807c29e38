"""The version of session-core: read by the build, the package and the command line."""

__version__ = "0.1.0"
