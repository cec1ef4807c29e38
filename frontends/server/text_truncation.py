"""Shorten the texts of a value that does not fit into a line, as little as possible.

Every text is measured once, up to the length that could be sent at all, and their common limit is computed from that.
So the time depends on the available room, and hardly on how much too long a value is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

import session_core as sc

_SHORT_TEXT: Final = 256  # no id or name is longer
_FEW: Final = 64  # no object of ours has more fields
_CHARACTER: Final = 6  # the most bytes of one character in JSON
_REMARK: Final = 80  # bytes of the remark about a shortened text
_MISSING: Final = sc.JsonObject({"…": "what was here was too long to be sent"})


def shorten_to_fit(value: object, room: int) -> Any:
    """Return a value as plain JSON that fits into `room` bytes.

    It always fits, unless there is hardly more room than our own ids, names and numbers take.
    """
    plain, size = _shorten_parts(sc.wire.to_json(value), room)
    if size > room:  # open JSON with very many small values, none of which has many parts
        plain, _ = _shorten_parts(sc.wire.to_json(_without_open_json(value)), room)
    return plain


def _shorten_parts(plain: Any, room: int) -> tuple[Any, int]:
    """Shorten names, texts and lists as far as necessary; return the rest, and its size in bytes."""
    if _has_long_names(plain) and len(sc.wire.encode(plain)) > room:
        plain = _with_short_names(plain)
    texts = [*_long_texts(plain)]
    # A character takes at least one byte: longer texts are cut anyway, and need not be measured to their end.
    most = max(_SHORT_TEXT, _fair_share(sorted(map(len, texts)), room))
    sizes = {text: len(sc.wire.encode(text[:most])) for text in texts}
    room_for_texts = (
        room - len(sc.wire.encode(_with_texts(plain, lambda _: ""))) + 2 * len(texts)
    )  # both counts include the quotes
    taken = sorted(sizes[text] for text in texts)
    if sum(taken) > room_for_texts or any(len(text) > most for text in texts):
        share = max(_SHORT_TEXT * _CHARACTER, _fair_share(taken, room_for_texts))
        plain = _with_texts(plain, lambda text: _shorten_text(text, most, sizes[text], share))
    size, many = len(sc.wire.encode(plain)), _most_parts(plain)
    while size > room and many > _FEW:
        many = max(_FEW, min(many - 1, many * room // size))
        plain = _with_last(plain, many)
        size = len(sc.wire.encode(plain))
    return plain, size


def _without_open_json(value: Any) -> Any:
    """Return a value of ours without its larger open JSON; a remark in its place says that it is missing."""
    if isinstance(value, tuple | sc.Vector):
        return type(value)(map(_without_open_json, value))
    if not attrs.has(type(value)):
        return value
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(value)):
        if not field.init:
            continue
        inside = getattr(value, field.name)
        if isinstance(inside, sc.JsonObject) or (field.type == sc.JsonValue and isinstance(inside, tuple)):
            if len(sc.wire.encode(inside)) > _SHORT_TEXT:
                changes[field.name] = _MISSING
        elif (less := _without_open_json(inside)) is not inside:
            changes[field.name] = less
    return attrs.evolve(value, **changes) if changes else value


def _has_long_names(plain: Any) -> bool:
    if isinstance(plain, Mapping):
        return any(len(name) > _SHORT_TEXT or _has_long_names(value) for name, value in plain.items())
    return isinstance(plain, list | tuple) and any(map(_has_long_names, plain))


def _with_short_names(plain: Any) -> Any:
    """Return this with long names cut; if names become equal, the last one stays."""
    if isinstance(plain, Mapping):
        return {_shorten_name(name): _with_short_names(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_with_short_names(value) for value in plain]
    return plain


def _shorten_name(name: str) -> str:
    if len(name) <= _SHORT_TEXT:
        return name
    chars = _SHORT_TEXT - _REMARK
    return f"{name[:chars]}… ({len(name) - chars:,} more characters were too long to be sent)"


def _fair_share(sizes: list[int], room: int) -> int:
    """Return how many bytes each size, smallest first, may have so all of them fit."""
    remaining = len(sizes)
    for size in sizes:
        share = room // remaining - _REMARK
        if size > share:
            return share
        room -= size
        remaining -= 1
    return sizes[-1] if sizes else 0


def _long_texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        if len(plain) > _SHORT_TEXT:
            yield plain
    elif isinstance(plain, Mapping | list | tuple):
        for each in plain.values() if isinstance(plain, Mapping) else plain:
            yield from _long_texts(each)


def _with_texts(plain: Any, short: Callable[[str], str]) -> Any:
    """Return this with its long texts made shorter."""
    if isinstance(plain, str):
        return short(plain) if len(plain) > _SHORT_TEXT else plain
    if isinstance(plain, Mapping):
        return {
            name: _whole_bytes(value, short(value))
            if _is_image(plain, name) and len(value) > _SHORT_TEXT
            else _with_texts(value, short)
            for name, value in plain.items()
        }
    if isinstance(plain, list | tuple):
        return [_with_texts(value, short) for value in plain]
    return plain


def _shorten_text(text: str, chars: int, size: int, most: int) -> str:
    """Return the beginning of a text in at most `most` bytes, with a remark about how much is missing.

    `size` is the size of its first `chars` characters.
    """
    chars = min(chars, len(text))
    for _ in range(4):  # the beginning may be denser than the rest, so a first guess may be too long
        if size <= most:
            break
        chars = min(chars - 1, chars * most // size)
        size = len(sc.wire.encode(text[:chars]))
    else:
        chars = min(chars, most // _CHARACTER)
    missing = len(text) - chars
    return f"{text[:chars]}… ({missing:,} more characters were too long to be sent)" if missing else text


def _is_image(plain: Mapping[str, Any], name: str) -> bool:
    """Return whether this is base64, in which every four characters are whole bytes."""
    return name == "data" and plain.get("type") == "image_part" and isinstance(plain[name], str)


def _whole_bytes(data: str, shorter: str) -> str:
    """Return as much of an image as fits."""
    return data if data == shorter else data[: len(shorter.partition("…")[0]) // 4 * 4]


def _most_parts(plain: Any) -> int:
    """Return the largest number of parts of any nested value."""
    if not isinstance(plain, Mapping | list | tuple):
        return 0
    inside: Iterable[Any] = plain.values() if isinstance(plain, Mapping) else plain
    return max(len(plain), max(map(_most_parts, inside), default=0))


def _with_last(plain: Any, many: int) -> Any:
    """Return this with every nested value cut to its last `many` parts."""
    if isinstance(plain, Mapping):
        return {name: _with_last(value, many) for name, value in list(plain.items())[-many:]}
    if isinstance(plain, list | tuple):
        return [_with_last(value, many) for value in plain[-many:]]
    return plain
