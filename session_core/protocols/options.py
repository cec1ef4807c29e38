"""Options of protocols: how they are stated, resolved once, and recorded with the opening itself.

A protocol describes its options by an attrs class whose fields are made by `option`. Each is one of three kinds. A
*pinned* one is decided when a session is created, recorded, and never changes: stating another value later is a
conflict that shows both values. A *host* one is supplied again at each opening, and otherwise keeps its last value. An
*own* one is as fixed as a pinned one for everybody but the protocol, which sets it while the session lives: for all
frames, or for the current one (`check_own_options`).

`resolve_options` is pure and total: the result depends only on the recorded options, the stated ones, and how the
session is created. It runs before anything of a plugin is built.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, cast

import attrs

from session_core import limits
from session_core.errors import ProtocolError
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import SessionId
from session_core.protocols.faults import OptionConflict, OptionsInvalid
from session_core.vocabulary.frozen import JsonObject, JsonValue, freeze_json, thaw_json
from session_core.wire.catalogue import wire_tag
from session_core.wire.codec import encode, from_json, to_json
from session_core.wire.strict_json import find_fault

T = TypeVar("T")

Opening = Literal["create", "resume", "child", "fork"]
OptionKind = Literal["pinned", "host", "own"]
OptionScope = Literal["all_frames", "frame"]
"""Where an option that a protocol sets holds: everywhere in the session, or only in the current frame."""

_METADATA: Final = "session_core.option"
_NOT_GIVEN: Final = object()


@attrs.frozen(kw_only=True)
class Materialization:
    """How a session is created or loaded.

    Attributes:
        parent: The options of the session it comes from: the parent of a child, the origin of a fork.
    """

    opening: Opening
    session_id: SessionId
    parent_id: SessionId | None = None
    parent: JsonObject | None = None

    @property
    def is_root(self) -> bool:
        """Whether it works for no other session; a fork does not."""
        return self.opening != "child" and self.parent_id is None


@attrs.frozen(kw_only=True)
class OptionField:
    """How one option is decided when it is not stated."""

    kind: OptionKind
    root: Any
    child: Any
    inherit: bool


def option(*, default: Any, child_default: Any = _NOT_GIVEN, kind: OptionKind = "pinned", inherit: bool = True) -> Any:
    """Make a field of an options class.

    Args:
        default: The value when it is not stated; in child sessions that inherit nothing, `child_default`.
        child_default: The default in child sessions; if left out, the same as `default`.
        kind: Whether it is fixed when a session is created, supplied at each opening, or set by the protocol.
        inherit: Whether child sessions inherit it from their parent; forks inherit everything.
    """
    child = default if child_default is _NOT_GIVEN else child_default
    described = OptionField(kind=kind, root=default, child=child, inherit=inherit)
    return attrs.field(default=default, kw_only=True, metadata={_METADATA: described})


@attrs.frozen(kw_only=True)
class NoOptions:
    """A protocol without options."""


@attrs.frozen
class PluginOptions:
    """Stated options, by protocol id."""

    plugins: Mapping[str, JsonObject] = attrs.field(factory=dict)

    @classmethod
    def for_plugin(cls, plugin: str, options: object) -> "PluginOptions":
        """Build the stated options of one protocol from a value of its class or JSON."""
        return cls({plugin: _as_json(options)})

    def with_(self, plugin: str, options: object) -> "PluginOptions":
        """Return a copy in which these options replace those of that protocol."""
        return PluginOptions({**self.plugins, plugin: _as_json(options)})

    def get(self, plugin: str, cls: type[T]) -> T | None:
        """Return the options stated for a protocol; None if there are none.

        Raises:
            OptionsInvalid: They are stated, and wrong.
        """
        stated = self.plugins.get(plugin)
        return None if stated is None else read_options(plugin, cls, stated)


def parse_plugin_options(stated: JsonObject | None) -> PluginOptions:
    """Read the options that a command states.

    Raises:
        OptionsInvalid: It is not an object of objects.
    """
    for plugin, options in (stated or {}).items():
        if not isinstance(options, JsonObject):
            raise OptionsInvalid(f"the options of {plugin!r} must be an object", field=f"options.{plugin}")
    return PluginOptions(dict(stated or {}))  # type: ignore[arg-type]


def resolve_options(
    plugin: str, cls: type[T], recorded: JsonObject | None, stated: JsonObject | None, opening: Materialization
) -> JsonObject:
    """Decide every option of a session; the result is what is recorded.

    Raises:
        OptionsInvalid: The stated or recorded options have the wrong shape.
        OptionConflict: An option that is fixed is stated with another value than the session has, or its origin.
    """
    read_options(plugin, cls, stated or JsonObject())  # check the whole shape before using any of it
    known, inherited = recorded or JsonObject(), opening.parent or JsonObject()
    fixed = inherited if opening.opening == "fork" else known
    resolved: dict[str, JsonValue] = {}
    for field in attrs.fields(cls):  # type: ignore[arg-type]
        described: OptionField = field.metadata[_METADATA]
        name = field.name
        if stated is not None and name in stated:
            asked = _normalize_value(plugin, cls, name, stated[name])
            if described.kind != "host" and name in fixed and fixed[name] != asked:
                raise OptionConflict(plugin, name, recorded=fixed[name], requested=asked)
            resolved[name] = asked
        elif name in known:
            resolved[name] = known[name]
        elif name in inherited and (described.inherit or opening.opening == "fork"):
            resolved[name] = inherited[name]
        else:
            resolved[name] = freeze_json(to_json(described.root if opening.is_root else described.child))
    found = JsonObject(resolved)
    read_options(plugin, cls, found)
    if (size := len(encode(found))) > limits.MAX_PROTOCOL_OPTIONS_BYTES:
        raise OptionsInvalid(
            f"the options of the protocol {plugin} have {size:,} bytes, and {limits.MAX_PROTOCOL_OPTIONS_BYTES:,} are "
            "allowed",
            field=f"options.{plugin}",
        )
    return found


def select_host_options(
    cls: type[Any], stated: JsonObject | None, decided: Callable[[str, OptionField], bool] = lambda _name, _field: True
) -> JsonObject | None:
    """Return the service's options for all sessions, without the fixed ones that are `decided` already.

    When a session is loaded again, all but host options are.
    """
    if stated is None:
        return None
    fields = {field.name: field.metadata[_METADATA] for field in attrs.fields(cls)}
    own = {name for name, field in fields.items() if field.kind != "host" and decided(name, field)}
    return JsonObject({name: value for name, value in stated.items() if name not in own})


def refuse_other_options(plugin: str, cls: type[Any], stated: JsonObject, current: JsonObject) -> None:
    """Compare options that are stated for an existing session with those it has.

    Raises:
        OptionsInvalid: They have the wrong shape.
        OptionConflict: One differs.
    """
    read_options(plugin, cls, stated)
    for name, value in stated.items():
        asked = _normalize_value(plugin, cls, name, value)
        if name in current and current[name] != asked:
            raise OptionConflict(plugin, name, recorded=current[name], requested=asked)


def check_own_options(plugin: str, cls: type[Any], current: JsonObject, changes: object) -> JsonObject:
    """Return the changes that a protocol makes to its options, in their recorded form.

    Raises:
        OptionsInvalid: They have the wrong shape, or are not all of the kind that a protocol sets.
    """
    fault = find_fault(changes, limits.MAX_OPEN_JSON_DEPTH)
    if fault is not None or not isinstance(changes, Mapping):
        why = "they are not an object" if fault is None else f"they are not JSON: {fault.reason}"
        raise OptionsInvalid(f"invalid options of the protocol {plugin}: {why}", field=f"options.{plugin}")
    wanted = JsonObject({**current, **{name: freeze_json(value) for name, value in changes.items()}})
    read_options(plugin, cls, wanted)
    kinds = {field.name: field.metadata[_METADATA].kind for field in attrs.fields(cls)}
    if (other := next((name for name in changes if kinds[name] != "own"), None)) is not None:
        raise OptionsInvalid(
            f"the protocol {plugin} cannot set its option {other!r}, which is {kinds[other]}; it sets only own ones",
            field=f"options.{plugin}.{other}",
        )
    return JsonObject({name: _normalize_value(plugin, cls, name, wanted[name]) for name in changes})


def is_options_class(cls: object) -> bool:
    """Return whether a class can describe options: an attrs class whose fields are all made by `option`."""
    return isinstance(cls, type) and attrs.has(cls) and all(_METADATA in field.metadata for field in attrs.fields(cls))


def read_options(plugin: str, cls: type[T], payload: JsonObject) -> T:
    """Build the options of a protocol from their JSON.

    Raises:
        OptionsInvalid: They have the wrong shape; unknown names are wrong too.
    """
    known = [field.name for field in attrs.fields(cast(Any, cls))]
    if (unknown := next((name for name in payload if name not in known), None)) is not None:
        there = f"is not one of its options: {', '.join(known)}" if known else "cannot be stated: it has no options"
        raise OptionsInvalid(
            f"invalid options of the protocol {plugin}: {unknown!r:.100} {there}", field=f"options.{plugin}.{unknown}"
        )
    try:
        return from_json({"type": wire_tag(cast(type, cls)), **thaw_json(payload)}, cls)
    except ProtocolError as error:
        path = (error.field or "$").removeprefix("$").removeprefix(".")
        where = f"options.{plugin}.{path}" if path else f"options.{plugin}"
        raise OptionsInvalid(f"invalid options of the protocol {plugin}: {error.reason}", field=where) from error
    except FOREIGN_FAULTS as error:  # a plugin's class may run its own validators
        if must_propagate(error):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise OptionsInvalid(
            f"invalid options of the protocol {plugin}: {reason}", field=f"options.{plugin}"
        ) from error


def _normalize_value(plugin: str, cls: type[Any], name: str, value: JsonValue) -> JsonValue:
    """Return a value in its recorded form, however it was stated."""
    options = read_options(plugin, cls, JsonObject({name: value}))
    return freeze_json(to_json(getattr(options, name)))


def _as_json(options: object) -> JsonObject:
    plain = to_json(options)
    if attrs.has(type(options)):
        del plain["type"]
    found = freeze_json(plain)
    if not isinstance(found, JsonObject):
        raise TypeError("options are an object")
    return found
