"""The output of a session, as pieces of text for two streams.

Rules:
1. The answer goes to `out`, everything about the work to `err`. Where both share a terminal they share its lines, and
   a change of stream begins a new line.
2. Each character of an answer is shown once. After a lag the new snapshot is compared with what was shown, and only
   the rest is added; a withdrawn answer is reported as withdrawn.
3. All text from outside is sanitised; escape codes come from the style.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import session_core as sc
from frontends.shared.activity_words import WORDS
from frontends.shared.conversation import work_lines
from frontends.shared.conversation.messages import describe_interruption
from frontends.shared.figures import format_count
from frontends.shared.sanitise import Sanitiser, sanitise
from frontends.shared.style import Style

Target = Literal["out", "err"]
Piece = tuple[Target, str]
ERASE_LINE = "\r\x1b[K"
_PLAN_TOOL = "plan"

_SHOWN_AS_STATUS = frozenset({"starting", "waiting_for_model", "running_tools", "compacting", "stopping"})
"""All other activities are visible from what is printed."""


class View:
    """Collects pieces from the snapshots and events of one session; `take_pieces` returns them."""

    def __init__(self, out: Style, err: Style, *, shared: bool, live: bool, answer: Target = "out") -> None:
        self._styles: dict[Target, Style] = {"out": out, "err": err}
        self._lines: dict[Target, Target] = {"out": "err" if shared else "out", "err": "err"}
        self._open_lines: set[Target] = set()
        self._live = live
        self._answer: Target = answer
        self._pieces: list[Piece] = []
        self._status = False
        self._seen: dict[sc.MessageId, int] = {}  # characters of text and thinking shown of each answer
        self._finished: set[sc.MessageId] = set()  # final; they can only leave the snapshot's window
        self._kind: str | None = None
        self._sanitiser = Sanitiser()
        self._results: set[sc.CallId] = set()
        self._arguments: dict[sc.CallId, sc.JsonObject] = {}
        self._children: dict[sc.CallId, sc.SessionId] = {}
        self._plan: tuple[sc.PlanItem, ...] = ()
        self._protocol: str | None = None

    def take_pieces(self) -> list[Piece]:
        """Return the collected pieces in order, and forget them."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def answer_to(self, target: Target) -> None:
        """Send answers there from now on, including the rest of the current one."""
        self._answer = target

    # --- input --------------------------------------------------------------------------------------------------------

    def begin_after(self, snapshot: sc.SessionSnapshot) -> None:
        """Treat everything before this turn as shown: after a lag, only the turn itself is caught up on."""
        for message in snapshot.messages:
            self._finished.add(message.message_id)
            self._seen[message.message_id] = sum(len(text) for _, text in _spoken_parts(message.parts))
            self._arguments.update((call.call_id, call.arguments) for call in message.tool_calls)
            self._results.update(part.call_id for part in message.parts if isinstance(part, sc.ToolResultPart))
        self._plan = snapshot.plan
        self._protocol = snapshot.protocol.name

    def join(self, snapshot: sc.SessionSnapshot) -> None:
        """Treat finished messages as shown, and show the work in progress to a viewer who joins in the middle."""
        self.begin_after(snapshot)
        if snapshot.partial is not None:
            self._rest(snapshot.partial.message_id, snapshot.partial.parts)
        self._show_tools(snapshot.tools)
        for tool in snapshot.tools:
            if tool.result is None and tool.child_id is None:
                self.line(work_lines.running_line(self._styles["err"], tool))

    def event(self, envelope: sc.SessionEvent) -> None:
        """Show one event."""
        event = envelope.event
        match event:
            case sc.events.PartStarted(kind=kind):
                self._begin(kind)
            case sc.events.PartDelta(message_id=message_id, text=text):
                if self._kind != "tool_call":
                    self._seen[message_id] = self._seen.get(message_id, 0) + len(text)
                    self._say(text)
            case sc.events.MessageCompleted(message=message):
                self._message(message)
            case sc.events.MessageDiscarded(message_id=message_id):
                self._withdraw(message_id)
            case sc.events.ToolCallFinished(result=result):
                self._result(result)
            case sc.events.ToolCallStarted(call_id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case sc.events.TaskStarted(call_id=call_id, child_id=child_id):
                self._task(call_id, child_id)
            case sc.events.PlanChanged(plan=plan):
                self._show_plan(plan)
            case sc.events.CompactionFinished():
                self.line(work_lines.compacted_line(self._styles["err"], event))
            case sc.events.FilesRestored():
                self.line(work_lines.restored_line(self._styles["err"], event))
            case sc.events.ModelCallFailed(retry_at=int()):
                self.line(work_lines.retry_line(self._styles["err"], event, envelope.at))
            case sc.events.ActivityChanged(activity=activity):
                self._show_status(f"{WORDS[activity.name]}…" if activity.name in _SHOWN_AS_STATUS else None)
            case _:
                self._show_extension_event(event)

    def _show_extension_event(self, event: sc.Event) -> None:
        match event:
            case sc.events.MessageAdded(message=message, ended_call_id=None) if message.source is not None:
                self.line(work_lines.posted_line(self._styles["err"], message, self._protocol))
                if message.role == "assistant":  # inserted in the role of the model, it counts as an answer
                    self._message(message)
            case sc.events.NoticeShown():
                self.line(work_lines.notice_line(self._styles["err"], event))
            case sc.events.ExtensionDisplayed(extension=extension, status=str() as status) if status.strip():
                self.line(work_lines.status_line(self._styles["err"], extension, status))
            case _:
                pass

    def warning(self, envelope: sc.SessionEvent) -> None:
        """Show an event to users who want to see only what they must."""
        event = envelope.event
        if isinstance(event, sc.events.NoticeShown) and event.level != "info":
            self.line(work_lines.notice_line(self._styles["err"], event))

    def catch_up(
        self,
        snapshot: sc.SessionSnapshot,
        missed: int | None,
        *,
        gone: Sequence[sc.Message] = (),
        target: Callable[[sc.MessageId], Target] | None = None,
    ) -> None:
        """Show what a snapshot taken after a lag adds to what was shown.

        `gone` are messages to show that are no longer in it; `target` decides where each answer goes.
        """
        many = "some events" if missed is None else format_count(missed, "event")
        self.line(self._styles["err"].dim(f"(the display fell behind by {many}; continuing from a new snapshot)"))
        present = {message.message_id for message in snapshot.transcript}
        partial = snapshot.partial
        # An unfinished answer that is neither in the transcript nor still being written was withdrawn meanwhile.
        for message_id in [each for each in self._seen if each not in present and each not in self._finished]:
            if partial is None or partial.message_id != message_id:
                self._withdraw(message_id)
        for message in (*gone, *snapshot.transcript):
            self._answer = self._answer if target is None else target(message.message_id)
            self._message(message)
        self._show_tools(snapshot.tools)
        self._show_plan(snapshot.plan)
        if partial is not None:
            self._answer = self._answer if target is None else target(partial.message_id)
            self._rest(partial.message_id, partial.parts)

    def line(self, text: str) -> None:
        """Show a line about the work; `text` is safe to print."""
        self._start_fresh_line("err")
        self._write("err", f"{text}\n")

    def passage(self, text: str, target: Target) -> None:
        """Show a standalone text from outside."""
        self._start_fresh_line(target)
        self._write(target, sanitise(text).rstrip("\n") + "\n")

    def question(self, text: str) -> None:
        """Show a question and leave the cursor after it."""
        self._start_fresh_line("err")
        self._write("err", text)

    def end_question_line(self) -> None:
        """Record that the user's Enter has ended the line of the question."""
        self._open_lines.discard("err")

    def finish(self) -> None:
        """End the last line of the answer."""
        self._erase_status()
        self._start_fresh_line("out")
        self._start_fresh_line("err")

    # --- parts of answers ---------------------------------------------------------------------------------------------

    def _begin(self, kind: str) -> None:
        self._kind = kind
        self._sanitiser = Sanitiser()
        if kind == "thinking":
            self._start_fresh_line("err")
            style = self._styles["err"]
            self._write("err", style.dim(f"{style.symbol('✻')} "))
        elif kind == "text":
            self._start_fresh_line(self._answer)

    def _say(self, text: str) -> None:
        clean = self._sanitiser.feed(text)
        if self._kind == "thinking":
            self._write("err", self._styles["err"].dim(clean))
        elif self._kind == "text":
            self._write(self._answer, clean)

    def _message(self, message: sc.Message) -> None:
        """Show the missing rest of a finished message."""
        new = message.message_id not in self._finished
        self._finished.add(message.message_id)
        self._arguments.update((call.call_id, call.arguments) for call in message.tool_calls)
        if message.role == "assistant":
            self._rest(message.message_id, message.parts)
            if new and sc.InterruptedPart(reason="max_tokens") in message.parts:
                self.line(work_lines.cut_short_line(self._styles["err"], describe_interruption("max_tokens")))
        for part in message.parts:
            if isinstance(part, sc.ToolResultPart):
                self._result(part)

    def _rest(self, message_id: sc.MessageId, parts: Iterable[sc.Part | sc.PartialPart]) -> None:
        """Show the rest of an answer."""
        skip, spoken = self._seen.get(message_id, 0), _spoken_parts(parts)
        for kind, text in spoken:
            already = 0 if kind == "tool_call" else min(skip, len(text))
            skip -= already
            rest = text[already:]
            if already == 0 and (rest or kind != self._kind):
                self._begin(kind)
            self._kind = kind
            self._say(rest)
        self._seen[message_id] = sum(len(text) for kind, text in spoken if kind != "tool_call")

    def _withdraw(self, message_id: sc.MessageId) -> None:
        if self._seen.pop(message_id, 0):
            self.line(self._styles["err"].yellow("(this answer was withdrawn: the model call failed)"))

    def _show_tools(self, tools: Iterable[sc.LiveTool]) -> None:
        for tool in tools:
            self._arguments[tool.call_id] = tool.arguments
            if tool.child_id is not None:
                self._task(tool.call_id, tool.child_id)
            if tool.result is not None:
                self._result(tool.result)

    def _result(self, result: sc.ToolResultPart) -> None:
        if result.call_id in self._results:
            return
        self._results.add(result.call_id)
        arguments = self._arguments.get(result.call_id)
        if result.call_id in self._children:
            self.line(work_lines.subagent_line(self._styles["err"], self._subagent(result.call_id), result))
        elif result.name != _PLAN_TOOL or result.status != "success":  # the plan itself is already shown
            self.line(work_lines.tool_line(self._styles["err"], result, arguments))

    def _task(self, call_id: sc.CallId, child_id: sc.SessionId) -> None:
        if call_id not in self._children:
            self._children[call_id] = child_id
            style = self._styles["err"]
            begun = f"{style.cyan(self._subagent(call_id))} {style.dim('has begun')}"
            self.line(f"{style.yellow(style.symbol('●'))} {begun}")

    def _subagent(self, call_id: sc.CallId) -> str:
        arguments = self._arguments.get(call_id)
        return work_lines.subagent_name(self._children[call_id], None if arguments is None else arguments.get("title"))

    def _show_plan(self, plan: tuple[sc.PlanItem, ...]) -> None:
        if plan != self._plan:
            self._plan = plan
            for line in work_lines.plan_lines(self._styles["err"], plan):
                self.line(line)

    # --- lines --------------------------------------------------------------------------------------------------------

    def _write(self, target: Target, text: str) -> None:
        if text:
            self._erase_status()
            self._pieces.append((target, text))
            (self._open_lines.discard if ends_line(text) else self._open_lines.add)(self._lines[target])

    def _start_fresh_line(self, target: Target) -> None:
        if self._lines[target] in self._open_lines:
            self._write(target, "\n")

    def _show_status(self, status: str | None) -> None:
        self._erase_status()
        if self._live and status is not None and "err" not in self._open_lines:
            self._pieces.append(("err", self._styles["err"].dim(status)))
            self._status = True

    def _erase_status(self) -> None:
        if self._status:
            self._pieces.append(("err", ERASE_LINE))
            self._status = False


def _spoken_parts(parts: Iterable[sc.Part | sc.PartialPart]) -> list[tuple[str, str]]:
    """Return the texts of an answer with their kinds, as far as it is written."""
    spoken: list[tuple[str, str]] = []
    for part in parts:
        match part:
            case sc.TextPart(text=text):
                spoken.append(("text", text))
            case sc.ThinkingPart(text=text) if text:
                spoken.append(("thinking", text))
            case sc.PartialPart(kind=kind, text=rope):
                spoken.append((kind, str(rope)))
            case _:
                pass
    return spoken


def ends_line(text: str) -> bool:
    """Return whether the cursor is at the start of a line after this text, ignoring codes that reset colours."""
    return text.removesuffix("\x1b[22m").endswith("\n")
