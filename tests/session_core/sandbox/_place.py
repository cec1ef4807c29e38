"""Where tests of the sandbox keep their world: not where a sandbox has an empty folder of its own."""

import os
import pwd
from pathlib import Path

_PRIVATE = ("/tmp", "/var/tmp")


def world_base() -> Path:
    """Return a folder that a sandbox can see: beside the code, or in the user's home if the code lies in /tmp."""
    chosen = os.environ.get("SANDBOX_TEST_FOLDER")
    if chosen:
        return Path(chosen)
    beside = Path(__file__).resolve().parents[3] / ".pytest_cache"
    if not any(beside.is_relative_to(private) for private in _PRIVATE):
        return beside
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "session-core-tests"
