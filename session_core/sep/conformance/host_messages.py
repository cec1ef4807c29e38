"""What the runner sends to an extension: samples of everything a host may send, and malformed lines."""

from collections.abc import Mapping
from typing import Any, Final

from session_core._version import __version__
from session_core.ids import SessionId
from session_core.sep.host.calls.commands import as_arguments
from session_core.sep.host.registrations import ProviderRegistration
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import CAPABILITIES, PROTOCOL_VERSION, UI_KINDS, EventName, HookName

SESSION: Final = SessionId("session_check")
HIGHER_VERSION: Final = PROTOCOL_VERSION + 98
"""A version of the protocol that does not exist."""
UNKNOWN_EVENT: Final = "conformance/never_heard_of"
UNKNOWN_METHOD: Final = "conformance/never_heard_of"
UNKNOWN_NAME: Final = "never_heard_of"
LARGE_CHARS: Final = 1024 * 1024
"""Far more than the default line limit of some readers (64 KiB), and far less than any host's limit."""

TYPED_ARGUMENTS: Final = {"arguments": as_arguments("sample")}
"""The params of a command after which something was typed."""

_MESSAGE: Final = "message_check"
_CALL: Final = "call_check"
_USAGE: Final = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15, "cached_tokens": 0}


def greeting(manifest: Manifest, workspace: str, *, offered: int = PROTOCOL_VERSION) -> dict[str, Any]:
    """Return the params of `initialize`: a client is attached, and all that the manifest enables is available."""
    enabled = manifest.capabilities.enabled
    return {
        "protocol_version": offered,
        "host": {"name": "session-core check", "version": __version__},
        "workspace": {"root": workspace, "trusted": True},
        "session": {"id": SESSION},
        "mode": "tui",
        "ui_capabilities": sorted(UI_KINDS),
        "flags": {},
        "capabilities_enabled": {each: each in enabled for each in CAPABILITIES},
    }


def hook_input(hook: HookName, tool: str) -> dict[str, Any]:
    """Return the input of a hook; `tool` is the one whose call is judged."""
    inputs: dict[HookName, dict[str, Any]] = {
        "input": {"text": "Say hello."},
        "before_agent_start": {"system_prompt": "You are a helpful agent."},
        "context": {"messages": [{"id": _MESSAGE, "role": "user", "content": "Say hello."}]},
        "before_provider_request": {"model": "sample", "thinking": "off", "max_output_tokens": None, "tools": ["read"]},
        "tool_call": {"tool": tool, "call_id": _CALL, "arguments": {"path": "sample.txt"}},
        "user_bash": {"command": "ls"},
        "tool_result": {
            "tool": tool,
            "call_id": _CALL,
            "arguments": {"path": "sample.txt"},
            "content": "sample",
            "is_error": False,
        },
        "message_end": {"message_id": _MESSAGE, "role": "assistant", "content": "Hello."},
        "session_before_compact": {"automatic": False},
        "session_before_tree": {"action": "switch", "message_id": _MESSAGE},
    }
    return {**inputs[hook], "session_id": SESSION}


_CALL_FIELDS: Final = {"iteration": 1, "call_id": _CALL, "tool": "read"}
_MESSAGE_FIELDS: Final = {"iteration": 1, "message_id": _MESSAGE}
_PAYLOADS: Final[Mapping[EventName, Mapping[str, Any]]] = {
    "agent_start": {"agent_id": SESSION, "turn_id": "turn_check"},
    "agent_end": {"agent_id": SESSION, "turn_id": "turn_check", "iterations": 1, "content": "Hello."},
    "turn_start": {"agent_id": SESSION, "turn_id": "turn_check"},
    "turn_end": {"agent_id": SESSION, "turn_id": "turn_check", "iterations": 1, "status": "completed", "usage": _USAGE},
    "message_start": {**_MESSAGE_FIELDS, "role": "assistant", "model": "sample"},
    "message_update": {**_MESSAGE_FIELDS, "kind": "text", "delta": "Hel"},
    "message_end": {**_MESSAGE_FIELDS, "role": "assistant", "content": "Hello.", "interrupted": False},
    "tool_execution_start": {**_CALL_FIELDS, "arguments": {"path": "sample.txt"}},
    "tool_execution_update": {**_CALL_FIELDS, "output": "sample"},
    "tool_execution_end": {**_CALL_FIELDS, "is_error": False, "status": "success", "content": "sample"},
    "model_select": {"model": "sample", "provider": "sample"},
    "session_start": {"reason": "new", "name": "check", "model": "sample"},
    "session_compact": {"status": "completed", "summary": "They said hello."},
    "session_shutdown": {"reason": "archived"},
    "session_tree": {"action": "switch", "head": _MESSAGE},
    "after_provider_response": {**_MESSAGE_FIELDS, "model": "sample", "is_error": False, "usage": _USAGE},
    "bus/event": {"from": "another", "topic": "sample", "payload": {"sample": True}},
    "widget/key": {"widget_id": "sample", "key": "enter"},
}


def event_payload(event: str) -> dict[str, Any]:
    """Return the payload of an event; an unknown event has little in it."""
    return {**dict(_PAYLOADS).get(event, {"sample": True}), "session_id": SESSION}  # type: ignore[call-overload]


def completion_request(provider: ProviderRegistration, request_id: str) -> dict[str, Any]:
    """Return the params of a request to a model."""
    return {
        "request_id": request_id,
        "provider": provider.name,
        "model": provider.models[0].id if provider.models else "sample",
        "messages": [
            {"role": "system", "content": "You are a helpful agent."},
            {"role": "user", "content": "Say hello."},
        ],
        "stream": True,
    }


ODD_LINES: Final[Mapping[str, bytes]] = {
    "a blank line": b"",
    "a line of blanks": b" \t ",
    "an error reply without an id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}',
    "a notification that it does not know": b'{"jsonrpc":"2.0","method":"conformance/never_heard_of","params":{}}',
    "a notification without params": b'{"jsonrpc":"2.0","method":"conformance/never_heard_of"}',
    "a cancellation of nothing that runs": b'{"jsonrpc":"2.0","method":"$/cancel","params":{"id":987654321}}',
}
"""Lines that a host may send and that must not crash any extension, by what they are."""
MALFORMED_LINES: Final[Mapping[str, bytes]] = {
    "a line that is not JSON": b"this is not JSON",
    "half a message": b'{"jsonrpc":"2.0","id":',
    "a bare null": b"null",
    "a bare number": b"5",
    "a bare string": b'"ping"',
    "a list": b"[]",
    "a batch": b'[{"jsonrpc":"2.0","method":"conformance/never_heard_of"}]',
    "an empty object": b"{}",
    "bytes that are not UTF-8": b'{"jsonrpc":"2.0","method":"\xff\xfe\xc3"}',
    "a reply to nothing it asked": b'{"jsonrpc":"2.0","id":987654321,"result":{}}',
    "an error reply to nothing it asked": (
        b'{"jsonrpc":"2.0","id":"never asked","error":{"code":-32603,"message":"sample"}}'
    ),
}
"""Lines that no host sends; an extension that survives them as well is robust."""
