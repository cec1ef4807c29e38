"""The answers of an extension in a test, read as a host reads them."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from session_core.sep.sdk.answers import Answer, CommandCompletion, Credentials, TokenUsage, ToolCall, ToolResult
from session_core.wire.error_text import describe_json
from session_core.wire.strict_json import is_encodable


class UnusableAnswer(Exception):
    """The extension answered with something that no host can use."""


@attrs.frozen(kw_only=True)
class HookResult:
    """The result of a hook.

    Attributes:
        action: What the extension decided.
        value: What the host continues with: the input with the patch over it, or None if it was blocked.
        reason: Why it was blocked.
    """

    action: Literal["continue", "block", "modify"]
    value: Mapping[str, Any] | None
    reason: str | None = None

    @property
    def blocked(self) -> bool:
        """Whether the extension vetoed."""
        return self.action == "block"


@attrs.frozen(kw_only=True)
class ModelCompletion:
    """A model's answer: the complete one, and the pieces before it, in wire form."""

    answer: Answer
    deltas: tuple[Mapping[str, Any], ...] = ()

    @property
    def streamed_text(self) -> str:
        """The text of all pieces."""
        return "".join(each["content"] for each in self.deltas if each.get("type") == "Delta")


def require_object(what: str, answer: Any) -> dict[str, Any]:
    """Return an answer after checking that it is an object.

    Raises:
        UnusableAnswer: It is not an object.
    """
    if not isinstance(answer, dict):
        raise UnusableAnswer(f"{what} was answered with {describe_json(answer)}, where an object is needed")
    return answer


def parse_tool_result(tool: str, answer: Any) -> ToolResult:
    """Read the answer of a tool.

    Raises:
        UnusableAnswer: It is not a tool result.
    """
    found = require_object(tool, answer)
    content, failed = found.get("content"), found.get("is_error")
    if not isinstance(content, str) or not is_encodable(content):
        raise UnusableAnswer(f"{tool} was answered with {describe_json(content)} as its content, which must be text")
    if failed is not None and not isinstance(failed, bool):
        raise UnusableAnswer(f"{tool} did not say whether it failed, but {describe_json(failed)}")
    return ToolResult(content=content, is_error=failed or False, details=found.get("details"))


def parse_completions(answer: Any) -> list[CommandCompletion]:
    """Read the completions of a command.

    Raises:
        UnusableAnswer: It is not a list of objects with texts.
    """
    entries = require_object("command/complete", answer).get("completions") or []
    found = []
    for entry in entries if isinstance(entries, list) else [entries]:
        value, about = (entry.get("value"), entry.get("description")) if isinstance(entry, dict) else (None, None)
        if not isinstance(value, str) or not isinstance(about, str | None):
            raise UnusableAnswer(f"a completion must be an object with a string as its value, not {entry!r}")
        found.append(CommandCompletion(value, about))
    return found


def parse_model_answer(answer: Any) -> Answer:
    """Read the complete answer of a model.

    Raises:
        UnusableAnswer: It has another shape.
    """
    found = require_object("provider/complete", answer)
    for key in ("content", "finish_reason", "reasoning_content", "resolved_model"):
        if not isinstance(found.get(key), str | None):
            raise UnusableAnswer(f"{key} of a model's answer must be text, not {describe_json(found[key])}")
    usage = found.get("usage")
    return Answer(
        content=found.get("content") or "",
        tool_calls=tuple(map(_tool_call, found.get("tool_calls") or ())),
        finish_reason=found.get("finish_reason") or "stop",
        usage=None if usage is None else _usage(usage),
        reasoning=found.get("reasoning_content"),
        resolved_model=found.get("resolved_model"),
    )


def _tool_call(call_json: Any) -> ToolCall:
    found = require_object("a tool call of a model", call_json)
    arguments = found.get("arguments") or {}
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        return ToolCall(
            id=str(found["id"]), name=str(found["name"]), arguments=require_object("its arguments", arguments)
        )
    except (KeyError, ValueError) as error:
        raise UnusableAnswer(f"a tool call needs an id, a name and arguments, not {call_json!r}") from error


def _usage(usage_json: Any) -> TokenUsage:
    found = require_object("the usage of a model", usage_json)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    return TokenUsage(**{name: found.get(name) or 0 for name in names})


def parse_credentials(answer: Any) -> Credentials:
    """Read the result of a login, as strictly as the host that would store it.

    Raises:
        CredentialsInvalid: It has another shape, or holds neither a key nor a token.
    """
    from session_core.sep.host.models.credentials import read_credentials

    return Credentials(**read_credentials(answer).wire())
