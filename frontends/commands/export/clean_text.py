"""Foreign text made fit for a document: harmless characters, no keys, and a bound.

Order matters: control characters go first, as they could hide a key; then keys are masked; and only then is cut, as
half a key is not recognised.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.sanitise import one_line, sanitise

MOST_CHARS = 20_000
"""What is kept of a result, an attached file or a thought; whoever needs all of it has the JSON lines."""
MOST_LINE = 200
_BEYOND = 8_192
"""What is read beyond a cut, so that no key is halved by it."""
_LEAST_BEYOND = 1_024
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0d\U000e0000-\U000e0fff]")
"""Letters and marks that count as printable and cannot be seen; `sanitise` decides what becomes of them."""


def remove_controls(text: str) -> str:
    """Return what `sanitise` does, quickly: nothing goes on from one line to the next, and most lines need nothing."""
    return "\n".join([line if _is_plain(line) else sanitise(line) for line in text.split("\n")])


def _is_plain(line: str) -> bool:
    return line.replace("\t", "").isprintable() and (line.isascii() or not _UNSEEN.search(line))


@attrs.frozen(kw_only=True)
class CutText:
    """A text as it may be written down; `whole` is how many characters it had if something was left out, else None."""

    text: str
    whole: int | None = None


@attrs.frozen(kw_only=True)
class TextCleaner:
    """Cleans texts; `secrets` are the keys that are known here, beside all that looks like one."""

    secrets: tuple[sc.Secret, ...] = ()

    def text(self, foreign: str) -> str:
        """Return all of a text."""
        return sc.redact(remove_controls(foreign), self.secrets)

    def bounded(self, foreign: str, most: int = MOST_CHARS) -> CutText:
        """Return the beginning of a text."""
        if len(foreign) <= most:
            return CutText(text=self.text(foreign))
        looked_at = foreign[: most + _BEYOND]
        clean = self.text(looked_at)
        # What escape sequences had taken up could otherwise bring a halved key into sight.
        safe = len(clean) if len(looked_at) == len(foreign) else max(0, len(clean) - _LEAST_BEYOND)
        return CutText(text=clean[: min(most, safe)], whole=len(foreign))

    def line(self, foreign: str, most: int = MOST_LINE) -> str:
        """Return a text as one short line."""
        return one_line(self.text(foreign[: most * 20 + _BEYOND]), most)


def known_secrets(home: Path, cwd: Path, environ: Mapping[str, str] = os.environ) -> tuple[sc.Secret, ...]:
    """Return the keys of the configuration, wherever they are written; a configuration that is wrong has none."""
    try:
        providers = sc.load_config(home, cwd, environ, trust=None).providers
    except (sc.SessionCoreError, OSError):
        return ()
    found: list[sc.Secret] = []
    for each in providers:
        found += [secret for _, secret in each.headers]
        found += [each.key] if each.key is not None else []
        found += [sc.Secret(environ[each.key_env])] if each.key_env is not None and each.key_env in environ else []
    return tuple(each for each in dict.fromkeys(found) if each)
