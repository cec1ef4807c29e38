"""Makes foreign text fit for a document: harmless characters, no keys, and a bound.

Order matters: control characters go first, as they could hide a key; then keys are masked; cutting comes last, as
half a key is not recognised.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.sanitise import one_line, sanitise

MOST_CHARS = 20_000
"""The limit for a result, an attached file or thinking; the JSON lines hold everything."""
MOST_LINE = 200
_BEYOND = 8_192
"""How far to read beyond a cut, so that it halves no key."""
_LEAST_BEYOND = 1_024


@attrs.frozen(kw_only=True)
class CutText:
    """A text as it may be written; `whole` is its original length if something was cut, else None."""

    text: str
    whole: int | None = None


@attrs.frozen(kw_only=True)
class DocumentSanitiser:
    """Cleans texts; `secrets` are the known keys, besides everything that looks like one."""

    secrets: tuple[sc.setup.Secret, ...] = ()

    def text(self, foreign: str) -> str:
        """Return all of a text, cleaned."""
        return sc.setup.redact(sanitise(foreign), self.secrets)

    def bounded(self, foreign: str, most: int = MOST_CHARS) -> CutText:
        """Return the beginning of a text, cleaned."""
        if len(foreign) <= most:
            return CutText(text=self.text(foreign))
        looked_at = foreign[: most + _BEYOND]
        clean = self.text(looked_at)
        # Otherwise the room freed by escape sequences could bring a halved key into view.
        safe = len(clean) if len(looked_at) == len(foreign) else max(0, len(clean) - _LEAST_BEYOND)
        return CutText(text=clean[: min(most, safe)], whole=len(foreign))

    def line(self, foreign: str, most: int = MOST_LINE) -> str:
        """Return a text as one short line, cleaned."""
        return one_line(self.text(foreign[: most * 20 + _BEYOND]), most)


def known_secrets(home: Path, cwd: Path, environ: Mapping[str, str] = os.environ) -> tuple[sc.setup.Secret, ...]:
    """Return the keys of the configuration, wherever they are set; an invalid configuration has none."""
    try:
        providers = sc.setup.load_config(home, cwd, environ, trust=None).providers
    except (sc.SessionCoreError, OSError):
        return ()
    found: list[sc.setup.Secret] = []
    for each in providers:
        found += [secret for _, secret in each.headers]
        found += [each.key] if each.key is not None else []
        found += (
            [sc.setup.Secret(environ[each.key_env])] if each.key_env is not None and each.key_env in environ else []
        )
    return tuple(each for each in dict.fromkeys(found) if each)
