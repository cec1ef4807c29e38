"""What an extension has registered: handlers by name, and their wire form."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import attrs

from session_core.sep.sdk.answers import drop_none
from session_core.sep.sdk.contexts import Context
from session_core.sep.sdk.json_types import Member, Shape, member, object_shape, shape_of
from session_core.sep.sdk.render import RenderBlock
from session_core.sep.sdk.signatures import check_called_with

if TYPE_CHECKING:
    from session_core.sep.sdk.answers import CommandCompletion

Handler = Callable[..., Any]
NO_HOOKS: Final = "none"
"""Stands for "no hooks" in the handshake: hosts read an empty list as "perhaps all of them"."""


@attrs.frozen(kw_only=True)
class RegisteredTool:
    """A tool for models; call it like the decorated function.

    Attributes:
        shape: Its parameters. If reading them gives None, the function gets the arguments as received.
        takes_context: Whether the function takes a context first.
        by_name: Whether the function gets its arguments by name, rather than as one object.
    """

    name: str
    description: str
    function: Handler
    shape: Shape
    takes_context: bool
    by_name: bool
    deferred: bool = False

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        schema, more = dict(self.shape.schema), drop_none(deferred=self.deferred or None)
        return {"name": self.name, "description": self.description, "parameters": schema, **more}


@attrs.define(kw_only=True, eq=False)
class RegisteredCommand:
    """A command for people; call it like the decorated function."""

    name: str
    description: str
    function: Handler
    completer: "Callable[..., Iterable[str | CommandCompletion] | Any] | None" = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def complete(self, function: Handler) -> Handler:
        """Register a function that completes the command's arguments: `(ctx, partial) -> texts`."""
        check_called_with(function, f"the completion of the command {self.name}", "ctx, partial")
        self.completer = function
        return function

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"name": self.name, "description": self.description}


@attrs.frozen
class Model:
    """A model of a provider."""

    id: str
    display_name: str | None = None


@attrs.define(kw_only=True, eq=False)
class RegisteredProvider:
    """A provider of models; call it like the decorated function."""

    name: str
    models: tuple[Model, ...]
    function: Handler
    base_url: str | None = None
    api_key_env: str | None = None
    on_login: Handler | None = None
    on_refresh: Handler | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def login(self, function: Handler) -> Handler:
        """Register a function that logs people in: `(ctx) -> Credentials`; it talks to them through `ctx.ui`."""
        check_called_with(function, f"the login of the provider {self.name}", "ctx")
        self.on_login = function
        return function

    def refresh(self, function: Handler) -> Handler:
        """Register a function that renews a login: `(ctx, refresh_token) -> Credentials`."""
        check_called_with(function, f"the renewal of the provider {self.name}", "ctx, refresh_token")
        self.on_refresh = function
        return function

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        models = [{"id": each.id, **drop_none(display_name=each.display_name)} for each in self.models]
        more = drop_none(base_url=self.base_url, api_key_env=self.api_key_env)
        return {"name": self.name, "oauth": self.on_login is not None, "models": models, **more}


@attrs.frozen(kw_only=True, eq=False)
class Observer:
    """A function that handles an event; `payload` narrows it to events with these values."""

    event: str
    function: Handler
    payload: Mapping[str, Any] = attrs.field(factory=dict)

    def wants(self, event: str, payload: Mapping[str, Any]) -> bool:
        """Return whether the function handles this event."""
        return event == self.event and all(payload.get(key) == value for key, value in self.payload.items())


@attrs.define(eq=False)
class Registry:
    """Everything that is registered, each kind by name and in order of registration.

    Attributes:
        reported: What the host already knows, in wire form.
    """

    tools: dict[str, RegisteredTool] = attrs.field(factory=dict)
    commands: dict[str, RegisteredCommand] = attrs.field(factory=dict)
    hooks: dict[str, list[Handler]] = attrs.field(factory=dict)
    observers: list[Observer] = attrs.field(factory=list)
    providers: dict[str, RegisteredProvider] = attrs.field(factory=dict)
    flags: dict[str, Any] = attrs.field(factory=dict)
    shortcuts: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    renderers: dict[str, RenderBlock] = attrs.field(factory=dict)
    reported: dict[str, Any] = attrs.field(factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the wire form of everything."""
        return {
            "tools": [each.wire() for each in self.tools.values()],
            "commands": [each.wire() for each in self.commands.values()],
            "flags": list(self.flags),
            "shortcuts": list(self.shortcuts.values()),
            "subscriptions": list(dict.fromkeys(each.event for each in self.observers)),
            "providers": [each.wire() for each in self.providers.values()],
            "hooks": list(self.hooks) or [NO_HOOKS],
            "message_renderers": [{"tag": tag, "template": block} for tag, block in self.renderers.items()],
        }

    def find_unreported(self, everything: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of `everything`, as returned by `wire`, that the host does not know yet."""
        found = {}
        for kind, entries in everything.items():
            known = self.reported.get(kind, ())
            if new := [each for each in entries if each not in known]:
                found[kind] = new
        return found


# --- reading functions ------------------------------------------------------------------------------------------------


def read_description(function: Handler, description: str | None) -> str:
    """Return the given description, or else the function's docstring."""
    return description if description is not None else inspect.cleandoc(function.__doc__ or "")


def takes_context(function: Handler) -> bool:
    """Return whether a function takes a context first: its first parameter has that type, or is called `ctx`."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    hint = get_type_hints(function).get(parameters[0].name)
    return parameters[0].name == "ctx" or (isinstance(hint, type) and issubclass(hint, Context))


def shape_of_function(function: Handler, *, skip_first: bool) -> Shape:
    """Return the shape of a function's arguments, which are then passed by name.

    Raises:
        NotDescribable: A type hint cannot be written as a JSON schema.
        TypeError: A parameter cannot be passed by name.
    """
    hints = get_type_hints(function, include_extras=True)
    members: list[Member] = []
    for parameter in list(inspect.signature(function).parameters.values())[int(skip_first) :]:
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise TypeError(f"{function.__name__}: the parameter {parameter} cannot be passed by name")
        required = parameter.default is parameter.empty
        hint = hints.get(parameter.name, Any)
        members.append(member(parameter.name, hint, None if required else parameter.default, required=required))
    return object_shape(members, dict)


def shape_of_parameters(parameters: Mapping[str, Any] | type) -> Shape:
    """Return the shape of parameters given as a schema or as a class."""
    if isinstance(parameters, Mapping):
        return Shape(parameters, lambda _path, value: value)
    return shape_of(parameters)


def models_from(models: Sequence[str | Model]) -> tuple[Model, ...]:
    """Convert plain names to models."""
    return tuple(each if isinstance(each, Model) else Model(each) for each in models)
