"""Hints after a command that failed because of its sandbox: what was kept back, and how to ask for it."""

import re
from collections.abc import Iterator
from typing import Final

from session_core.processes.run import ProcessOutcome
from session_core.sandbox.protected_paths import is_protected_name
from session_core.tools.command_confinement import Confinement

NO_NETWORK: Final = "the sandbox has no network; to ask for it: network=true, in a line that a person types !+network"
READ_ONLY: Final = (
    "the sandbox keeps .git and other protected files as they are; to ask for changing them: change_protected=true, in "
    "a line that a person types !+protected"
)
NO_SOCKETS: Final = (
    "the sandbox has no unix sockets; to ask for them: sockets=true, in a line that a person types !+sockets"
)

_OFFLINE: Final = re.compile(
    r"could not resolve (?:host|proxy)|temporary failure in name resolution|name or service not known"
    r"|no address associated with hostname|network is unreachable|\bEAI_AGAIN\b|\bENETUNREACH\b",
    re.IGNORECASE,
)
_UNCHANGEABLE: Final = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_REFUSED: Final = re.compile(r"operation not permitted|\bEPERM\b", re.IGNORECASE)
_ABOUT_SOCKETS: Final = re.compile(r"\bunix\b|\bsockets?\b|\bagent\b", re.IGNORECASE)
_BETWEEN_NAMES: Final = re.compile(r"""[\s/'"`‘’“”:;,=()\[\]]+""")


def find_hints(outcome: ProcessOutcome, confinement: Confinement) -> Iterator[str]:
    """Yield what may have made a command fail, judging by its output."""
    plan = confinement.plan
    if plan is None or outcome.exit_code == 0:
        return
    lines = f"{outcome.output}\n{outcome.error_output}".splitlines()
    if not plan.network and any(map(_OFFLINE.search, lines)):
        yield NO_NETWORK
    may_ask = plan.writable and "protected" not in confinement.requested
    if may_ask and any(_UNCHANGEABLE.search(line) and _names_protected(line) for line in lines):
        yield READ_ONLY
    if not confinement.sockets and any(map(_REFUSED.search, lines)) and any(map(_ABOUT_SOCKETS.search, lines)):
        yield NO_SOCKETS


def _names_protected(line: str) -> bool:
    return any(map(is_protected_name, _BETWEEN_NAMES.split(line)))
