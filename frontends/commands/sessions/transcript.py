"""A conversation as lines for a terminal. Pure functions; all foreign text is sanitised here."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

import session_core as sc
from frontends.shared.activity_words import WORDS
from frontends.shared.conversation import work_lines
from frontends.shared.figures import clock_time, dollars, format_ago, format_count, format_path
from frontends.shared.sanitise import one_line, sanitise
from frontends.shared.style import Style
from frontends.shared.text_width import cut

_NAME_CHARS = 200
_QUEUE_CHARS = 60

Arguments: TypeAlias = Mapping[sc.CallId, Mapping[str, sc.JsonValue]]


@attrs.frozen(kw_only=True)
class TranscriptFormat:
    """How to format a conversation; `protocol` is that of its session."""

    style: Style
    now: int
    width: int
    protocol: str | None = None


def head_lines(setting: TranscriptFormat, snapshot: sc.SessionSnapshot, short: str, *, abandoned: bool) -> list[str]:
    """Return the name of a session and a line about it."""
    style = setting.style
    interrupted = abandoned and not snapshot.activity.is_at_rest
    activity = "interrupted" if interrupted else snapshot.activity.name
    about = "about " if snapshot.usage.estimated else ""
    facts = [
        short,
        WORDS[activity],
        *(["archived"] if snapshot.archived else []),
        format_count(snapshot.earlier + len(snapshot.messages), "message"),
        format_ago(snapshot.updated_at, setting.now),
        one_line(snapshot.settings.model),
        *([about + dollars(snapshot.usage.cost_micros)] if snapshot.usage.cost_micros else []),
        one_line(format_path(snapshot.settings.cwd), _NAME_CHARS),
    ]
    more = style.symbol("…")
    return [
        style.bold(cut(one_line(snapshot.name, _NAME_CHARS), setting.width, more=more)),
        style.dim(cut(f" {style.symbol('·')} ".join(facts), setting.width, more=more)),
    ]


def message_lines(setting: TranscriptFormat, messages: Sequence[sc.Message], arguments: Arguments) -> list[str]:
    """Return the messages, each under a line with its speaker; `arguments` are those of earlier calls."""
    lines: list[str] = []
    arguments = dict(arguments)
    speaking: object = None
    for message in messages:
        arguments.update({call.call_id: call.arguments for call in message.tool_calls})
        body = _body(setting.style, message, arguments)
        # The steps of a turn and its tool results form one answer.
        speaker = ("answer", message.turn_id) if message.role in {"assistant", "tool"} else message.message_id
        if body and speaker != speaking:
            lines += ["", *([] if message.role == "tool" else [_speaker(setting, message)])]
            speaking = speaker
        lines += body
    return lines


def _speaker(setting: TranscriptFormat, message: sc.Message) -> str:
    style = setting.style
    when = style.dim(clock_time(message.created_at, setting.now))
    match message.role:
        case "user" if message.source is not None:
            name = one_line(message.source, _NAME_CHARS)
            said = f"protocol {name} says" if message.source == setting.protocol else f"{name} asks for you"
            return f"{style.bold(style.yellow(said))} {when}"
        case "user":
            return f"{style.bold(style.cyan('you'))} {when}"
        case "summary" if message.source is not None:
            return f"{style.bold(style.yellow('a new frame begins'))} {when}"
        case "summary":
            return f"{style.bold(style.yellow('summary of the conversation so far'))} {when}"
        case _:
            return f"{style.bold(style.green(one_line(message.model or 'model')))} {when}"


def _body(style: Style, message: sc.Message, arguments: Arguments) -> list[str]:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case sc.TextPart(text=text):
                lines += _text(text)
            case sc.ThinkingPart(text=text):
                lines += [style.dim(line) for line in _thought(style, text)]
            case sc.ToolResultPart():
                lines.append(work_lines.tool_line(style, part, arguments.get(part.call_id)))
            case sc.ImagePart():
                lines.append(style.dim("(an image)"))
            case sc.InterruptedPart(reason=reason):
                lines.append(work_lines.cut_short_line(style, reason))
            case sc.FilePart(name=name, text=text):
                many = format_count(len(text.splitlines()), "line")
                lines.append(style.dim(f"(a file: {one_line(name, _NAME_CHARS)}, {many})"))
            case sc.CodePart(text=text):
                lines += [style.dim(line) for line in _text(text)]
            case sc.ToolCallPart():
                pass  # shown with its result
    return lines


def _text(text: str) -> list[str]:
    clean = sanitise(text).rstrip()
    return clean.split("\n") if clean else []


def _thought(style: Style, text: str) -> list[str]:
    lines = _text(text)
    return [f"{style.symbol('✻')} {lines[0]}", *lines[1:]] if lines else []


def tail_lines(setting: TranscriptFormat, snapshot: sc.SessionSnapshot, *, abandoned: bool) -> list[str]:
    """Return the current end of a conversation: the answer being written, open questions, the outcome."""
    style, lines = setting.style, _partial(setting, snapshot, abandoned=abandoned)
    for tool in snapshot.tools:
        name = one_line(tool.name)
        said = f"{name}({work_lines.arguments_line(tool.arguments)})"
        if tool.result is not None:
            lines.append(work_lines.tool_line(style, tool.result, tool.arguments))
        else:
            lines.append(f"{style.yellow(style.symbol('●'))} {said} {style.dim('has begun')}")
    if abandoned and not snapshot.activity.is_at_rest:
        mark = style.red(style.symbol("✗"))
        return [*lines, "", f"{mark} interrupted: the program that ran it has ended; this is what was saved"]
    for approval in snapshot.approvals:
        said = f"{one_line(approval.tool_name)}({work_lines.arguments_line(approval.arguments)})"
        lines.append(f"{style.yellow('?')} {said} waits for approval")
    if any(item.status != "done" for item in snapshot.plan):
        lines += ["", *work_lines.plan_lines(style, snapshot.plan)]
    for item in snapshot.queue:
        text = "".join(part.text for part in item.parts if isinstance(part, sc.TextPart))
        lines.append(style.dim(f"(queued: {one_line(text, _QUEUE_CHARS)})"))
    outcome = snapshot.last_outcome
    if snapshot.activity.name in {"stopped", "errored", "interrupted"} and outcome is not None:
        answer = next((each for each in reversed(snapshot.transcript) if each.role == "assistant"), None)
        lines += ["", work_lines.outcome_line(style, outcome, answer)]
    return lines


def _partial(setting: TranscriptFormat, snapshot: sc.SessionSnapshot, *, abandoned: bool) -> list[str]:
    partial = snapshot.partial
    if partial is None:
        return []
    style = setting.style
    model, doing = style.bold(style.green(one_line(partial.model))), ", cut short" if abandoned else " is writing"
    lines = ["", f"{model}{style.dim(doing)}"]
    for part in partial.parts:
        if part.kind == "text":
            lines += _text(str(part.text))
        elif part.kind == "thinking":
            lines += [style.dim(line) for line in _thought(style, str(part.text))]
    return lines
