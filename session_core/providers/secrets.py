"""Keys that are never printed, and masking of keys in texts."""

import hmac
import re
from collections.abc import Iterable
from typing import Final, NoReturn, final
from urllib.parse import quote

MASK: Final = "***"

_SHORTEST_KNOWN: Final = 4
"""A shorter value is not a secret, and masking it would hide half of everything."""

_SHAPES: Final = (
    re.compile(r"\bsk-[\w*.…-]{6,}"),
    re.compile(r"\b(?:AIza|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|glpat-|hf_|gsk_|xai-|pplx-)[\w-]{10,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
)
_AFTER_A_NAME: Final = re.compile(
    r"""(\b(?:bearer|basic)\s+|\b(?:x-)?(?:api[-_]?key|access[-_]?token|authorization)\b["']?\s*[:=]\s*["']?)"""
    r"""(?!(?:bearer|basic)\s)[^\s"',;&<>]{6,}""",
    re.IGNORECASE,
)


@final
class Secret:
    """A key or a password; only `reveal` returns it.

    Deliberately not an attrs class: code that turns those into dictionaries would leak the secret.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself; call this where it is used and nowhere else."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(
            self._value.encode(errors="surrogatepass"), other._value.encode(errors="surrogatepass")
        )

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce__(self) -> NoReturn:
        msg = "a secret cannot be saved"
        raise TypeError(msg)


def redact(text: str, secrets: Iterable[Secret] = ()) -> str:
    """Return the text with these secrets, and anything that looks like a key, masked.

    Mask first and cut afterwards: half a key is no longer recognised.
    """
    known = {form for secret in secrets for form in _forms(secret.reveal()) if len(form) >= _SHORTEST_KNOWN}
    for form in sorted(known, key=len, reverse=True):
        text = re.sub(rf"{re.escape(form)}[\w-]*", MASK, text)
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    return _AFTER_A_NAME.sub(rf"\g<1>{MASK}", text)


def _forms(value: str) -> tuple[str, ...]:
    """Return the value as it is, URL-encoded, and as the content of a JSON string."""
    stripped = value.strip()
    return value, stripped, quote(stripped, safe=""), stripped.replace("\\", "\\\\").replace('"', '\\"')
