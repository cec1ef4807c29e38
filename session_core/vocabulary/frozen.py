"""Three containers that keep vocabulary values frozen all the way down: `Vector`, `Rope` and `JsonObject`.

`Vector` and `Rope` are persistent: appending leaves all older views unchanged and shares their memory, so taking a
snapshot costs the same for ten messages as for a hundred thousand.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Generic, TypeVar, final, overload

import attrs

T = TypeVar("T")


@final
class Vector(Sequence[T], Generic[T]):
    """An immutable sequence whose `append` is cheap.

    All views of one history share one list. Appending to the newest view extends that list in place, which older
    views cannot see because they know their length; appending to an older view copies its part first.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    @classmethod
    def _view(cls, items: list[T], length: int) -> "Vector[T]":
        view = object.__new__(cls)
        view._items = items
        view._length = length
        return view

    def append(self, item: T) -> "Vector[T]":
        """Return a view that is one longer; this one stays as it is."""
        items, length = self._items, self._length
        if len(items) != length:
            items = items[:length]
        items.append(item)
        return self._view(items, length + 1)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    def __reversed__(self) -> Iterator[T]:
        items = self._items
        return (items[place] for place in range(self._length - 1, -1, -1))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[place] for place in range(*index.indices(self._length)))
        return self._items[range(self._length)[index]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector):
            return NotImplemented
        if self._length != other._length:
            return False
        return self._items is other._items or all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Vector({list(self)!r})"


@final
class Rope:
    """An immutable text that grows by fragments; two ropes are equal when their texts are."""

    __slots__ = ("_fragments", "_text")

    def __init__(self, text: str = "") -> None:
        self._fragments = Vector((text,) if text else ())
        self._text: str | None = text

    def append(self, fragment: str) -> "Rope":
        """Return a longer rope; this one stays as it is."""
        grown = object.__new__(Rope)
        grown._fragments = self._fragments.append(fragment)
        grown._text = None
        return grown

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._fragments)
        return self._text

    def __bool__(self) -> bool:
        return any(self._fragments)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Rope) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Rope({str(self)!r})"


@final
class JsonObject(Mapping[str, "JsonValue"]):
    """A JSON object that cannot change: tool arguments and other data whose shape we do not know.

    Attributes:
        strict_depth: The nesting depth of objects and lists, set once `rpc.fast_json` has checked that every key,
            number and value can be written as strict JSON; the check runs once, however often the object is written.
            Texts are not covered: the encoder detects broken ones.
    """

    __slots__ = ("_hash", "_items", "strict_depth")

    def __init__(self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        self._items: dict[str, JsonValue]
        self._hash: int | None = None
        self.strict_depth: int | None = None
        if type(items) is JsonObject:
            self._items, self.strict_depth = items.as_dict(), items.strict_depth
        else:
            self._items = {key: freeze_json(item) for key, item in dict(items).items()}

    def __getitem__(self, key: str) -> "JsonValue":
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> ItemsView[str, "JsonValue"]:
        """Return the keys with their values, without a lookup per key."""
        return self._items.items()

    def as_dict(self) -> "dict[str, JsonValue]":
        """Return the inner dict, for writers that need a real one; callers must not change it."""
        return self._items

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"JsonObject({self._items!r})"


JsonValue = str | int | float | bool | None | tuple["JsonValue", ...] | JsonObject
"""Any JSON, in its immutable form."""


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(cls))


def evolve_value(value: T, **changes: Any) -> T:
    """Return a copy of an attrs value with some fields changed: `attrs.evolve` for hot paths, several times as fast."""
    cls: Any = type(value)
    fields = {name: getattr(value, name) for name in _field_names(cls)}
    fields.update(changes)
    copy: T = cls(**fields)
    return copy


_IMMUTABLE_TYPES = (str, int, float, bool, type(None), JsonObject)


def freeze_json(item: object) -> JsonValue:
    """Turn parsed JSON into its immutable form: lists become tuples, objects become `JsonObject`."""
    if isinstance(item, _IMMUTABLE_TYPES):
        return item
    if isinstance(item, Mapping):
        return JsonObject(item)
    if isinstance(item, list | tuple):
        return tuple(freeze_json(each) for each in item)
    msg = f"not JSON: {type(item).__name__}"
    raise TypeError(msg)


def thaw_json(item: JsonValue) -> Any:
    """Turn immutable JSON back into plain dicts and lists."""
    if isinstance(item, JsonObject):
        return {key: thaw_json(each) for key, each in item.items()}
    if isinstance(item, tuple):
        return [thaw_json(each) for each in item]
    return item
