"""Reading a `ui/request`: what each kind of dialog or display needs to say."""

from typing import Any, Final

from session_core.limits import MAX_OPEN_REQUESTS, MAX_SHOWN_CHARS
from session_core.sep.host.calls.notifications import check_open_json
from session_core.sep.protocol.fields import Fields, WrongField
from session_core.sep.protocol.names import UiKind
from session_core.sep.protocol.render_blocks import read_render_block
from session_core.wire.error_text import quoted

MAX_PROMPT_CHARS: Final = 16_000
"""What people are asked or told at once; nobody reads more in a dialog."""
MAX_OPTIONS: Final = MAX_OPEN_REQUESTS
"""Answers to choose from; a longer list needs a search, not a dialog."""
MAX_LINE_CHARS: Final = 1_000
"""One option, a title, a status."""

LEVELS: Final = ("info", "warn", "error")


def read_ui_request(kind: UiKind, params: Fields) -> dict[str, Any]:
    """Return what belongs to a request of this kind, and nothing else of it.

    Raises:
        WrongField: Something is missing or cannot be shown.
    """
    match kind:
        case "select":
            options = params.texts("options", most=MAX_OPTIONS, chars=MAX_LINE_CHARS, empty=True)
            if not options:
                raise WrongField("options", "must be a list of texts with something to choose from")
            return {"prompt": _prompt(params), "options": list(options)}
        case "confirm":
            return {"prompt": _prompt(params)}
        case "input":
            default = params.text_or_none("default", most=MAX_PROMPT_CHARS, empty=True)
            return {"prompt": _prompt(params)} | ({} if default is None else {"default": default})
        case "notify":
            return {"message": params.text("message", most=MAX_PROMPT_CHARS, empty=True), "level": _level(params)}
        case "set_status":
            return {"status": params.text("status", most=MAX_LINE_CHARS, empty=True)}
        case "set_widget":
            if "widget" not in params:
                raise WrongField("widget", "is missing")
            check_open_json(params.plain["widget"], "widget", most=MAX_SHOWN_CHARS)
            read_render_block(params.plain["widget"], "widget")
            return {"widget": params.plain["widget"]}
        case "set_title":
            return {"title": params.text("title", most=MAX_LINE_CHARS, empty=True)}


def _prompt(params: Fields) -> str:
    return params.text("prompt", most=MAX_PROMPT_CHARS, empty=True)


def _level(params: Fields) -> str:
    return one_of(params, "level", LEVELS, "info")


def one_of(params: Fields, key: str, words: tuple[str, ...], default: str) -> str:
    """Return one of a few words.

    Raises:
        WrongField: It is something else.
    """
    word = params.text_or_none(key) or default
    if word not in words:
        known = ", ".join(words)
        raise WrongField(params.at(key), f"must be one of {known}, got {quoted(word)}")
    return word
