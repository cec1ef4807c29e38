"""What an extension has answered in a test, read as a host reads it."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from session_core.sep.sdk.answers import Answer, CommandCompletion, Credentials, TokenUsage, ToolCall, ToolResult
from session_core.wire.error_text import describe_json
from session_core.wire.strict_json import is_encodable


class UnusableAnswer(Exception):
    """The extension has answered with something that no host can use."""


@attrs.frozen(kw_only=True)
class HookResult:
    """What a hook has come to.

    Attributes:
        action: What the extension wants.
        value: What the host goes on with: the input, with the patch over it. Nothing when it was blocked.
        reason: Why it was blocked.
    """

    action: Literal["continue", "block", "modify"]
    value: Mapping[str, Any] | None
    reason: str | None = None

    @property
    def blocked(self) -> bool:
        """Whether the extension has said no."""
        return self.action == "block"


@attrs.frozen(kw_only=True)
class ModelCompletion:
    """What a model has answered: the whole, and the pieces that came before, as objects of the protocol."""

    answer: Answer
    deltas: tuple[Mapping[str, Any], ...] = ()

    @property
    def streamed_text(self) -> str:
        """The text of the pieces."""
        return "".join(each["content"] for each in self.deltas if each.get("type") == "Delta")


def require_object(what: str, answer: Any) -> dict[str, Any]:
    """Return an answer that must be an object.

    Raises:
        UnusableAnswer: It is something else.
    """
    if not isinstance(answer, dict):
        raise UnusableAnswer(f"{what} was answered with {describe_json(answer)}, where an object is needed")
    return answer


def parse_tool_result(tool: str, answer: Any) -> ToolResult:
    """Read the answer of a tool.

    Raises:
        UnusableAnswer: It is none.
    """
    found = require_object(tool, answer)
    content, failed = found.get("content"), found.get("is_error")
    if not isinstance(content, str) or not is_encodable(content):
        raise UnusableAnswer(f"{tool} was answered with {describe_json(content)} as its content, which must be text")
    if failed is not None and not isinstance(failed, bool):
        raise UnusableAnswer(f"{tool} did not say whether it failed, but {describe_json(failed)}")
    return ToolResult(content=content, is_error=failed or False, details=found.get("details"))


def parse_completions(answer: Any) -> list[CommandCompletion]:
    """Read how a command could go on.

    Raises:
        UnusableAnswer: It is no list of objects with texts in them.
    """
    entries = require_object("command/complete", answer).get("completions") or []
    found = []
    for entry in entries if isinstance(entries, list) else [entries]:
        value, about = (entry.get("value"), entry.get("description")) if isinstance(entry, dict) else (None, None)
        if not isinstance(value, str) or not isinstance(about, str | None):
            raise UnusableAnswer(f"a completion must be an object with a text as its value, not {entry!r}")
        found.append(CommandCompletion(value, about))
    return found


def parse_model_answer(answer: Any) -> Answer:
    """Read the whole answer of a model.

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
    """Read what a login has given, as strictly as the host that would keep it.

    Raises:
        CredentialsInvalid: It has another shape, or holds no key and no token.
    """
    from session_core.sep.host.models.credentials import read_credentials

    return Credentials(**read_credentials(answer).wire())
