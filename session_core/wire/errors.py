"""Typed errors on the wire: an error raised in the service is raised again in a remote client."""

from typing import Any

from session_core import errors
from session_core.errors import CursorRefused, ExtensionFailed, FilesChanged, InternalError, Lagged, SessionCoreError
from session_core.ids import Cursor, Epoch
from session_core.vocabulary.client_protocol import ErrorInfo
from session_core.vocabulary.frozen import JsonObject


def _all_below(cls: type[SessionCoreError]) -> list[type[SessionCoreError]]:
    return [cls, *(each for child in cls.__subclasses__() for each in _all_below(child))]


_BY_CODE = {cls.code: cls for cls in _all_below(SessionCoreError) if cls.__module__ == errors.__name__}


def error_info(error: SessionCoreError) -> ErrorInfo:
    """Return an error in its wire form."""
    kinds = [cls.code for cls in type(error).__mro__[1:] if issubclass(cls, SessionCoreError)]
    others = tuple(dict.fromkeys(code for code in kinds if code not in {error.code, SessionCoreError.code}))
    return ErrorInfo(code=error.code, message=error.message, field=error.field, details=_details(error), kinds=others)


def _details(error: SessionCoreError) -> JsonObject | None:
    match error:
        case FilesChanged(files=files):
            return JsonObject({"files": [list(each) for each in files]})
        case ExtensionFailed(number=int(number)):
            return JsonObject({"number": number})
        case Lagged(missed=missed):
            return JsonObject({"missed": missed})
        case CursorRefused(problem=problem, cursor=cursor):
            return JsonObject({"problem": problem, "epoch": cursor.epoch, "seq": cursor.seq})
        case _:
            return None


def error_from_info(info: ErrorInfo) -> SessionCoreError:
    """Rebuild an error; one with an unknown code gets the nearest known class and keeps its own code."""
    cls = next((_BY_CODE[code] for code in (info.code, *info.kinds) if code in _BY_CODE), SessionCoreError)
    error = cls.__new__(cls)
    SessionCoreError.__init__(error, info.message, field=info.field)
    details: dict[str, Any] = dict(info.details or {})
    if info.code not in _BY_CODE:
        error.code = info.code  # type: ignore[misc]  # keep the server's code
    try:
        match error:
            case FilesChanged():
                error.files = tuple((str(path), str(why)) for path, why in details.get("files", ()))
            case ExtensionFailed():
                number = details.get("number")
                error.number = number if isinstance(number, int) else None
            case Lagged():
                error.missed = int(details["missed"])
            case CursorRefused():
                error.problem = details["problem"]
                error.cursor = Cursor(epoch=Epoch(details["epoch"]), seq=details["seq"])
            case errors.ProtocolError():
                error.reason = info.message
            case _:
                pass
    except (LookupError, TypeError, ValueError):
        return InternalError(info.message, field=info.field)
    return error
