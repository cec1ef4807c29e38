"""Typed errors that travel."""

import pytest

from session_core import errors
from session_core.errors import SessionCoreError
from session_core.ids import Cursor, Epoch
from session_core.protocols.faults import DuplicatePlugin
from session_core.vocabulary.client_protocol import ErrorInfo
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.codec import decode, encode
from session_core.wire.errors import error_from_info, error_info

_PLAIN = [
    cls("it went wrong", field="name")
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, SessionCoreError) and cls not in {errors.Lagged, errors.CursorRefused}
]
_OTHERS = [
    errors.Lagged(7),
    errors.CursorRefused("expired", Cursor(epoch=Epoch("run_x"), seq=3)),
    errors.FilesChanged("no", files=(("a.py", "changed since"), ("b.py", "gone"))),
    errors.ExtensionFailed("no", number=-32001),
    errors.ExtensionFailed("no"),
]


def _told(error: SessionCoreError) -> tuple[type, dict[str, object], str]:
    return type(error), {key: value for key, value in vars(error).items() if key != "reason"}, error.code


@pytest.mark.parametrize("error", [*_PLAIN, *_OTHERS], ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_at_the_other_end(error: SessionCoreError) -> None:
    """Every error of the library arrives as the same class with the same fields."""
    arrived = error_from_info(decode(encode(error_info(error)), ErrorInfo))
    assert _told(error) == _told(arrived)
    assert str(error) == str(arrived)


def test_an_unknown_error_keeps_its_code_and_message() -> None:
    """An error of a code that this program does not know is told as it is."""
    arrived = error_from_info(ErrorInfo(code="brand_new", message="something new", field="x"))
    assert ("brand_new", "something new", "x") == (arrived.code, arrived.message, arrived.field)
    assert "error" == SessionCoreError.code


def test_an_unknown_error_is_of_the_nearest_kind() -> None:
    """An error that only the service's own parts know is caught by those who wait for the kind that it is one of."""
    arrived = error_from_info(decode(encode(error_info(DuplicatePlugin("two of them"))), ErrorInfo))
    assert isinstance(arrived, errors.Conflict)
    assert DuplicatePlugin.code == arrived.code


@pytest.mark.parametrize(
    "info",
    [
        ErrorInfo(code="lagged", message="m"),
        ErrorInfo(code="lagged", message="m", details=JsonObject({"missed": "many"})),
        ErrorInfo(code="cursor_refused", message="m", details=JsonObject({"problem": "expired"})),
        ErrorInfo(code="files_changed", message="m", details=JsonObject({"files": [1]})),
    ],
)
def test_details_that_make_no_sense_do_no_harm(info: ErrorInfo) -> None:
    """An error whose details cannot be used still arrives with its message."""
    assert "m" == error_from_info(info).message
