"""The schemas and their fixtures: each tells right from wrong, and what is right is right for our host too."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import jsonschema_rs
import pytest

from session_core.rpc.messages import UnusableLine, parse
from session_core.sep.conformance.catalogue import (
    FIXTURES,
    FOLDER,
    documents,
    fault_at,
    fault_of,
    methods,
    unknown_keys,
)
from session_core.sep.conformance.host_messages import completion_request, event_payload, greeting, hook_input
from session_core.sep.host.calls.hooks import FailureOutcome, read_outcome
from session_core.sep.host.calls.requests import read_ui_request
from session_core.sep.host.models.credentials import read_credentials
from session_core.sep.host.registrations import ProviderRegistration, read_registrations
from session_core.sep.protocol.fields import DocumentFields
from session_core.sep.protocol.manifest import Manifest, RunSpec
from session_core.sep.protocol.names import EVENTS, HOOKS
from session_core.sep.protocol.render_blocks import read_render_block

METHODS = {
    "initialize", "shutdown", "ping", "event", "hook", "tool/execute", "tool/update", "command/execute",
    "command/complete", "$/cancel", "provider/complete", "provider/delta", "provider/oauth_login",
    "provider/oauth_refresh", "registry/update", "tools/set_active", "session/send_message",
    "session/send_user_message", "session/append_entry", "session/set_model", "session/state", "ui/request", "exec/run",
    "kv/get", "kv/set", "kv/delete", "kv/list", "bus/publish", "log",
}  # fmt: skip


@attrs.frozen(kw_only=True)
class Case:
    """One value of a fixture; `why` says what is wrong with it, if anything is."""

    file: str
    definition: str
    value: Any = attrs.field(hash=False)
    why: str | None = None


def cases() -> Iterator[Case]:
    for path in sorted(FIXTURES.glob("*.json")):
        for definition, values in json.loads(path.read_text("utf-8")).items():
            if definition != "method":
                for value in values["valid"]:
                    yield Case(file=path.name, definition=definition, value=value)
                for wrong in values["invalid"]:
                    yield Case(file=path.name, definition=definition, value=wrong["value"], why=wrong["why"])


CASES = tuple(cases())


def valid(file: str, definition: str) -> list[Any]:
    return [each.value for each in CASES if (each.file, each.definition, each.why) == (file, definition, None)]


def test_every_method_has_a_schema() -> None:
    """There is one schema for each method of the protocol, and none for any other."""
    assert METHODS == set(methods())


def test_every_schema_is_one() -> None:
    """Every file is a JSON schema of draft 2020-12, and all references in it lead somewhere."""
    for document in documents().values():
        assert document["$schema"].endswith("draft/2020-12/schema")
        jsonschema_rs.meta.validate(document)
    for file, document in documents().items():
        for definition in document["$defs"]:
            fault_at(file, definition, {})


def test_no_schema_refuses_unknown_keys() -> None:
    """Whoever receives a message passes unknown keys over, so no schema forbids any."""
    assert [] == [path.name for path in FOLDER.glob("*.json") if '"additionalProperties": false' in path.read_text()]


def test_every_definition_that_is_used_has_fixtures_of_both_kinds() -> None:
    """Params and results of every method, and the shapes they share, have values that fit and values that do not."""
    wanted = {(f"{each.file}.json", "params") for each in methods().values()}
    wanted |= {(f"{each.file}.json", "result") for each in methods().values() if each.has_result}
    wanted |= {("message.json", "any"), ("registrations.json", "registrations")}
    wanted |= {("render_block.json", "block"), ("hook_outcome.json", "outcome")}

    assert wanted == {(each.file, each.definition) for each in CASES if each.why is None}
    assert wanted == {(each.file, each.definition) for each in CASES if each.why is not None}


def test_fixtures_are_told_apart() -> None:
    """Every valid value fits its schema, and every invalid one does not."""
    assert [] == [
        each for each in CASES if (fault_at(each.file, each.definition, each.value) is None) != (each.why is None)
    ]


def test_faults_are_worded() -> None:
    """A fault names the place and what is wrong there."""
    result = {"protocol_version": 1, "extension": {"name": "x", "version": "1"}, "registrations": {"tools": [{}]}}

    assert 'registrations.tools[0]: "name" is a required property' == fault_of("initialize", "result", result)
    assert "it cannot be checked" in str(fault_of("log", "params", {"level": "\ud800", "message": ""}))


@pytest.mark.parametrize(
    ("file", "definition", "accept"),
    [
        ("registrations.json", "registrations", read_registrations),
        ("registry_update.json", "params", read_registrations),
        ("initialize.json", "result", lambda value: read_registrations(value.get("registrations"))),
        ("render_block.json", "block", read_render_block),
        ("provider_oauth_login.json", "result", read_credentials),
        ("provider_oauth_refresh.json", "result", read_credentials),
        ("ui_request.json", "params", lambda value: read_ui_request(value["kind"], DocumentFields(value))),
    ],
)
def test_the_host_reads_what_is_valid(file: str, definition: str, accept: Callable[[Any], object]) -> None:
    """Our host's own readers take every value that its schema allows."""
    values = valid(file, definition)

    assert values
    for value in values:
        accept(value)


def test_the_host_reads_valid_outcomes_and_messages() -> None:
    """A valid outcome of a hook is no failure, and a valid message is one for the connection."""
    assert [] == [value for value in valid("hook.json", "result") if isinstance(read_outcome(value), FailureOutcome)]
    lines = [json.dumps(value).encode() for value in valid("message.json", "any")]
    assert [] == [line for line in lines if isinstance(parse(line), UnusableLine)]


def test_what_the_runner_sends_is_valid() -> None:
    """The greeting, hooks, events and requests to models that a check makes up fit the schemas themselves."""
    manifest = Manifest(name="x", version="1", run=RunSpec(command="x"))
    context = {"token": "t", "tier": "command"}
    sent: list[tuple[str, dict[str, Any]]] = [
        ("initialize", greeting(manifest, "/somewhere")),
        ("provider/complete", completion_request(ProviderRegistration(name="p"), "r")),
        *(("hook", {"hook": hook, "context": context, "input": hook_input(hook, "read")}) for hook in HOOKS),
        *(("event", {"event": event, "context": context, "payload": event_payload(event)}) for event in EVENTS),
    ]

    assert [] == [(method, fault) for method, params in sent if (fault := fault_of(method, "params", params))]
    assert [] == [(method, keys) for method, params in sent if (keys := unknown_keys(method, "params", params))]


def test_unknown_keys_are_found() -> None:
    """Keys that the protocol does not know are found at any depth, but not where anything may stand."""
    widget = {"kind": "stack", "children": [{"kind": "progress", "value": 1, "lable": "x"}]}
    tool = {"name": "t", "description": "", "parameters": {"type": "object", "anything": 1}, "defered": True}

    assert ("widget.children[0].lable",) == unknown_keys(
        "ui/request", "params", {"kind": "set_widget", "widget": widget}
    )
    assert ("tools[0].defered",) == unknown_keys("registry/update", "params", {"tools": [tool]})
    assert ("isError",) == unknown_keys("tool/execute", "result", {"content": "", "isError": True, "details": {"a": 1}})
    assert () == unknown_keys(
        "session/append_entry", "params", {"context": {"token": "t"}, "entry": {"any": {"thing": 1}}}
    )
    assert ("context.tire",) == unknown_keys("session/state", "params", {"context": {"token": "t", "tire": "command"}})


def test_valid_fixtures_hold_no_slips() -> None:
    """No valid value holds an unknown key but those that are there to be passed over."""
    found = {
        key
        for method, each in methods().items()
        for value in valid(f"{each.file}.json", "params")
        for key in unknown_keys(method, "params", value)
    }

    assert {"later"} == found
