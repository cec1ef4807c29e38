"""What handlers return: tool results, hook outcomes, completions, model answers, credentials."""

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None: a message leaves out what it does not say."""
    return {name: value for name, value in fields.items() if value is not None}


@attrs.frozen(kw_only=True)
class ToolResult:
    """The result of a tool, for when plain text is not enough.

    Attributes:
        content: The text for the model.
        is_error: Whether the call failed.
        details: Any JSON for frontends and other readers of the result; the model does not see it.
    """

    content: str
    is_error: bool = False
    details: Any = None

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"content": self.content, "is_error": self.is_error, **drop_none(details=self.details)}


def tool_result(returned: object) -> ToolResult:
    """Convert a tool's return value to a result: text stays as it is, None becomes empty, anything else becomes JSON.

    Raises:
        TypeError: The value cannot be written as JSON.
    """
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, str):
        return ToolResult(content=returned)
    if returned is None:
        return ToolResult(content="")
    return ToolResult(content=json.dumps(returned, ensure_ascii=False, default=_as_json))


def _as_json(value: Any) -> Any:
    if attrs.has(type(value)):
        return attrs.asdict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if inspect.iscoroutine(value):
        value.close()  # otherwise Python warns about it later, somewhere else
        raise TypeError("a tool returned something that was never awaited: an `await` is missing in it")
    raise TypeError(f"a tool returned a {type(value).__name__}, which has no form in JSON; return text or a ToolResult")


@attrs.frozen
class Block:
    """A hook's veto; see `block`."""

    reason: str | None = None


@attrs.frozen
class Patch:
    """Keys that a hook lays over its input; see `patch`."""

    changes: Mapping[str, Any]


HookReturn = Block | Patch | None


def block(reason: str | None = None) -> Block:
    """Return this from a hook to veto what is about to happen."""
    return Block(reason)


def patch(changes: Mapping[str, Any] | None = None, /, **more: Any) -> Patch:
    """Return this from a hook to change its input: `patch(content="...")`."""
    return Patch({**(changes or {}), **more})


def hook_outcome(hook: str, given: Mapping[str, Any], returned: Iterable[HookReturn]) -> dict[str, Any]:
    """Combine the returns of all handlers of one hook: the first block wins, patches are laid over each other.

    Each changed value is sent whole, because some hosts replace the value with the patch.

    Raises:
        TypeError: A handler returned something else.
    """
    changed: dict[str, Any] | None = None
    for each in returned:
        match each:
            case None:
                continue
            case Block(reason=reason):
                return {"action": "block", **drop_none(reason=reason)}
            case Patch(changes=changes):
                changed = {**(given if changed is None else changed), **changes}
            case _:
                raise TypeError(f"a handler of {hook} returned a {type(each).__name__}; use block(...) or patch(...)")
    return {"action": "continue"} if changed is None else {"action": "modify", "patch": changed}


@attrs.frozen
class CommandCompletion:
    """A possible continuation of a command's arguments, with its meaning."""

    value: str
    description: str | None = None


def completions(returned: Iterable[str | CommandCompletion] | str | None) -> dict[str, Any]:
    """Return the wire form of completions; a single string counts as one completion."""
    several = (returned,) if isinstance(returned, str) else returned or ()
    known = [each if isinstance(each, CommandCompletion) else CommandCompletion(each) for each in several]
    return {"completions": [{"value": each.value, **drop_none(description=each.description)} for each in known]}


@attrs.frozen(kw_only=True)
class ExecResult:
    """The exit code and output of a program."""

    exit_code: int
    stdout: str
    stderr: str


@attrs.frozen(kw_only=True)
class ToolCall:
    """A model's call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}


@attrs.frozen(kw_only=True)
class TokenUsage:
    """The tokens that an answer used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def wire(self) -> dict[str, int]:
        """Return the wire form."""
        return {**attrs.asdict(self), "total_tokens": self.prompt_tokens + self.completion_tokens}


@attrs.frozen(kw_only=True)
class Answer:
    """The complete answer of a model."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: TokenUsage | None = None
    reasoning: str | None = None
    resolved_model: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        more = drop_none(
            tool_calls=[each.wire() for each in self.tool_calls] or None,
            usage=None if self.usage is None else self.usage.wire(),
            reasoning_content=self.reasoning,
            resolved_model=self.resolved_model,
        )
        return {"content": self.content, "finish_reason": self.finish_reason, **more}


@attrs.frozen(kw_only=True)
class Credentials:
    """A login to a provider; the host stores it and passes it back with each request."""

    api_key: str | None = attrs.field(default=None, repr=False)
    access_token: str | None = attrs.field(default=None, repr=False)
    refresh_token: str | None = attrs.field(default=None, repr=False)
    expires_at: int | None = None
    """Seconds since 1970."""
    extra: Mapping[str, Any] | None = attrs.field(default=None, repr=False)

    def wire(self) -> dict[str, Any]:
        """Return the wire form."""
        return drop_none(**attrs.asdict(self))
