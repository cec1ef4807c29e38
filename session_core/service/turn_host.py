"""Services of a running turn for its tools: save files for an undo, hold the plan, run child sessions."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import attrs
import trio

from session_core import limits
from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointFailed
from session_core.errors import InvalidInput, SessionCoreError
from session_core.ids import CallId, SessionId, TurnId, new_id
from session_core.sandbox.workspace import Workspace, WorkspaceRefused
from session_core.service.validation import checked_name, checked_text, text_parts
from session_core.session.session import Session, Work
from session_core.tools.base import TaskRequest, ToolFailed, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PlanItem, Settings, TurnOutcome
from session_core.wire.codec import encode

if TYPE_CHECKING:
    from session_core.service.core import ServiceCore


_NOT_SAVED = (CheckpointFailed, WorkspaceRefused, OSError)


def workspace_of(settings: Settings, hidden: Sequence[str]) -> Workspace:
    """Return the workspace for restoring a session's files: it covers everything that a tool could change."""
    everywhere = ("/",) if settings.sandbox.mode == "full_access" else ()
    return Workspace(
        settings.cwd,
        extra_roots=(*settings.sandbox.writable_roots, *everywhere),
        may_write_protected=True,
        hidden=hidden,
        readable_at_home=settings.sandbox.readable,
    )


def checkpoint_turn_id(turn_id: TurnId, cwd: str) -> TurnId:
    """Return a turn's id in the checkpoints; it depends on the folder, as file names there are relative to it."""
    return TurnId(f"{turn_id}-{sha256(cwd.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}")


@attrs.frozen(kw_only=True)
class TurnHost:
    """Serves one tool call of one session."""

    core: "ServiceCore"
    session: Session
    work: Work
    call_id: CallId
    undo_turn: tuple[SessionId, TurnId]
    """The turn whose undo reverts this call's changes: a subagent's work is part of the turn that waits for it."""
    touched: list[str] = attrs.field(factory=list)
    """The files that this call has changed, or was about to change."""
    command: str = attrs.field(factory=lambda: new_id("command"))
    """A unique name among concurrent commands; call ids may repeat."""
    outliving: list[str] = attrs.field(factory=list)
    """The command, if it continues in the background."""
    _workspace: Workspace = attrs.field(
        init=False,
        # Fixed now: the session may work in another folder by the time a background command ends.
        default=attrs.Factory(
            lambda host: workspace_of(host.session.state.settings, host.core.config.hidden), takes_self=True
        ),
    )

    @property
    def _store(self) -> CheckpointStore | None:
        return self.core.config.checkpoints

    async def before_write(self, path: str) -> None:
        """Save a file as it is now, once per turn; a file that cannot be saved must not be changed."""
        if (store := self._store) is None:
            return
        self.touched.append(path)
        try:
            await trio.to_thread.run_sync(store.save_before, *self.undo_turn, self._workspace, path)
        except _NOT_SAVED as failure:
            raise ToolFailed(str(failure)) from failure

    async def before_command(self) -> None:
        """Save the folder before running a command that may change any of its files."""
        if (store := self._store) is None:
            return
        keep = partial(store.snapshot_tree, *self.undo_turn, self._workspace, command=self.command)
        try:
            await trio.to_thread.run_sync(keep)
        except _NOT_SAVED as failure:
            raise ToolFailed(f"The folder could not be saved before the command: {failure}") from failure

    async def after_call(self) -> None:
        """Record the files as the call left them, to tell later changes by others apart."""
        await self._note(runs_on=bool(self.outliving))

    def watch_background_command(self) -> Callable[[], Awaitable[None]]:
        """Keep watching the folder after this call; await the returned function when the command has ended."""
        self.outliving.append(self.command)
        return self._after_command

    async def _after_command(self) -> None:
        self.outliving.clear()
        owner = self.core.sessions.get(self.undo_turn[0])
        turn = owner.work.turn_id if owner is not None and owner.work is not None else None
        in_time = turn is not None and checkpoint_turn_id(turn, self._workspace.root) == self.undo_turn[1]
        await self._note(certain=in_time)

    async def _note(self, *, runs_on: bool = False, certain: bool = True) -> None:
        if (store := self._store) is None:
            return
        note = partial(store.note_after, *self.undo_turn, self._workspace, paths=self.touched, command=self.command)
        with suppress(*_NOT_SAVED):  # an undo then assumes that others changed the files, and asks
            await trio.to_thread.run_sync(partial(note, runs_on=runs_on, certain=certain))

    def set_plan(self, plan: tuple[PlanItem, ...]) -> None:
        """Replace the session's plan; `ToolFailed` for one that people cannot read at a glance."""
        if len(encode(plan)) > limits.MAX_PLAN_BYTES:
            raise ToolFailed(f"the plan is too long: it may take {limits.MAX_PLAN_BYTES:,} bytes")
        self.session.record(ev.PlanChanged(plan=plan))

    async def run_task(self, task: TaskRequest, report: Callable[[str], None]) -> ToolOutput:
        """Run a child session to its end and return its last answer.

        Cancellation: stops the child and its own subagents. They have ended when `Cancelled` propagates, unless one of
        them does not end in time.
        """
        await trio.lowlevel.checkpoint_if_cancelled()  # then no child is started
        child, work = self._start_child(task)
        child_id = child.state.session_id
        report(f"session {child_id}\n")
        try:
            await work.ended.wait()
        finally:
            if not work.ended.is_set():
                self._stop_child(child)
            with trio.move_on_after(self.core.config.stop_patience_ms / 1000, shield=True):
                await work.ended.wait()
            self._count(child)
        return _build_task_output(child_id, child.outcomes[work.turn_id])

    def _start_child(self, task: TaskRequest) -> tuple[Session, Work]:
        core, parent = self.core, self.session
        if core.tree.depth(parent.state.session_id) >= limits.MAX_TASK_DEPTH:
            raise ToolFailed("This session is itself a subagent of a subagent, and may not start further ones.")
        models = core.agent.models.with_folder_models(parent.state.settings.cwd)
        if task.model is not None and task.model not in models.providers:
            raise ToolFailed(f"There is no model called {task.model!r}; leave the argument out to use your own.")
        try:
            name, prompt = checked_name(task.title, "title"), text_parts(checked_text(task.prompt, "prompt"))
        except InvalidInput as problem:
            raise ToolFailed(problem.message) from problem
        settings = parent.state.settings
        settings = attrs.evolve(
            settings,
            model=task.model or settings.model,
            permission_mode="read_only" if task.read_only else settings.permission_mode,
        )
        created = ev.SessionCreated(name=name, settings=settings, parent_id=parent.state.session_id)
        try:
            child = core.add_session(core.protocols.decide_for_child(parent), created, None)
        except SessionCoreError as problem:
            raise ToolFailed(problem.message) from problem
        parent.record(ev.TaskStarted(call_id=self.call_id, child_id=child.state.session_id))
        self.work.subagents.append(child)
        core.start_turn(child, None, prompt)
        assert child.work is not None
        return child, child.work

    def _stop_child(self, child: Session) -> None:
        for each in (child, *self.core.tree.subagents(child)):
            if self.core.ending:
                each.interrupt("the turn it works for was interrupted")  # not a stop that a person requested
            else:
                each.request_stop("subtree", None)

    def _count(self, child: Session) -> None:
        """Add the child's usage to the parent's own; until now it counted as a subagent's."""
        self.work.subagents.remove(child)
        usage = child.state.usage
        if usage.tokens or usage.cost_micros:
            model = child.state.settings.model
            self.session.record(ev.UsageRecorded(model=model, source="task", usage=usage))


def _build_task_output(child_id: SessionId, outcome: TurnOutcome) -> ToolOutput:
    details = JsonObject({"session_id": child_id, "status": outcome.status, "steps": outcome.steps})
    if outcome.status == "completed":
        # A subagent that ends with a value instead of text returns that value.
        value = outcome.final_text if outcome.output is None else outcome.output
        text = value if isinstance(value, str) else encode(value).decode()
        return ToolOutput(text=text, details=details)
    said = f" Before that it said:\n{outcome.final_text}" if outcome.final_text else ""
    why = f" ({outcome.error})" if outcome.error else ""
    raise ToolFailed(f"The subagent did not finish: {outcome.status}{why}.{said}")
