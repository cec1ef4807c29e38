"""Every place on the screen that foreign text can reach, as scenes that are given texts and show them there."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle, islice
from typing import Any, Final

import attrs

import session_core as sc
from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.composer.drafts import PromptSubmission
from frontends.terminal.screens.picker import Confirmation, LineInputScreen, Picker, PickerChoice
from frontends.terminal.screens.search import SearchScreen
from frontends.terminal.screens.usage import UsageScreen
from session_core.vocabulary.frozen import Rope
from session_core.vocabulary.messages import ToolProgress
from tests.frontends.terminal._composing import set_text
from tests.frontends.terminal._staged import NOW_MS, Stage, conversation, session, summary

CALL = sc.CallId("call_1")
Texts = Sequence[str]


@attrs.frozen(kw_only=True)
class Scene:
    """A place for texts.

    Attributes:
        holds: How many texts fit on one screen.
        judged: People decide by them, so that nothing may be left out, and what is shown by number stands out.
        most: Longer texts are cut before they are cleaned, so that what is seen of them is not the same.
        obeys: Control characters that mean here what they mean on a terminal, within the place.
        exact: What is seen is compared; elsewhere the place itself looks different when a text is hostile.
        leave: Makes room for the next texts.
    """

    name: str
    play: Callable[[Stage, Texts], Awaitable[None]]
    holds: int
    judged: bool = False
    most: int = 1_000
    obeys: str = ""
    exact: bool = True
    leave: Callable[[Stage], Awaitable[None]] | None = None


def _many(texts: Texts, count: int) -> list[str]:
    """Return so many of the texts, again from the beginning when there are too few."""
    return list(islice(cycle(texts), count))


# --- the conversation -------------------------------------------------------------------------------------------------


async def _said(stage: Stage, texts: Texts) -> None:
    parts: list[Any] = [sc.TextPart(text="\n".join(texts)), *(sc.FilePart(name=each, text=each) for each in texts[:3])]
    posted = conversation(("user", parts), ("user", [sc.TextPart(text=texts[0])]), source=texts[-1])
    await stage.show(session([attrs.evolve(posted[0], source=None), *posted[1:]]))


async def _answer(stage: Stage, texts: Texts) -> None:
    await stage.show(session(conversation(("assistant", [sc.TextPart(text="\n\n".join(texts))]))))


async def _growing(stage: Stage, texts: Texts) -> None:
    """An answer that comes in pieces, wherever these may end."""
    state, turn, message = session(), sc.TurnId("t"), sc.MessageId("m")
    whole = "\n\n".join(texts)
    third = max(1, len(whole) // 3)
    begun: list[Any] = [
        sc.events.TurnStarted(turn_id=turn),
        sc.events.MessageStarted(message_id=message, parent_id=None, turn_id=turn, model="m"),
        sc.events.PartStarted(message_id=message, kind="text"),
    ]
    pieces = [sc.events.PartDelta(message_id=message, text=each) for each in whole]
    for number, event in enumerate([*begun, *pieces], 1):
        envelope = sc.SessionEvent(seq=number, session_id=state.session_id, sseq=number, at=NOW_MS, event=event)
        state.apply(envelope)
        if number % third == 0:
            await stage.show(state)
    await stage.show(state)


async def _thinking(stage: Stage, texts: Texts) -> None:
    part = sc.PartialPart(kind="thinking", text=Rope("\n".join(texts)))
    partial = sc.PartialMessage(
        message_id=sc.MessageId("m"),
        parent_id=None,
        turn_id=sc.TurnId("t"),
        model="m",
        started_at=NOW_MS,
        parts=(part,),
    )
    await stage.show(session(partial=partial))


async def _summary(stage: Stage, texts: Texts) -> None:
    messages = conversation(("summary", [sc.TextPart(text="\n\n".join(texts))]), ("user", [sc.TextPart(text="on")]))
    failed = sc.TurnOutcome(turn_id=sc.TurnId("t"), status="failed", error=texts[0])
    await stage.show(session(messages, last_outcome=failed))


def _arguments(text: str) -> sc.JsonObject:
    return sc.JsonObject({"path": text, "command": text, text: text, "prompt": text})


async def _tools(stage: Stage, texts: Texts) -> None:
    """Calls of tools with such names, arguments, results and differences."""
    parts: list[Any] = []
    results: list[Any] = []
    for number, text in enumerate(texts):
        name = (text, "bash", "edit", "read")[number % 4]
        call = sc.CallId(f"call_{number}")
        parts.append(sc.ToolCallPart(call_id=call, name=name, arguments=_arguments(text)))
        diff = f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{text}\n+{text}\n"
        details = sc.JsonObject({"diff": diff}) if name == "edit" else None
        results.append(sc.ToolResultPart(call_id=call, name=name, status="success", text=text, details=details))
    messages = conversation(("assistant", parts), ("tool", results))
    await stage.show(session(messages))


async def _live(stage: Stage, texts: Texts) -> None:
    output = "\n".join(texts)
    tools = tuple(
        sc.LiveTool(
            call_id=sc.CallId(f"c{number}"),
            name=name,
            arguments=_arguments(texts[0]),
            started_at=NOW_MS - 5_000,
            output=output,
            progress=ToolProgress(message=texts[-1], progress=0.5),
        )
        for number, name in enumerate(("bash", texts[0]))
    )
    await stage.show(session(tools=tools, activity=sc.Activity(name="running_tools")))


# --- around it --------------------------------------------------------------------------------------------------------


async def _sessions(stage: Stage, texts: Texts) -> None:
    """The list of all sessions: names, folders, helpers."""
    others = [summary(f"s{number}", text, cwd=f"/{number}/{text}") for number, text in enumerate(texts)]
    helpers = [summary(f"h{number}", text, parent_id=sc.SessionId("s0")) for number, text in enumerate(texts[:2])]
    await stage.show(session(name=texts[0]), *others, *helpers)


async def _panels(stage: Stage, texts: Texts) -> None:
    """The plan, the queue, what extensions show, the model in the status line."""
    one, two, three, four = _many(texts, 4)
    queue = tuple(
        sc.QueueItem(
            item_id=sc.QueueItemId(f"q{number}"),
            parts=(sc.TextPart(text=text),),
            deliver_as="follow_up",
            queued_at=NOW_MS,
            source=text if number else None,
        )
        for number, text in enumerate((one, two))
    )
    pair = sc.JsonObject({"key": three, "value": four})
    body = sc.JsonObject({"kind": "keyvalue", "title": one, "rows": (pair, pair)})
    keys = (sc.JsonObject({"key": "x", "description": two}),)
    widget = sc.JsonObject({"kind": "widget", "widget_id": "w", "body": body, "keybindings": keys})
    displays = (sc.extensions.ExtensionDisplay(extension=four, status=one, title=two, widget=widget),)
    plan = (sc.PlanItem(text=two, status="in_progress"), sc.PlanItem(text=three), sc.PlanItem(text=four, status="done"))
    settings = sc.Settings(model=two, cwd=one)
    await stage.show(session(name=three, plan=plan, queue=queue, displays=displays, settings=settings))


async def _approval(stage: Stage, texts: Texts) -> None:
    one, two, three, four = _many(texts, 4)
    approval = sc.Approval(
        request_id=sc.RequestId(f"r{stage.number()}"),
        call_id=CALL,
        tool_name=one,
        summary=two,
        arguments=sc.JsonObject({"path": three}),
        shown="\n".join(texts),
        reason=four,
        grant=three,
        requested_at=NOW_MS,
        expires_at=NOW_MS + 60_000,
        session_id=sc.SessionId("h0"),
    )
    helper = summary("h0", two, parent_id=sc.SessionId("ses_viewed"), cwd="/projects/shop")
    await stage.show(session(approvals=(approval,)), attrs.evolve(helper, name="helper"))


async def _command(stage: Stage, texts: Texts) -> None:
    """A command that asks for a yes, and a call that shows nothing but its arguments."""
    command = "\n".join(texts)
    approval = sc.Approval(
        request_id=sc.RequestId(f"r{stage.number()}"),
        call_id=CALL,
        tool_name="bash",
        summary=texts[0],
        arguments=sc.JsonObject({"command": command}),
        shown=f"{command}\n\nin {texts[-1]}",
        requested_at=NOW_MS,
        expires_at=NOW_MS + 60_000,
    )
    await stage.show(session(approvals=(approval,)))


async def _dialog(stage: Stage, texts: Texts) -> None:
    one, two, *_ = texts
    dialog = sc.Dialog(
        request_id=sc.RequestId(f"r{stage.number()}"),
        kind="select",
        title=one,
        message=f"{two}\n{one}",
        choices=tuple(texts),
        opened_at=NOW_MS,
        expires_at=NOW_MS + 60_000,
        extension="ext",
    )
    await stage.show(session(dialogs=(dialog,)))


async def _suggested(stage: Stage, texts: Texts) -> None:
    dialog = sc.Dialog(
        request_id=sc.RequestId(f"r{stage.number()}"),
        kind="input",
        title=texts[0],
        default=texts[-1],
        opened_at=NOW_MS,
        expires_at=NOW_MS + 60_000,
        extension=texts[0],
    )
    await stage.show(session(dialogs=(dialog,)))


async def _nothing_asked(stage: Stage) -> None:
    await stage.show(session())


async def _failure(stage: Stage, texts: Texts) -> None:
    stage.app.feeds.failure = "\n".join(texts)
    await stage.show(None)


async def _no_failure(stage: Stage) -> None:
    stage.app.feeds.failure = None


# --- what is on top of it ---------------------------------------------------------------------------------------------


async def _toasts(stage: Stage, texts: Texts) -> None:
    for text in texts:
        stage.app.context.tell(text, "error", title=text, seconds=60)
    await stage.settle()


async def _no_toasts(stage: Stage) -> None:
    stage.app.clear_notifications()
    await stage.settle()


async def _picker(stage: Stage, texts: Texts) -> None:
    choices = [PickerChoice(value=text, label=text, detail=text, current=at == 1) for at, text in enumerate(texts)]
    _ = stage.app.push_screen(Picker(texts[0], choices))
    await stage.settle()


async def _search(stage: Stage, texts: Texts) -> None:
    async def search(_: str) -> list[sc.SearchHit]:
        return [
            sc.SearchHit(
                session_id=sc.SessionId("s"),
                session_name=text,
                message_id=sc.MessageId("m"),
                role="user",
                created_at=NOW_MS,
                excerpt=text,
            )
            for text in texts
        ]

    _ = stage.app.push_screen(SearchScreen(search, "words"))
    await stage.settle()


async def _usage(stage: Stage, texts: Texts) -> None:
    lines = tuple(sc.UsageLine(model=text, source=text, calls=1, usage=sc.Usage()) for text in texts)
    _ = stage.app.push_screen(UsageScreen(session(usage_by=lines)))
    await stage.settle()


async def _question(stage: Stage, texts: Texts) -> None:
    _ = stage.app.push_screen(Confirmation("\n".join(texts)))
    await stage.settle()


async def _line_to_edit(stage: Stage, texts: Texts) -> None:
    _ = stage.app.push_screen(LineInputScreen(texts[0], texts[-1]))
    await stage.settle()


async def _no_screen(stage: Stage) -> None:
    _ = stage.app.pop_screen()
    await stage.settle()


async def _completion(stage: Stage, texts: Texts) -> None:
    async def complete(_: str) -> list[Suggestion]:
        return [Suggestion(value=text, label=text, detail=text) for text in texts]

    await stage.show(session())
    stage.app.composer.set_completers({"@": complete})
    set_text(stage.app.composer, "")
    stage.app.composer.focus()
    await stage.pilot.press("at")
    await stage.settle()


async def _composer(stage: Stage, texts: Texts) -> None:
    """What was said before, put back to be said differently."""
    stage.app.composer.restore(PromptSubmission(text="\n".join(texts), target=stage.app.current.target))
    await stage.settle()


async def _no_text(stage: Stage) -> None:
    stage.app.composer.clear()
    await stage.settle()


SCENES: Final = (
    Scene(name="said", play=_said, holds=16),
    Scene(name="answer", play=_answer, holds=16),
    Scene(name="growing", play=_growing, holds=16),
    Scene(name="thinking", play=_thinking, holds=24),
    Scene(name="summary", play=_summary, holds=14),
    Scene(name="tools", play=_tools, holds=8),
    Scene(name="live", play=_live, holds=8, obeys="\r\x08\x0b\x0c\t"),
    Scene(name="sessions", play=_sessions, holds=10),
    Scene(name="panels", play=_panels, holds=4, most=40),
    Scene(name="approval", play=_approval, holds=4, judged=True, leave=_nothing_asked),
    Scene(name="command", play=_command, holds=6, judged=True, leave=_nothing_asked),
    Scene(name="dialog", play=_dialog, holds=6, judged=True, leave=_nothing_asked),
    Scene(name="suggested", play=_suggested, holds=2, judged=True, exact=False, leave=_nothing_asked),
    Scene(name="failure", play=_failure, holds=20, leave=_no_failure),
    Scene(name="toasts", play=_toasts, holds=4, leave=_no_toasts),
    Scene(name="picker", play=_picker, holds=16, leave=_no_screen),
    Scene(name="search", play=_search, holds=8, leave=_no_screen),
    Scene(name="usage", play=_usage, holds=12, leave=_no_screen),
    Scene(name="question", play=_question, holds=16, leave=_no_screen),
    Scene(name="line", play=_line_to_edit, holds=2, leave=_no_screen),
    Scene(name="completion", play=_completion, holds=8, leave=_no_text),
    Scene(name="composer", play=_composer, holds=6, exact=False, leave=_no_text),
)
