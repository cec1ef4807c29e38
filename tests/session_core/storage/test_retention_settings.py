"""How long sessions are kept: what can be said about it."""

from typing import Any

import pytest

from session_core.errors import InvalidInput
from session_core.storage.retention_settings import Retention


def test_by_default_everything_is_kept() -> None:
    """Nothing is archived or deleted by itself unless somebody says so."""
    assert Retention().keeps_everything
    assert not Retention(archive_after_days=1).keeps_everything
    assert not Retention(delete_archived_after_days=1).keeps_everything


@pytest.mark.parametrize("days", [0, -5, True, 1.0, "1"])
@pytest.mark.parametrize("field", ["archive_after_days", "delete_archived_after_days"])
def test_days_are_whole_and_at_least_one(field: str, days: Any) -> None:
    """Programs that set this themselves are checked too."""
    with pytest.raises(InvalidInput) as refused:
        Retention(**{field: days})

    assert field == refused.value.field
    assert f"{field} must be a whole number of days, at least 1, not {days!r}" == refused.value.message
