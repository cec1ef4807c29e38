"""What an extension registers: tools, commands, shortcuts, flags, providers, renderers, hooks and subscriptions.

It registers them in its answer to `initialize`, and may add more later. Every name is checked once, here; after that,
tools and commands can be shown, stored and sent to models without further checks.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

from session_core.errors import ProtocolError
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, size_of
from session_core.sep.protocol.manifest import VARIABLE_NAME, Manifest
from session_core.sep.protocol.names import HOOKS, HookName
from session_core.sep.protocol.render_blocks import read_render_block
from session_core.vocabulary.extensions import MessageRenderer, Shortcut
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import quote_text
from session_core.wire.json_schema import find_schema_fault

MAX_TOOLS: Final = 256
"""More tools than any model can tell apart."""
MAX_TOOL_CHARS: Final = 1_000_000
"""Descriptions and schemas of all tools of one extension together; no model reads more."""
MAX_NAMED: Final = 256
"""Commands, flags, shortcuts, renderers, subscriptions and hooks of one extension, each."""
MAX_PROVIDERS: Final = 16
"""Providers of one extension."""
MAX_MODELS: Final = 512
"""Models of one provider; some resell hundreds."""
MAX_SCHEMA_CHARS: Final = 64_000
"""The schema of one tool; all of them go to the model with each request."""
MAX_DESCRIPTION_CHARS: Final = 16_000
"""The description of one tool or command."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
_MAX_NAME: Final = 64
_ALSO_HOOKS: Final[frozenset[HookName]] = frozenset({"session_before_compact", "session_before_tree"})
"""Hooks that some extensions list among their subscriptions."""
_ALSO_EVENTS: Final = frozenset({"message_end"})
"""Hooks that are events as well; some extensions list them among their hooks only."""


class RegistrationsInvalid(ProtocolError):
    """An extension's registrations cannot be used; `field` is the path of the mistake, such as `tools[0].name`."""

    code = "registrations_invalid"


@attrs.frozen(kw_only=True)
class ToolRegistration:
    """A tool by its bare name; models see a deferred one only after they search for it.

    `size` is measured once, because each `registry/update` adds up all of them, and there may be many.
    """

    name: str
    description: str
    parameters: JsonObject
    deferred: bool = False
    size: int = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.description) + size_of(self.parameters))


@attrs.frozen(kw_only=True)
class CommandRegistration:
    """A command by its bare name, without a slash."""

    name: str
    description: str = ""


@attrs.frozen(kw_only=True)
class ModelRegistration:
    """A model of a provider."""

    id: str
    display_name: str | None = None


@attrs.frozen(kw_only=True)
class ProviderRegistration:
    """A provider of models; the extension itself talks to it."""

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    oauth: bool = False
    models: tuple[ModelRegistration, ...] = ()


@attrs.frozen(kw_only=True)
class Registrations:
    """Everything an extension has registered, each kind in order of registration.

    `hooks` holds the names as given, including unknown ones; see `handled_hooks` for their meaning.
    """

    tools: tuple[ToolRegistration, ...] = ()
    commands: tuple[CommandRegistration, ...] = ()
    flags: tuple[str, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    subscriptions: tuple[str, ...] = ()
    providers: tuple[ProviderRegistration, ...] = ()
    hooks: tuple[str, ...] = ()
    message_renderers: tuple[MessageRenderer, ...] = ()

    def tool(self, name: str) -> ToolRegistration | None:
        """Return the tool with this bare name."""
        return next((each for each in self.tools if each.name == name), None)

    def command(self, name: str) -> CommandRegistration | None:
        """Return the command with this bare name."""
        return next((each for each in self.commands if each.name == name), None)


KINDS: Final = tuple(field.name for field in attrs.fields(Registrations))
"""The kinds of registrations."""


def read_registrations(data: object) -> Registrations:
    """Read the registrations in an answer to `initialize`; None means none.

    Raises:
        RegistrationsInvalid: Something in it is wrong; `field` says where.
    """
    return merge_update(Registrations(), {} if data is None else data)


def merge_update(old: Registrations, update: object) -> Registrations:
    """Merge a `registry/update` by name: the last entry of a name wins, and omitted ones stay.

    Raises:
        RegistrationsInvalid: Something in it is wrong, or the total is too much; nothing has changed.
    """
    try:
        fields = DocumentFields(update)
        return Registrations(
            tools=_tools(old.tools, fields),
            commands=_merge_objects(fields, "commands", old.commands, _command),
            flags=_merge_names(fields, "flags", old.flags),
            shortcuts=_merge_objects(fields, "shortcuts", old.shortcuts, _shortcut, key="key"),
            subscriptions=_merge_names(fields, "subscriptions", old.subscriptions),
            providers=_merge_objects(fields, "providers", old.providers, _provider, most=MAX_PROVIDERS),
            hooks=_merge_names(fields, "hooks", old.hooks),
            message_renderers=_merge_objects(fields, "message_renderers", old.message_renderers, _renderer, key="tag"),
        )
    except InvalidDocumentField as wrong:
        raise RegistrationsInvalid(wrong.reason, field=wrong.path or "registrations") from None


def clamp_subscriptions(registrations: Registrations, manifest: Manifest) -> frozenset[str]:
    """Return the events that an extension gets: those it asked for, limited to those its manifest declares, if any.

    Names that are only hooks are not events. `message_end` is both, and also goes to extensions that handle it as a
    hook. Bus messages go only to extensions that may use the bus.
    """
    asked = {*registrations.subscriptions, *_ALSO_EVENTS.intersection(registrations.hooks)}
    asked -= {hook for hook in HOOKS if hook not in _ALSO_EVENTS}
    if "bus" not in manifest.capabilities.enabled:
        asked.discard("bus/event")
    declared = manifest.capabilities.events
    return frozenset(asked.intersection(declared) if declared else asked)


def handled_hooks(registrations: Registrations) -> frozenset[HookName] | None:
    """Return the hooks that an extension handles; None if it did not say, and may handle all of them."""
    if not registrations.hooks:
        return None
    asked = {*registrations.hooks, *_ALSO_HOOKS.intersection(registrations.subscriptions)}
    return frozenset(hook for hook in HOOKS if hook in asked)


def filter_permitted(registrations: Registrations, manifest: Manifest) -> Registrations:
    """Remove what belongs to capabilities that the manifest does not have."""
    enabled = manifest.capabilities.enabled
    changes: dict[str, Any] = {}
    if "tools" not in enabled:
        changes["tools"] = ()
    if "commands" not in enabled:
        changes |= {"commands": (), "shortcuts": ()}
    if "providers" not in enabled:
        changes["providers"] = ()
    if "ui" not in enabled:
        changes["message_renderers"] = ()
    return attrs.evolve(registrations, **changes)


T = TypeVar("T")


def _merge_objects(
    fields: DocumentFields,
    kind: str,
    old: Iterable[T],
    read: Callable[[DocumentFields], T],
    *,
    key: str = "name",
    most: int = MAX_NAMED,
) -> tuple[T, ...]:
    return _merge(kind, old, map(read, fields.objects(kind, most=most)), attrgetter(key), most)


def _merge_names(fields: DocumentFields, kind: str, old: tuple[str, ...]) -> tuple[str, ...]:
    return _merge(kind, old, fields.texts(kind, most=MAX_NAMED), str, MAX_NAMED)


def _merge(kind: str, old: Iterable[T], new: Iterable[T], key: Callable[[T], str], most: int) -> tuple[T, ...]:
    """Replace old entries with new ones of the same name, and append the rest."""
    found: dict[str, T] = {key(each): each for each in old}
    for each in new:
        if found.get(key(each)) != each:  # otherwise keep the old object, so that comparing it is quick
            found[key(each)] = each
    if len(found) > most:
        raise InvalidDocumentField(kind, f"there would be {len(found):,} of them, and the limit is {most:,}")
    return tuple(found.values())


def _tools(old: tuple[ToolRegistration, ...], fields: DocumentFields) -> tuple[ToolRegistration, ...]:
    tools = _merge_objects(fields, "tools", old, _tool, most=MAX_TOOLS)
    if sum(tool.size for tool in tools) > MAX_TOOL_CHARS:
        raise InvalidDocumentField("tools", f"all of them together are larger than {MAX_TOOL_CHARS:,} characters")
    return tools


def _tool(fields: DocumentFields) -> ToolRegistration:
    name = fields.text("name")
    if not _TOOL_NAME.fullmatch(name):
        raise InvalidDocumentField(
            fields.field_path("name"),
            f"{quote_text(name)} is not a valid name of a tool: use 1 to 64 letters, digits, '_', '-' and '.'",
        )
    parameters = fields.json_object("parameters", most=MAX_SCHEMA_CHARS)
    if parameters.get("type", "object") != "object":
        raise InvalidDocumentField(
            fields.field_path("parameters"), 'must be a schema of an object, with "type": "object"'
        )
    if fault := find_schema_fault(parameters):
        raise InvalidDocumentField(fields.field_path("parameters"), f"is not a JSON schema: {fault}")
    return ToolRegistration(
        name=name,
        description=fields.text("description", most=MAX_DESCRIPTION_CHARS, empty=True),
        parameters=parameters,
        deferred=fields.boolean("deferred"),
    )


def _command(fields: DocumentFields) -> CommandRegistration:
    return CommandRegistration(name=_word(fields, "name"), description=_description(fields))


def _shortcut(fields: DocumentFields) -> Shortcut:
    key = fields.text("key", most=_MAX_NAME)
    if not key.isprintable():
        raise InvalidDocumentField(fields.field_path("key"), "must be the name of a key, such as ctrl+p")
    return Shortcut(key=key, command=_word(fields, "command"), description=_description(fields))


def _provider(fields: DocumentFields) -> ProviderRegistration:
    variable = fields.text_or_none("api_key_env", empty=True) or None
    if variable is not None and not VARIABLE_NAME.fullmatch(variable):
        raise InvalidDocumentField(
            fields.field_path("api_key_env"), f"{quote_text(variable)} is not the name of a variable"
        )
    models: Mapping[str, ModelRegistration] = {
        model.id: model for model in map(_model, fields.objects("models", most=MAX_MODELS))
    }
    return ProviderRegistration(
        name=_word(fields, "name"),
        base_url=fields.text_or_none("base_url", most=2_000, empty=True) or None,
        api_key_env=variable,
        oauth=fields.boolean("oauth"),
        models=tuple(models.values()),
    )


def _model(fields: DocumentFields) -> ModelRegistration:
    model = fields.text("id")
    if not model.isprintable() or " " in model:
        raise InvalidDocumentField(fields.field_path("id"), "must be one word of printable text")
    return ModelRegistration(id=model, display_name=fields.text_or_none("display_name", empty=True) or None)


def _renderer(fields: DocumentFields) -> MessageRenderer:
    template = fields.plain.get("template")
    return MessageRenderer(
        tag=fields.text("tag"), template=read_render_block(template, fields.field_path("template"), template=True)
    )


def _word(fields: DocumentFields, key: str) -> str:
    """Read a name that people type: one printable word that does not start with a slash, which marks commands."""
    word = fields.text(key, most=_MAX_NAME)
    if not word.isprintable() or any(character.isspace() for character in word) or word.startswith("/"):
        raise InvalidDocumentField(
            fields.field_path(key), f"{quote_text(word)} must be one printable word, without a slash before it"
        )
    return word


def _description(fields: DocumentFields) -> str:
    return fields.text_or_none("description", most=MAX_DESCRIPTION_CHARS, empty=True) or ""
