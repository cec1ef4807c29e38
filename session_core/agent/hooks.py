"""The narrow interface through which extensions take part in turns: ten hooks, one method.

A hook gets a JSON object and returns the object to continue with, or blocks. The functions below convert our values to
such objects and back; no other module knows the JSON form. Implementations of `Hooks` handle order, time limits and
failures: where a hook protects something (`tool_call`, `user_bash`), its failure blocks; elsewhere the turn continues
as if it had not been asked.

`run_*_hook` returns the value as the extensions leave it; `ask_before_*` returns the objection of one, or None.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, get_args

import attrs
import trio

from session_core.ids import MessageId, SessionId
from session_core.providers.base import ModelRequest, ThinkingEffort
from session_core.sep.protocol.names import FAIL_CLOSED as FAIL_CLOSED
from session_core.sep.protocol.names import HookName as HookName
from session_core.vocabulary.frozen import JsonObject, JsonValue, evolve_value
from session_core.vocabulary.messages import Message, TextPart, ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import present_name

log = logging.getLogger(__name__)
_ENTRIES_AT_ONCE: Final = 200
"""Entries of a conversation that are read at once; more are read in a thread, because each takes some microseconds."""


@attrs.frozen(kw_only=True)
class Blocked:
    """A hook refused."""

    reason: str


class Hooks(Protocol):
    """All extensions together, as a turn sees them."""

    def handles(self, hook: HookName) -> bool:
        """Return whether any extension wants to be asked; if not, the value need not be built."""
        ...

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        """Ask all extensions in order; returns the value as they leave it."""
        ...


def is_wanted(hooks: Hooks, hook: HookName, session_id: SessionId) -> bool:
    """Return whether any extension must be asked about a session, as far as is known without waiting.

    Hooks that differ by folder may have a method `handles_in`, which answers this for one session.
    """
    handles_in: Callable[[HookName, SessionId], bool] | None = getattr(hooks, "handles_in", None)
    return hooks.handles(hook) if handles_in is None else handles_in(hook, session_id)


class NoHooks:
    """No extension takes part."""

    def handles(self, hook: HookName) -> bool:
        """Return False."""
        return False

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        """Change nothing."""
        return value


NO_HOOKS = NoHooks()


async def run_input_hook(hooks: Hooks, session_id: SessionId, text: str) -> str | Blocked:
    """Run before a user message is accepted."""
    if not hooks.handles("input"):
        return text
    answer = await hooks.run("input", session_id, JsonObject({"text": text}))
    return answer if isinstance(answer, Blocked) else _read_text(answer, "text", text)


async def run_agent_start_hook(hooks: Hooks, session_id: SessionId, system_prompt: str) -> str:
    """Run before the first model call of a turn: the system prompt may be changed."""
    if not hooks.handles("before_agent_start"):
        return system_prompt
    answer = await hooks.run("before_agent_start", session_id, JsonObject({"system_prompt": system_prompt}))
    return system_prompt if isinstance(answer, Blocked) else _read_text(answer, "system_prompt", system_prompt)


async def run_context_hook(hooks: Hooks, session_id: SessionId, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Run before each model call: texts of messages may be changed or left out, for this call only.

    A hook sees `{"messages": [{"id", "role", "content"}]}` and keeps entries by their id; an entry that it adds has no
    id and becomes a user message.
    """
    if not hooks.handles("context"):
        return messages
    visible_messages = tuple(
        JsonObject({"id": each.message_id, "role": each.role, "content": each.text}) for each in messages
    )
    answer = await hooks.run("context", session_id, JsonObject({"messages": visible_messages}))
    entries = None if isinstance(answer, Blocked) else answer.get("messages")
    if not isinstance(entries, tuple):
        return messages
    if len(entries) > _ENTRIES_AT_ONCE:
        rebuilt = await trio.to_thread.run_sync(_rebuild_messages, messages, entries, abandon_on_cancel=True)
    else:
        rebuilt = _rebuild_messages(messages, entries)
    if rebuilt and _is_every_call_answered(rebuilt):
        return rebuilt
    log.warning("an extension returned a conversation that no model accepts; the original is sent")
    return messages


def _rebuild_messages(messages: tuple[Message, ...], entries: tuple[JsonValue, ...]) -> tuple[Message, ...]:
    known = {each.message_id: each for each in messages}
    found: list[Message] = []
    for entry in entries:
        if not isinstance(entry, JsonObject) or not isinstance(entry.get("role"), str):
            continue
        content = entry.get("content")
        text = content if isinstance(content, str) else ""
        identity = entry.get("id")
        before = known.get(MessageId(identity)) if isinstance(identity, str) else None
        if before is None:
            found.append(_build_added_message(messages, text))
        else:
            found.append(before if before.text == text else _replace_text(before, text))
    return tuple(message for message in found if message.parts)


def _is_every_call_answered(messages: tuple[Message, ...]) -> bool:
    """Return whether each answer with tool calls is followed by their results, and no results stand alone."""
    open_calls: list[str] = []
    for message in messages:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        if results != open_calls:
            return False
        open_calls = [call.call_id for call in message.tool_calls]
    return not open_calls


def _build_added_message(messages: tuple[Message, ...], text: str) -> Message:
    parts = (TextPart(text=text),) if text else ()
    return evolve_value(messages[-1], role="user", parts=parts, usage=None, model=None)


def _replace_text(message: Message, text: str) -> Message:
    rest = tuple(part for part in message.parts if not isinstance(part, TextPart))
    return attrs.evolve(message, parts=(TextPart(text=text), *rest) if text else rest)


async def run_request_hook(hooks: Hooks, session_id: SessionId, request: ModelRequest) -> ModelRequest:
    """Run right before a model is asked: its thinking, maximum answer length and tools may be changed."""
    if not hooks.handles("before_provider_request"):
        return request
    request_fields = JsonObject(
        {
            "model": request.model,
            "thinking": request.thinking,
            "max_output_tokens": request.max_output_tokens,
            "tools": tuple(tool.name for tool in request.tools),
        }
    )
    answer = await hooks.run("before_provider_request", session_id, request_fields)
    if isinstance(answer, Blocked):
        return request
    longest, tools, thinking = (answer.get(name) for name in ("max_output_tokens", "tools", "thinking"))
    if isinstance(longest, int) and not isinstance(longest, bool) and longest > 0:
        request = attrs.evolve(request, max_output_tokens=longest)
    if isinstance(tools, tuple):
        offered = {tool.name: tool for tool in request.tools}
        chosen = {present_name(name, offered) for name in tools if isinstance(name, str)}
        request = attrs.evolve(request, tools=tuple(tool for name, tool in offered.items() if name in chosen))
    effort = next((effort for effort in get_args(ThinkingEffort) if effort == thinking), request.thinking)
    return attrs.evolve(request, thinking=effort)


async def run_tool_call_hook(hooks: Hooks, session_id: SessionId, call: ToolCallPart) -> JsonObject | Blocked:
    """Run before a tool call is prepared; returns its arguments, or why it must not run."""
    if not hooks.handles("tool_call"):
        return call.arguments
    answer = await hooks.run(
        "tool_call", session_id, JsonObject({"tool": call.name, "call_id": call.call_id, "arguments": call.arguments})
    )
    if isinstance(answer, Blocked):
        return answer
    arguments = answer.get("arguments")
    return arguments if isinstance(arguments, JsonObject) else call.arguments


async def run_tool_result_hook(
    hooks: Hooks, session_id: SessionId, call: ToolCallPart, result: ToolResultPart
) -> ToolResultPart:
    """Run after a tool: the result that the model sees may be changed."""
    if not hooks.handles("tool_result"):
        return result
    value = JsonObject(
        {
            "tool": call.name,
            "call_id": call.call_id,
            "arguments": call.arguments,
            "content": result.text,
            "is_error": result.status != "success",
        }
    )
    answer = await hooks.run("tool_result", session_id, value)
    if isinstance(answer, Blocked):
        return result
    failed = answer.get("is_error")
    status = result.status
    if isinstance(failed, bool) and failed != (result.status != "success"):
        status = "error" if failed else "success"
    details = answer.get("details")
    return attrs.evolve(
        result,
        text=_read_text(answer, "content", result.text),
        status=status,
        details=details if isinstance(details, JsonObject) else result.details,
    )


async def run_message_end_hook(hooks: Hooks, session_id: SessionId, message: Message) -> None:
    """Run after each complete answer of the model; nothing can be changed any more."""
    if hooks.handles("message_end"):
        value = JsonObject({"message_id": message.message_id, "role": message.role, "content": message.text})
        await hooks.run("message_end", session_id, value)


async def ask_before_compaction(hooks: Hooks, session_id: SessionId, *, automatic: bool) -> Blocked | None:
    """Run before the conversation is compacted; returns why it must not be, or None."""
    return await _ask_hook(hooks, "session_before_compact", session_id, JsonObject({"automatic": automatic}))


async def ask_before_tree_change(hooks: Hooks, session_id: SessionId, what: str, message_id: str) -> Blocked | None:
    """Run before a switch to another branch, or the edit of a message; returns why it must not happen, or None."""
    value = JsonObject({"action": what, "message_id": message_id})
    return await _ask_hook(hooks, "session_before_tree", session_id, value)


async def ask_before_user_command(hooks: Hooks, session_id: SessionId, command: str) -> Blocked | None:
    """Run before a command that the user typed; returns why it must not run, or None."""
    return await _ask_hook(hooks, "user_bash", session_id, JsonObject({"command": command}))


async def _ask_hook(hooks: Hooks, hook: HookName, session_id: SessionId, value: JsonObject) -> Blocked | None:
    if not hooks.handles(hook):
        return None
    answer = await hooks.run(hook, session_id, value)
    return answer if isinstance(answer, Blocked) else None


def _read_text(answer: JsonObject, key: str, otherwise: str) -> str:
    text = answer.get(key)
    return text if isinstance(text, str) else otherwise
