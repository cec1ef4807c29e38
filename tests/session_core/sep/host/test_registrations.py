"""What an extension registers is read strictly, merged by name, and clamped to its manifest."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.sep.host import registrations as module
from session_core.sep.host.registrations import (
    CommandRegistration,
    ModelRegistration,
    ProviderRegistration,
    Registrations,
    RegistrationsInvalid,
    ToolRegistration,
    clamp_subscriptions,
    filter_permitted,
    handled_hooks,
    merge_update,
    read_registrations,
)
from session_core.sep.protocol.manifest import Capabilities, Manifest, RunSpec
from session_core.sep.protocol.names import HOOKS, Capability
from session_core.vocabulary.extensions import MessageRenderer, Shortcut
from session_core.vocabulary.frozen import JsonObject

SCHEMA = {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}
TOOL = {"name": "dig", "description": "Digs a hole.", "parameters": SCHEMA}


def manifest(*, events: tuple[str, ...] = (), enabled: frozenset[Capability] | None = None) -> Manifest:
    capabilities = Capabilities(events=events)
    if enabled is not None:
        capabilities = attrs.evolve(capabilities, enabled=enabled)
    return Manifest(name="echo", version="1", run=RunSpec(command="x"), capabilities=capabilities)


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("data", [None, {}, {"tools": None}, {"unknown": [1, 2]}])
def test_nothing_is_nothing(data: object) -> None:
    """Whoever registers nothing, or only what nobody knows, has nothing registered."""
    assert Registrations() == read_registrations(data)


def test_everything_is_read() -> None:
    """Every kind of registration arrives with all of its fields, and unknown keys do no harm."""
    block = {"kind": "progress", "value": "{{done}}", "label": "{{name}}"}
    data = {
        "tools": [{**TOOL, "deferred": True, "colour": "red"}, {**TOOL, "name": "a.b-c_9", "description": ""}],
        "commands": [{"name": "plan", "description": "Plans."}, {"name": "größe"}],
        "flags": ["plan"],
        "shortcuts": [{"key": "ctrl+p", "command": "plan", "description": "Plan"}, {"key": "f2", "command": "x"}],
        "subscriptions": ["turn_start", "turn_start", "invented"],
        "providers": [
            {
                "name": "acme",
                "base_url": "https://example.org",
                "api_key_env": "ACME_KEY",
                "oauth": True,
                "models": [{"id": "m/1", "display_name": "One"}, {"id": "m2"}],
            },
            {"name": "plain"},
        ],
        "hooks": ["tool_call"],
        "message_renderers": [{"tag": "garden", "template": block}],
    }
    expected = Registrations(
        tools=(
            ToolRegistration(name="dig", description="Digs a hole.", parameters=JsonObject(SCHEMA), deferred=True),
            ToolRegistration(name="a.b-c_9", description="", parameters=JsonObject(SCHEMA)),
        ),
        commands=(CommandRegistration(name="plan", description="Plans."), CommandRegistration(name="größe")),
        flags=("plan",),
        shortcuts=(
            Shortcut(key="ctrl+p", command="plan", description="Plan"),
            Shortcut(key="f2", command="x"),
        ),
        subscriptions=("turn_start", "invented"),
        providers=(
            ProviderRegistration(
                name="acme",
                base_url="https://example.org",
                api_key_env="ACME_KEY",
                oauth=True,
                models=(ModelRegistration(id="m/1", display_name="One"), ModelRegistration(id="m2")),
            ),
            ProviderRegistration(name="plain"),
        ),
        hooks=("tool_call",),
        message_renderers=(MessageRenderer(tag="garden", template=JsonObject(block)),),
    )
    found = read_registrations(data)
    assert expected == found
    assert expected.tools[0] == found.tool("dig")
    assert expected.commands[0] == found.command("plan")
    assert (None, None) == (found.tool("plan"), found.command("dig"))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "registrations"),
        ("x", "registrations"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [TOOL, {**TOOL, "name": ""}]}, "tools[1].name"),
        ({"tools": [{**TOOL, "name": 65 * "x"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "name": "../x"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "name": "x\n"}]}, "tools[0].name"),
        ({"tools": [{"name": "x", "parameters": {}}]}, "tools[0].description"),
        ({"tools": [{**TOOL, "description": 20_000 * "x"}]}, "tools[0].description"),
        ({"tools": [{**TOOL, "description": "\ud800"}]}, "tools[0].description"),
        ({"tools": [{"name": "x", "description": ""}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": []}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": {"type": "string"}}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": {"type": "object", "properties": 3}}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": {"$ref": "file:///etc/passwd"}}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": {"default": 100_000 * "x"}}]}, "tools[0].parameters"),
        ({"tools": [{**TOOL, "parameters": {"enum": [float("nan")]}}]}, "tools[0].parameters.enum[0]"),
        ({"tools": [{**TOOL, "deferred": "no"}]}, "tools[0].deferred"),
        ({"tools": 257 * [TOOL]}, "tools"),
        ({"commands": [{"description": ""}]}, "commands[0].name"),
        ({"commands": [{"name": "/plan", "description": ""}]}, "commands[0].name"),
        ({"commands": [{"name": "a b", "description": ""}]}, "commands[0].name"),
        ({"commands": [{"name": "a\x1b[31m", "description": ""}]}, "commands[0].name"),
        ({"commands": [{"name": "x", "description": 1}]}, "commands[0].description"),
        ({"flags": [1]}, "flags[0]"),
        ({"shortcuts": [{"key": "ctrl+p"}]}, "shortcuts[0].command"),
        ({"shortcuts": [{"command": "x"}]}, "shortcuts[0].key"),
        ({"subscriptions": "turn_start"}, "subscriptions"),
        ({"subscriptions": [300 * "x"]}, "subscriptions[0]"),
        ({"hooks": [None]}, "hooks[0]"),
        ({"providers": [{}]}, "providers[0].name"),
        ({"providers": [{"name": "x", "oauth": 1}]}, "providers[0].oauth"),
        ({"providers": [{"name": "x", "api_key_env": "A B"}]}, "providers[0].api_key_env"),
        ({"providers": [{"name": "x", "models": [{}]}]}, "providers[0].models[0].id"),
        ({"providers": [{"name": "x", "models": [{"id": "a b"}]}]}, "providers[0].models[0].id"),
        ({"message_renderers": [{"template": {}}]}, "message_renderers[0].tag"),
        ({"message_renderers": [{"tag": "x"}]}, "message_renderers[0].template"),
        ({"message_renderers": [{"tag": "x", "template": {"kind": "y"}}]}, "message_renderers[0].template.kind"),
    ],
)
def test_what_is_wrong_is_named(data: object, field: str) -> None:
    """A registration of the wrong type, size or content is refused with the way to it."""
    with pytest.raises(RegistrationsInvalid) as caught:
        read_registrations(data)
    assert ("registrations_invalid", field) == (caught.value.code, caught.value.field)


def test_a_schema_that_is_too_deep_is_refused() -> None:
    """Depth that would hurt whoever walks through a schema later is refused here."""
    with pytest.raises(RegistrationsInvalid, match="too deeply"):
        read_registrations({"tools": [{**TOOL, "parameters": nested(60)}]})
    assert 1 == len(read_registrations({"tools": [{**TOOL, "parameters": {"default": nested(40)}}]}).tools)


def test_an_update_adds_and_replaces_by_name() -> None:
    """The last registration of a name wins in its old place, new ones come at the end, and the rest stays."""
    old = read_registrations(
        {
            "tools": [TOOL, {**TOOL, "name": "plant"}],
            "commands": [{"name": "plan", "description": "old"}],
            "flags": ["a"],
            "subscriptions": ["turn_start"],
            "hooks": ["context"],
            "providers": [{"name": "acme", "models": [{"id": "one"}]}],
        }
    )
    new = merge_update(
        old,
        {
            "tools": [{**TOOL, "name": "fill"}, {**TOOL, "description": "Digs deeper."}],
            "commands": [],
            "subscriptions": ["turn_end", "turn_start"],
            "shortcuts": [{"key": "f1", "command": "plan"}],
            "providers": [{"name": "acme"}],
            "hooks": ["tool_call"],
        },
    )
    assert [("dig", "Digs deeper."), ("plant", "Digs a hole."), ("fill", "Digs a hole.")] == [
        (tool.name, tool.description) for tool in new.tools
    ]
    assert (
        attrs.evolve(
            old,
            tools=new.tools,
            subscriptions=("turn_start", "turn_end"),
            shortcuts=(Shortcut(key="f1", command="plan"),),
            providers=(ProviderRegistration(name="acme"),),
            hooks=("context", "tool_call"),
        )
        == new
    )
    assert old == merge_update(old, {})


def test_one_answer_with_a_name_twice_keeps_the_last() -> None:
    """Within one list, too, the last of a name wins."""
    found = read_registrations({"tools": [TOOL, {**TOOL, "description": "Second."}]})
    assert ["Second."] == [tool.description for tool in found.tools]


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("tools", lambda name: {**TOOL, "name": name}),
        ("commands", lambda name: {"name": name, "description": ""}),
        ("flags", str),
        ("subscriptions", str),
        ("hooks", str),
        ("shortcuts", lambda name: {"key": name, "command": "x"}),
        ("providers", lambda name: {"name": name}),
        ("message_renderers", lambda name: {"tag": name, "template": {"kind": "diff", "patch": ""}}),
    ],
)
def test_updates_do_not_grow_without_end(kind: str, make: Any) -> None:
    """However many updates an extension sends, what is kept of each kind stays bounded."""
    most = {"providers": 16}.get(kind, 256)
    found = Registrations()
    for number in range(most):
        found = merge_update(found, {kind: [make(f"n{number}")]})
    assert most == len(getattr(found, kind))
    assert found == merge_update(found, {kind: [make("n0")]})
    with pytest.raises(RegistrationsInvalid) as caught:
        merge_update(found, {kind: [make("more")]})
    assert kind == caught.value.field


def test_all_tools_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that are each small enough are refused when they are too large together."""
    monkeypatch.setattr(module, "MAX_TOOL_CHARS", 300)
    old = read_registrations({"tools": [TOOL]})
    with pytest.raises(RegistrationsInvalid, match="together") as caught:
        merge_update(old, {"tools": [{**TOOL, "name": "b", "description": 200 * "x"}]})
    assert "tools" == caught.value.field


@pytest.mark.parametrize(
    ("asked", "hooks", "declared", "told"),
    [
        (("turn_start", "turn_end"), (), (), {"turn_start", "turn_end"}),
        (("turn_start", "turn_end"), (), ("turn_end", "tool_call"), {"turn_end"}),
        (("turn_start",), (), ("turn_end",), set[str]()),
        ((), (), ("turn_end",), set[str]()),
        ((), ("message_end",), (), {"message_end"}),
        ((), ("message_end",), ("turn_end",), set[str]()),
        (("message_end", "session_before_compact", "tool_call"), (), (), {"message_end"}),
    ],
)
def test_events_are_clamped(
    asked: tuple[str, ...], hooks: tuple[str, ...], declared: tuple[str, ...], told: set[str]
) -> None:
    """An extension hears what it asked for within what its manifest declares; hooks are no events, but one is both."""
    registrations = Registrations(subscriptions=asked, hooks=hooks)
    assert told == clamp_subscriptions(registrations, manifest(events=declared))


def test_the_bus_is_for_those_who_may_use_it() -> None:
    """Without the capability for the bus, what others publish is not heard either."""
    registrations = Registrations(subscriptions=("bus/event", "turn_end"))
    assert {"bus/event", "turn_end"} == clamp_subscriptions(registrations, manifest())
    assert {"turn_end"} == clamp_subscriptions(registrations, manifest(enabled=frozenset({"tools"})))


@pytest.mark.parametrize(
    ("hooks", "subscriptions", "handled"),
    [
        ((), (), None),
        ((), ("session_before_compact",), None),
        (("tool_call",), ("turn_end",), {"tool_call"}),
        (("tool_call",), ("session_before_tree", "session_before_compact"), {"tool_call", *HOOKS[-2:]}),
        (("tool_call",), ("context",), {"tool_call"}),
        (("invented",), (), set[str]()),
    ],
)
def test_hooks_that_are_handled(
    hooks: tuple[str, ...], subscriptions: tuple[str, ...], handled: set[str] | None
) -> None:
    """A list of hooks is exact, no list means perhaps all, and two hooks may hide among the subscriptions."""
    assert handled == handled_hooks(Registrations(hooks=hooks, subscriptions=subscriptions))


def test_only_what_the_manifest_permits_stays() -> None:
    """Tools, commands with their keys, providers and renderers go without their capability; hooks and events stay."""
    everything = read_registrations(
        {
            "tools": [TOOL],
            "commands": [{"name": "x", "description": ""}],
            "shortcuts": [{"key": "f1", "command": "x"}],
            "providers": [{"name": "p"}],
            "message_renderers": [{"tag": "t", "template": {"kind": "markdown", "text": ""}}],
            "subscriptions": ["turn_end"],
            "hooks": ["context"],
            "flags": ["f"],
        }
    )
    assert everything == filter_permitted(everything, manifest())
    nothing = Registrations(subscriptions=("turn_end",), hooks=("context",), flags=("f",))
    assert nothing == filter_permitted(everything, manifest(enabled=frozenset()))
    only_tools = filter_permitted(everything, manifest(enabled=frozenset({"tools"})))
    assert attrs.evolve(nothing, tools=everything.tools) == only_tools


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from([field.name for field in attrs.fields(Registrations)])
_INNER = st.sampled_from(["name", "description", "parameters", "key", "command", "tag", "template", "kind", "models"])
_ODD = st.dictionaries(_KEYS, _JSON | st.lists(st.dictionaries(_INNER, _JSON), max_size=2), max_size=4)


@given(_JSON | _ODD)
def test_any_json_is_read_or_refused(data: object) -> None:
    """Nothing that an extension can say leads to anything but registrations or the one typed error."""
    field = None
    try:
        found = read_registrations(data)
    except RegistrationsInvalid as error:
        field = error.field
    else:
        assert found == merge_update(found, {})
    assert field != ""
