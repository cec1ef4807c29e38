"""A stored conversation as lines for a terminal: its blocks, and at its end what the view of a running one shows."""

from collections.abc import Sequence

import attrs

import session_core as sc
from frontends.shared.activity_words import WORDS
from frontends.shared.conversation import blocks, work_lines
from frontends.shared.conversation.messages import describe_attachment, speaker_of
from frontends.shared.conversation.view import View
from frontends.shared.figures import clock_time, dollars, format_ago, format_count, format_path
from frontends.shared.sanitise import one_line, sanitise
from frontends.shared.style import Style
from frontends.shared.text_width import cut

_NAME_CHARS = 200
_QUEUE_CHARS = 60
_COMMAND_CHARS = 2_000


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


def message_lines(setting: TranscriptFormat, messages: Sequence[sc.Message], snapshot: sc.SessionSnapshot) -> list[str]:
    """Return messages of a session, each under a line with its speaker."""
    lines: list[str] = []
    speaking: object = None
    for message, content in blocks.build_conversation(messages, _calls_before(messages, snapshot)):
        body = _split("".join(f"{text}\n" for block in content for text in _texts(setting.style, block)))
        # The steps of a turn and its tool results form one answer.
        speaker = ("answer", message.turn_id) if message.role in {"assistant", "tool"} else message.message_id
        if body and speaker != speaking:
            lines += ["", *([] if message.role == "tool" else [_heading(setting, message)])]
            speaking = speaker
        lines += body
    return lines


def _calls_before(messages: Sequence[sc.Message], snapshot: sc.SessionSnapshot) -> blocks.Calls:
    """Return the calls that the first messages may be the results of."""
    parent_id = messages[0].parent_id if messages else None
    parents = (each for each in snapshot.messages if each.message_id == parent_id)
    return {call.call_id: call for parent in parents for call in parent.tool_calls}


def _texts(style: Style, block: blocks.Block) -> list[str]:
    """Return what a block says; each text has lines of its own."""
    match block:
        case blocks.UserMessageBlock():
            return _user_message(style, block)
        case blocks.AnswerBlock(text=text, code=True):
            return [style.dim(sanitise(text).rstrip())]
        case blocks.AnswerBlock(text=text) | blocks.SummaryBlock(text=text):
            return _prose(text)
        case blocks.ThinkingBlock(text=text):
            return [style.dim(f"{style.symbol('✻')} ") + style.dim(_cleaned(text))]
        case blocks.ToolBlock(result=sc.ToolResultPart() as result, arguments=arguments):
            return [work_lines.tool_line(style, result, arguments)]
        case blocks.AttachmentBlock(attachment=attachment):
            return [style.dim(describe_attachment(attachment))]
        case blocks.RemarkBlock(text=text):
            return [work_lines.cut_short_line(style, text)]
        case _:  # a call without a result yet; an entry, which only its extension could show
            return []


def _user_message(style: Style, block: blocks.UserMessageBlock) -> list[str]:
    attached = [style.dim(describe_attachment(each)) for each in block.attachments]
    if block.command is None:
        return [*_prose(block.text), *attached]
    output, ended = blocks.split_shell_output(block)
    said = style.yellow("".join(f" {style.symbol('·')} {one_line(how)}" for how in ended))
    return [f"! {one_line(block.command, _COMMAND_CHARS)}{said}", *_prose(output), *attached]


def _prose(text: str) -> list[str]:
    return [_cleaned(text)] if text.strip() else []


def _cleaned(text: str) -> str:
    return sanitise(text.rstrip()).rstrip("\n")


def _split(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _heading(setting: TranscriptFormat, message: sc.Message) -> str:
    style, said = setting.style, speaker_of(message, setting.protocol)
    is_user = message.role == "user" and message.source is None
    coloured = style.cyan(said) if is_user else style.green(said) if message.role == "assistant" else style.yellow(said)
    return f"{style.bold(coloured)} {style.dim(clock_time(message.created_at, setting.now))}"


def tail_lines(setting: TranscriptFormat, snapshot: sc.SessionSnapshot, *, abandoned: bool) -> list[str]:
    """Return the current end of a conversation: the work in progress, open questions, the outcome."""
    style, lines = setting.style, list[str]()
    view = View(style, style, shared=True, live=False)
    if snapshot.partial is not None:
        model, doing = one_line(snapshot.partial.model), ", cut short" if abandoned else " is writing"
        lines = ["", f"{style.bold(style.green(model))}{style.dim(doing)}"]
    view.join(snapshot)
    view.finish()
    lines += _split("".join(text for _, text in view.take_pieces()))
    if abandoned and not snapshot.activity.is_at_rest:
        mark = style.red(style.symbol("✗"))
        return [*lines, "", f"{mark} interrupted: the program that ran it has ended; this is what was saved"]
    for approval in snapshot.approvals:
        lines.append(work_lines.waiting_line(style, approval))
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
