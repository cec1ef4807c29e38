"""Convert a conversation to the form that model APIs accept: the first thing every provider does.

`prepare_conversation` returns the conversation as steps: `UserStep` and `ModelStep`. The APIs are strict about order,
but a real conversation may have been stopped, compacted or imported, or have crashed. It guarantees:

- It begins with `UserStep`, and ends with `UserStep` or with tool results: the model is always the next to speak.
- No `UserStep` follows another; no `ModelStep` follows one without tool results. Neither is ever empty.
- Messages that an extension writes as the model belong to the model too, but the model's own answer to them is a
  separate step: APIs want thinking to come first in a step.
- Every tool call has exactly one result, in `ModelStep.results`, in the order of the calls; a missing result is made up
  and says so. Results without a call become text of the user's side. Call ids are unique, and ids and names use
  characters that every API accepts.
- Texts are never blank. Thinking never comes last in `ModelStep`: APIs refuse thinking without what it led to.
- Summaries and attached files are texts of the user's side, which also notes when an answer was cut short.

A provider then writes each step in its own format. Thinking keeps its signature, whichever provider made it; each
provider drops thinking that is not its own (`own_signature`). For APIs that cannot mark a result as failed,
`result_text` says so in words.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

import attrs

from session_core.ids import CallId
from session_core.providers.tool_names import NOT_IN_NAMES, fit_tool_name
from session_core.vocabulary.messages import (
    CodePart,
    FilePart,
    ImagePart,
    InterruptedPart,
    InterruptReason,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)

MAX_ID_CHARS: Final = 40
"""The smallest maximum length of call ids among the APIs."""
IMAGE_LEFT_OUT: Final = "[There is an image here, which this model cannot see.]"

_GO_ON: Final = "Please go on."
_BEGINS_WITH_ANSWER: Final = "[What was said before this is no longer part of the conversation.]"
_SUMMARY: Final = "Summary of the conversation up to here:\n\n"
_CUT_SHORT: Final[dict[InterruptReason, str]] = {
    "stopped": "[The answer before this was cut short: the user stopped it.]",
    "failed": "[The answer before this was cut short by a failure.]",
    "interrupted": "[The answer before this was cut short: the program ended.]",
    "max_tokens": "[The answer before this was cut short: it had reached the longest length.]",
}
_NO_RESULT: Final = "There is no result: the work ended before this call did. It may or may not have had an effect."
_NO_OUTPUT: Final = "(no output)"
_STATUS_WORDS: Final[dict[ToolStatus, str]] = {
    "success": "",
    "error": "Error: ",
    "denied": "Not allowed: ",
    "cancelled": "Stopped before it was done: ",
    "interrupted": "Interrupted before it was done: ",
}

UserContent = TextPart | ImagePart
ModelContent = TextPart | ThinkingPart | ToolCallPart


@attrs.frozen(kw_only=True)
class UserStep:
    """A step of the user's side: at least one part, none of them blank."""

    parts: tuple[UserContent, ...]


@attrs.frozen(kw_only=True)
class ModelStep:
    """A step of the model: at least one text part or call; `results` answer the calls among the parts, one by one."""

    parts: tuple[ModelContent, ...]
    results: tuple[ToolResultPart, ...] = ()


ConversationStep = UserStep | ModelStep


def prepare_conversation(
    messages: Iterable[Message], fit_name: Callable[[str], str] = fit_tool_name
) -> tuple[ConversationStep, ...]:
    """Convert a conversation to the form described above; `fit_name` maps a tool's name to its name in the request."""
    conversation = _Conversation(fit_name)
    for message in messages:
        conversation.add(message)
    return conversation.steps()


def result_text(result: ToolResultPart) -> str:
    """Return a tool result as text, for APIs that have no other way to mark a failed call."""
    return _STATUS_WORDS[result.status] + (result.text if result.text.strip() else _NO_OUTPUT)


def own_signature(part: ThinkingPart, kind: str) -> str | None:
    """Return the signature without its prefix if this kind of provider made it, else None."""
    prefix = f"{kind}:"
    if part.signature is None or not part.signature.startswith(prefix):
        return None
    return part.signature.removeprefix(prefix)


@attrs.define
class _OpenStep:
    """A step that is still being collected; `answers` maps each call to its result, or None until it comes."""

    by_model: bool
    parts: list[UserContent | ModelContent] = attrs.field(factory=list)
    answers: dict[CallId, ToolResultPart | None] = attrs.field(factory=dict)


class _Conversation:
    """Collects the messages of a conversation, one after the other."""

    def __init__(self, fit_name: Callable[[str], str]) -> None:
        self._fit_name = fit_name
        self._steps: list[_OpenStep] = []
        self._open_calls: dict[CallId, tuple[_OpenStep, CallId]] = {}
        self._used: set[CallId] = set()
        self._posted_last = False

    def add(self, message: Message) -> None:
        """Add one message: an answer of the model, or a message of the user's side."""
        if message.role == "assistant":
            self._add_answer(message)
        for part in message.parts:
            match part:
                case TextPart() if message.role == "summary":
                    self._tell(part.text, before=_SUMMARY if message.source is None else "")
                case TextPart() if message.role != "assistant":
                    self._tell(part.text)
                case FilePart():
                    self._tell(_format_file(part))
                case ImagePart():
                    self._step(by_model=False).parts.append(part)
                case ToolResultPart():
                    self._add_result(part)
                case InterruptedPart():
                    self._tell(_CUT_SHORT[part.reason])
                case _:
                    pass

    def _add_answer(self, message: Message) -> None:
        parts = list(_join_model_content(message.parts))
        while parts and isinstance(parts[-1], ThinkingPart):
            parts.pop()
        if not parts:
            return
        if self._posted_last and message.source is None and self._has_answer_at_end():
            self._tell(_GO_ON)  # the original request had this too
        self._posted_last = message.source is not None
        step = self._step(by_model=True)
        for part in parts:
            step.parts.append(self._with_own_id(part, step) if isinstance(part, ToolCallPart) else part)

    def _with_own_id(self, call: ToolCallPart, step: _OpenStep) -> ToolCallPart:
        own = self._unused_id(call.call_id)
        step.answers[own] = None
        self._open_calls[call.call_id] = (step, own)
        return attrs.evolve(call, call_id=own, name=self._fit_name(call.name))

    def _unused_id(self, wanted: CallId) -> CallId:
        fitting = own = CallId(NOT_IN_NAMES.sub("_", wanted)[:MAX_ID_CHARS] or "call")
        number = 1
        while own in self._used:
            number += 1
            end = f"_{number}"
            own = CallId(fitting[: MAX_ID_CHARS - len(end)] + end)
        self._used.add(own)
        return own

    def _add_result(self, result: ToolResultPart) -> None:
        step, own = self._open_calls.get(result.call_id, (None, result.call_id))
        if step is None:
            self._tell(f"[Result of an earlier call of {self._fit_name(result.name)}]\n{result_text(result)}")
            self._step(by_model=False).parts.extend(result.images)
        elif step.answers[own] is None:
            step.answers[own] = attrs.evolve(result, call_id=own, name=self._fit_name(result.name))

    def _tell(self, text: str, *, before: str = "") -> None:
        if text.strip():
            self._step(by_model=False).parts.append(TextPart(text=before + text))

    def _step(self, *, by_model: bool) -> _OpenStep:
        """Return the step for the next part: the last one if the same side continues, else a new one."""
        if not self._steps or self._steps[-1].by_model != by_model or self._steps[-1].answers:
            self._steps.append(_OpenStep(by_model=by_model))
        return self._steps[-1]

    def _has_answer_at_end(self) -> bool:
        return bool(self._steps) and self._steps[-1].by_model and not self._steps[-1].answers

    def steps(self) -> tuple[ConversationStep, ...]:
        """Return the finished conversation; open steps are closed."""
        if self._steps and self._steps[0].by_model:
            self._steps.insert(0, _OpenStep(by_model=False, parts=[TextPart(text=_BEGINS_WITH_ANSWER)]))
        if not self._steps or self._has_answer_at_end():
            self._tell(_GO_ON)
        return tuple(map(_close_step, self._steps))


def _join_model_content(parts: Iterable[Part]) -> Iterator[ModelContent]:
    """Join the parts that a protocol has split: the model wrote them as one piece."""
    for written, group in groupby(parts, lambda part: isinstance(part, TextPart | CodePart)):
        if written:
            text = "".join(part.text for part in group if isinstance(part, TextPart | CodePart))
            if text.strip():
                yield TextPart(text=text)
        else:
            yield from (part for part in group if isinstance(part, ThinkingPart | ToolCallPart))


def _format_file(file: FilePart) -> str:
    return f"[Attached file: {file.name}]\n{file.text}\n[End of the attached file]"


def _close_step(step: _OpenStep) -> ConversationStep:
    if not step.by_model:
        return UserStep(parts=tuple(part for part in step.parts if isinstance(part, UserContent)))
    parts = tuple(part for part in step.parts if isinstance(part, ModelContent))
    names = {part.call_id: part.name for part in parts if isinstance(part, ToolCallPart)}
    results = tuple(
        result or ToolResultPart(call_id=call_id, name=names[call_id], status="interrupted", text=_NO_RESULT)
        for call_id, result in step.answers.items()
    )
    return ModelStep(parts=parts, results=results)
