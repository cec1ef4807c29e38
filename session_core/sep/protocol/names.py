"""The names of the protocol: hooks, events, kinds of dialogs, capabilities and error codes."""

import re
from typing import Final, Literal, get_args

from session_core.rpc.failures import CANCELLED as CANCELLED
from session_core.rpc.failures import INTERNAL_ERROR as INTERNAL_ERROR
from session_core.rpc.failures import INVALID_PARAMS as INVALID_PARAMS
from session_core.rpc.failures import METHOD_NOT_FOUND as METHOD_NOT_FOUND
from session_core.vocabulary.extensions import UiKind as UiKind

PROTOCOL_VERSION: Final = 1

BLOCKED: Final = -32000
NO_UI: Final = -32001
NOT_TRUSTED: Final = -32002
CONTEXT_VIOLATION: Final = -32003
CAPABILITY_DISABLED: Final = -32004

HookName = Literal[
    "input",
    "before_agent_start",
    "context",
    "before_provider_request",
    "tool_call",
    "user_bash",
    "tool_result",
    "message_end",
    "session_before_compact",
    "session_before_tree",
]
HOOKS: Final[tuple[HookName, ...]] = get_args(HookName)
FAIL_CLOSED: Final[frozenset[HookName]] = frozenset({"tool_call", "user_bash"})
"""Hooks whose failure counts as a veto."""

EventName = Literal[
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "model_select",
    "session_start",
    "session_compact",
    "session_shutdown",
    "session_tree",
    "after_provider_response",
    "bus/event",
    "widget/key",
]
EVENTS: Final[tuple[EventName, ...]] = get_args(EventName)

UI_KINDS: Final[tuple[UiKind, ...]] = get_args(UiKind)
QUESTIONS: Final[frozenset[UiKind]] = frozenset({"select", "confirm", "input"})
"""Kinds that wait for an answer; the others only show something."""

Capability = Literal["tools", "commands", "ui", "exec", "kv", "bus", "session", "providers"]
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)

ALL_TOOLS: Final = "*"
"""In `tools/set_active`: every tool that the session may use, including later ones."""

_EXTENSION_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

Tier = Literal["event", "command"]
Mode = Literal["tui", "web", "widget", "cli", "headless"]


def is_extension_name(name: str) -> bool:
    """Return whether a name is valid for an extension: no dots, which separate it from its tools, and no path parts."""
    return _EXTENSION_NAME.fullmatch(name) is not None
