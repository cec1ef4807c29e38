"""How long sessions are kept; people set it in the table `[retention]` of their configuration."""

import attrs

from session_core.errors import InvalidInput


def _check_days(_: object, field: "attrs.Attribute[int | None]", value: object) -> None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return
    raise InvalidInput(f"{field.name} must be a whole number of days, at least 1, not {value!r}", field=field.name)


@attrs.frozen(kw_only=True)
class Retention:
    """How long sessions are kept, counted from their last change; None, the default, means for ever.

    Attributes:
        archive_after_days: Sessions without a change for this long are archived.
        delete_archived_after_days: Archived sessions without a change for this long, archiving included, are deleted
            for good, however they were archived.
    """

    archive_after_days: int | None = attrs.field(default=None, validator=_check_days)
    delete_archived_after_days: int | None = attrs.field(default=None, validator=_check_days)

    @property
    def keeps_everything(self) -> bool:
        """Whether nothing ever becomes due."""
        return self.archive_after_days is None and self.delete_archived_after_days is None
