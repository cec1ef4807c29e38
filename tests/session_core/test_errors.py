"""Every error has a code of its own and a sentence for people."""

import pytest

from session_core import errors
from session_core.errors import (
    CursorProblem,
    CursorRefused,
    FilesChanged,
    InvalidInput,
    Lagged,
    ProtocolError,
    SessionCoreError,
)
from session_core.ids import Cursor, Epoch


def test_codes_are_stable_and_unique() -> None:
    """The codes are part of the wire: they do not change, and no two errors share one."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SessionCoreError)]
    assert {
        "ChainTooLong": "chain_too_long",
        "CursorRefused": "cursor_refused",
        "Conflict": "conflict",
        "ExtensionFailed": "extension_failed",
        "FilesChanged": "files_changed",
        "Forbidden": "forbidden",
        "Disconnected": "disconnected",
        "InternalError": "internal",
        "AccessDenied": "access_denied",
        "InvalidInput": "invalid_input",
        "Lagged": "lagged",
        "NoStore": "no_store",
        "NotFound": "not_found",
        "Overloaded": "overloaded",
        "ProtocolError": "protocol_error",
        "ReadOnly": "read_only",
        "ServiceClosed": "closed",
        "SessionCoreError": "error",
        "StorageFailed": "storage_failed",
        "StoreDamaged": "store_damaged",
        "StoreInUse": "store_in_use",
        "StoreUnusable": "store_unusable",
        "Unavailable": "unavailable",
    } == {kind.__name__: kind.code for kind in kinds}


def test_an_error_names_its_field() -> None:
    """The sentence is the exception's text, and the field stands beside it."""
    error = InvalidInput("text must not be empty", field="text")
    assert ("text must not be empty",) * 2 == (str(error), error.message)
    assert "text" == error.field


def test_a_protocol_error_says_where() -> None:
    """The JSON path is part of the sentence, and the reason is kept without it."""
    error = ProtocolError("no such field", field="$.a")
    assert ("no such field (at $.a)", "no such field", "$.a") == (str(error), error.reason, error.field)


def test_a_lag_counts() -> None:
    """A lag says exactly how many events are gone."""
    error = Lagged(7)
    assert 7 == error.missed
    assert "missed 7 events" in str(error)


@pytest.mark.parametrize("problem", ["expired", "foreign_epoch", "future"])
def test_a_refused_cursor_says_why(problem: CursorProblem) -> None:
    """Each reason to refuse a cursor has a sentence of its own that tells what to do."""
    cursor = Cursor(epoch=Epoch("run_x"), seq=3)
    error = CursorRefused(problem, cursor)
    assert (problem, cursor, "after") == (error.problem, error.cursor, error.field)
    assert str(error).endswith("take a new snapshot")
    assert 3 == len({str(CursorRefused(each, cursor)) for each in ("expired", "foreign_epoch", "future")})


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("no", field="text"),
        ProtocolError("no", field="$.a"),
        FilesChanged("no", files=(("a", "why"),)),
        Lagged(3),
        CursorRefused("expired", Cursor(epoch=Epoch("e"), seq=1)),
    ],
)
def test_an_error_can_be_raised_anew(error: SessionCoreError) -> None:
    """Whoever waits for the same failure gets an object of their own that says the same in every field."""
    fresh = error.fresh_copy()
    assert (type(error), str(error), vars(error)) == (type(fresh), str(fresh), vars(fresh))
    assert error is not fresh
