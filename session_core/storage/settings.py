"""What people may set for a home, in its file `config.toml`. Reading it blocks for a moment.

    [retention]
    archive_after_days = 30
    delete_archived_after_days = 90

A missing file, table or key means the default. Anything that is not known is refused: a misspelt key must not silently
mean that sessions are kept for ever, or are not.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.errors import InvalidInput

SETTINGS_FILE: Final = "config.toml"
MAX_SETTINGS_BYTES: Final = 64 * 1024
"""People write this file by hand; what is larger is another file."""


def _check_days(_: object, field: "attrs.Attribute[int | None]", value: object) -> None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return
    raise InvalidInput(f"{field.name} must be a whole number of days, at least 1, not {value!r}", field=field.name)


@attrs.frozen(kw_only=True)
class Retention:
    """How long sessions are kept, counted from their last change; None, the default, is for ever.

    Attributes:
        archive_after_days: Sessions that nobody has touched for this long are archived.
        delete_archived_after_days: Archived sessions that nobody has touched for this long, archiving included, are
            deleted for good, whoever archived them.
    """

    archive_after_days: int | None = attrs.field(default=None, validator=_check_days)
    delete_archived_after_days: int | None = attrs.field(default=None, validator=_check_days)

    @property
    def keeps_everything(self) -> bool:
        """Whether nothing ever becomes due."""
        return self.archive_after_days is None and self.delete_archived_after_days is None


@attrs.frozen(kw_only=True)
class HomeSettings:
    """The settings of a home; each table of the file is one of these."""

    retention: Retention = Retention()


def read_settings(home: Path) -> HomeSettings:
    """Read the settings of a home; a missing file means the defaults.

    Raises:
        InvalidInput: The file cannot be read, or holds something unknown or wrong; the message names the file, the key
            and what was expected.
    """
    path = home / SETTINGS_FILE
    tables = _parse(path, _content_of(path))
    for name in tables:
        if name != "retention":
            raise InvalidInput(f"{path}: {name!r} is not a known setting; expected the table [retention]", field=name)
    return HomeSettings(retention=_retention(path, tables.get("retention", {})))


def _content_of(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # reading a pipe of that name would never end
            raise InvalidInput(f"{path} is not a file; expected a text file with settings, or none")
        with path.open("rb") as file:
            content = file.read(MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_SETTINGS_BYTES:
        raise InvalidInput(f"{path} is longer than {MAX_SETTINGS_BYTES} bytes; expected a short file with settings")
    return content


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text in UTF-8 (at byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} cannot be understood: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{path} cannot be understood: it is nested too deeply") from error


def _retention(path: Path, table: object) -> Retention:
    if not isinstance(table, dict):
        raise InvalidInput(f"{path}: retention must be a table, [retention], not {table!r}", field="retention")
    known = [field.name for field in attrs.fields(Retention)]
    for key in table:
        if key not in known:
            raise InvalidInput(
                f"{path}: {key!r} is not a known setting of [retention]; expected {' or '.join(known)}",
                field=f"retention.{key}",
            )
    try:
        return Retention(**table)
    except InvalidInput as wrong:
        raise InvalidInput(f"{path}, [retention]: {wrong.message}", field=f"retention.{wrong.field}") from None
