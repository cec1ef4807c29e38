"""The names of clients: what a client may call itself, and whose name it then carries.

A name decides who an act is ascribed to, and whose idempotency keys count. So whoever is let in with less than all
rights gets a prefix that belongs to their token, and nobody gets a name that looks like one of the server's own.
"""

import unicodedata
from typing import Final

import session_core as sc
from frontends.server.access import EVERYTHING, Access

HTTP_CLIENT: Final = "http-"
"""The name prefix of clients that send single requests and are never attached."""
GUEST: Final = "guest:"
"""The name prefix of clients with limited rights."""
RESERVED_PREFIXES: Final = (HTTP_CLIENT, GUEST, "extension:")
RESERVED_NAMES: Final = ("local", "retention")
"""The names under which the service itself acts."""
_VISIBLE_CATEGORIES: Final = frozenset("LNPS")
"""Letters, digits, punctuation and symbols; all else has no look of its own."""


def choose_client_id(wanted: str, access: Access, credential: str) -> sc.ClientId:
    """Return the name of a client that asks for one, possibly empty.

    Args:
        wanted: What it calls itself; the service checks everything else about it.
        access: Its rights.
        credential: Distinguishes the tokens by which clients are let in.

    Raises:
        Conflict: The name belongs to the server.
    """
    prefix = "" if access == EVERYTHING else f"{GUEST}{credential}:"
    name = wanted.strip().removeprefix(prefix)  # who comes back knows the whole name
    alike = fold_name(name)
    for reserved in RESERVED_PREFIXES:
        if alike.startswith(reserved):
            raise sc.Conflict(f"names that begin with {reserved!r} belong to the server", field="client_id")
    if alike in RESERVED_NAMES:
        raise sc.Conflict(f"the name {alike!r} belongs to the server", field="client_id")
    if wanted and not alike:
        raise sc.InvalidInput("client_id must contain a visible character", field="client_id")
    return sc.ClientId(prefix + (name or sc.new_id("client")))


def fold_name(name: str) -> str:
    """Return what people take a name for: without case, width, marks, blanks and what cannot be seen."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    return "".join(each for each in folded if unicodedata.category(each)[0] in _VISIBLE_CATEGORIES)
