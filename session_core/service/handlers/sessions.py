"""Sessions: create, list, load, rename, archive, restore, delete, fork."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

import attrs

from session_core import limits
from session_core.agent.folder_settings import SessionDefaults
from session_core.errors import NotFound, Unavailable
from session_core.ids import new_session_id
from session_core.protocols.options import Materialization, parse_plugin_options
from session_core.service.core import ServiceCore
from session_core.service.extension_api import explain_missing_model
from session_core.service.handler_api import Caller, Handlers, PendingReply
from session_core.service.handlers.history import is_only_in_store, load_old_path, restore_branch
from session_core.service.protocols import get_current_record
from session_core.service.validation import check_limit, checked_limits, checked_name, checked_path, checked_sandbox
from session_core.session.executor_points import find_executor_state
from session_core.session.session import Session
from session_core.session.session_list import count_summary_bytes
from session_core.session.turn_handle import find_missing_parent
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState
from session_core.vocabulary.sessions import ForkOrigin, Settings
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot, SessionSummary, path_to


# --- the code state at a point of a conversation, copied into a fork --------------------------------------------------
@attrs.frozen
class ForkedCodeState:
    """A state with all of its leaves; `lost` means that code had done more by then, which is not stored."""

    state: ExecutorState
    leaves: Mapping[str, bytes]
    lost: bool

    def record_into(self, session: Session, caller: Caller) -> None:
        """Record the state in a session whose conversation leads there."""
        session.keep_leaves(self.leaves)
        session.record(ev.ExecutorStateSaved(state=self.state, lost=self.lost), caller.client_id)


async def load_code_state(origin: Session, way: tuple[Message, ...]) -> ForkedCodeState | None:
    """Return the code state at the end of this path through a conversation; None if none is stored.

    A part that disappears meanwhile, as the session continues, counts as not stored.
    """
    state = origin.state
    there = find_executor_state(state, way, running=state.turn.turn_id if state.turn is not None else None, whole=True)
    if there.state is None:
        return None
    await origin.wait_until_durable()
    wanted = {leaf.digest for leaf in there.state.leaves}
    found = await origin.load_leaves(wanted)
    return ForkedCodeState(there.state, found, there.lost) if wanted <= found.keys() else None


# --- sessions ---------------------------------------------------------------------------------------------------------


def create(core: ServiceCore, command: c.CreateSession, caller: Caller) -> r.CreateSessionReply | PendingReply:
    parent_id = command.parent_id
    if parent_id is None or parent_id in core.sessions or parent_id not in core.recorder.session_list.sessions:
        return _create_now(core, command, caller)

    async def create_after_loading_parent() -> r.CreateSessionReply:
        """Create a child once its parent is in memory: it inherits from the parent's state."""
        await core.loaded_sessions.load_session(parent_id)
        core.refuse_if_unsaved()
        return _create_now(core, command, caller)

    return PendingReply(create_after_loading_parent)


def _create_now(core: ServiceCore, command: c.CreateSession, caller: Caller) -> r.CreateSessionReply:
    config = core.config
    cwd = config.cwd if command.cwd is None else checked_path(command.cwd)
    usual = _find_defaults(core, cwd)
    settings = Settings(
        model=check_model(core, config.model if command.model is None else command.model, cwd),
        cwd=cwd,
        permission_mode=command.permission_mode or usual.permission_mode,
        sandbox=checked_sandbox(command.sandbox or usual.sandbox),
        thinking=command.thinking or usual.thinking,
        limits=checked_limits(command.limits or usual.limits),
    )
    parent = core.sessions.get(command.parent_id) if command.parent_id is not None else None
    if command.parent_id is not None and (parent is None or parent.closing):
        raise NotFound(f"there is no session {command.parent_id!r} to be the parent", field="parent_id")
    name = "new session" if command.name is None else checked_name(command.name)
    opening = Materialization(
        opening="create" if command.parent_id is None else "child",
        session_id=new_session_id(),
        parent_id=command.parent_id,
    )
    like = get_current_record(parent) if parent is not None else None
    stated = parse_plugin_options(command.options)
    protocol = core.protocols.decide(opening, name=command.protocol, stated=stated, like=like)
    created = ev.SessionCreated(name=name, settings=settings, parent_id=command.parent_id)
    session = core.add_session(protocol, created, caller.client_id)
    return r.CreateSessionReply(session_id=session.state.session_id, cursor=session.cursor)


def _find_defaults(core: ServiceCore, cwd: str) -> SessionDefaults:
    folder = core.config.folders.get_known(cwd)
    if folder is None:  # `execute` loads it first; no other caller may skip that
        raise Unavailable(f"the settings of {cwd} are not loaded yet; try again", field="cwd")
    return folder.defaults_of_sessions(core.config.session_defaults)


def check_model(core: ServiceCore, model: str, cwd: str) -> str:
    if model not in core.agent.models.with_folder_models(cwd).providers:
        why = explain_missing_model(model, core.config.extensions)
        known = ", ".join(core.config.models)
        raise NotFound(
            f"there is no model called {model!r}{f' ({why})' if why else ''}; known models: {known}", field="model"
        )
    return model


def list_sessions(core: ServiceCore, command: c.ListSessions, _: Caller) -> r.ListSessionsReply:
    check_limit(command.limit)
    matching = list(_matching(core, command))
    rest = [each for each in matching if command.page is None or each.session_id < command.page]
    page = _take_page(rest[: command.limit])
    more = len(rest) > len(page)
    return r.ListSessionsReply(
        sessions=page,
        next_page=page[-1].session_id if more else None,
        total=len(matching),
        cursor=core.stream.cursor,
    )


def _take_page(summaries: list[SessionSummary]) -> tuple[SessionSummary, ...]:
    """Return as many of the first of these as fit into one frame; at least one."""
    sizes = accumulate(map(count_summary_bytes, summaries))
    fitting = sum(1 for size in sizes if size <= limits.MAX_MESSAGE_BYTES)
    return tuple(summaries[: max(1, fitting)])


def _matching(core: ServiceCore, command: c.ListSessions) -> Iterator[SessionSummary]:
    """Return matching summaries, newest first; ids sort by age, which keeps pages stable while sessions change."""
    wanted = (command.search or "").casefold()
    for summary in reversed(core.recorder.session_list.sessions.values()):
        if command.archived is not None and summary.archived != command.archived:
            continue
        if command.running is not None and summary.activity.is_at_rest == command.running:
            continue
        if wanted in summary.name.casefold() or wanted in summary.cwd.casefold():
            yield summary


def load(core: ServiceCore, command: c.LoadSession, _: Caller) -> SessionSnapshot:
    session = core.session(command.session_id)
    core.protocols.refuse_other_options(session, parse_plugin_options(command.options))
    return session.snapshot()


def load_service(core: ServiceCore, _command: c.LoadService, _: Caller) -> ServiceSnapshot:
    return core.recorder.session_list.snapshot(core.stream.cursor)


def rename(core: ServiceCore, command: c.RenameSession, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.record(ev.SessionRenamed(name=checked_name(command.name)), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def archive(core: ServiceCore, command: c.ArchiveSession, caller: Caller) -> r.Acknowledged:
    session = core.require_idle_session(command.session_id, "archive the session")
    session.record(ev.SessionArchived(), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def restore(core: ServiceCore, command: c.RestoreSession, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.record(ev.SessionRestored(), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def delete(core: ServiceCore, command: c.DeleteSession, caller: Caller) -> r.Acknowledged | PendingReply:
    session = core.session(command.session_id, even_damaged=True)
    session.closing = True  # from here on no other command finds it
    session.close_requests("stopped", caller.client_id)
    for child in core.tree.subtree(command.session_id):
        core.side_tasks.stop(child.state.session_id)
        child.request_stop("session", caller.client_id)  # nothing can stop it through this session afterwards
    work = session.work
    if work is None:
        core.remove_session(session, caller.client_id)
        return r.Acknowledged(cursor=core.stream.cursor)
    work.on_end.append(lambda: core.remove_session(session, caller.client_id))
    session.request_stop("session", caller.client_id)

    async def wait_until_deleted() -> r.Acknowledged:
        await work.ended.wait()
        return r.Acknowledged(cursor=core.stream.cursor)

    return PendingReply(wait_until_deleted)


def fork(core: ServiceCore, command: c.ForkSession, caller: Caller) -> r.CreateSessionReply | PendingReply:
    origin = core.session(command.session_id)
    fork_point = command.at_message_id or origin.state.head
    if fork_point is None:
        return _create_fork(core, command, caller, (), None)
    recent = path_to(origin.state.messages, fork_point)
    if not recent and not is_only_in_store(origin, fork_point):
        raise NotFound(f"there is no message {fork_point!r} in this session", field="at_message_id")
    missing = find_missing_parent(origin.state, recent) if recent else fork_point
    if missing is None and not origin.state.executor_points:
        return _create_fork(core, command, caller, recent, None)

    async def fork_with_full_history() -> r.CreateSessionReply:
        path = recent if missing is None else await load_old_path(origin, missing, "at_message_id") + recent
        code = await load_code_state(origin, path)
        await core.loaded_sessions.load_session(command.session_id)
        core.refuse_if_unsaved()
        return _create_fork(core, command, caller, path, code)

    return PendingReply(fork_with_full_history)


def _create_fork(
    core: ServiceCore,
    command: c.ForkSession,
    caller: Caller,
    history: tuple[Message, ...],
    code: ForkedCodeState | None,
) -> r.CreateSessionReply:
    origin = core.session(command.session_id)
    fork_point = history[-1].message_id if history else None
    name = (
        f"{origin.state.name} (fork)"[: limits.MAX_NAME_CHARS] if command.name is None else checked_name(command.name)
    )
    opening = Materialization(opening="fork", session_id=new_session_id())
    protocol = core.protocols.decide(
        opening, name=None, stated=parse_plugin_options(command.options), like=get_current_record(origin)
    )
    created = ev.SessionCreated(
        name=name,
        settings=origin.state.settings,
        forked_from=ForkOrigin(session_id=command.session_id, message_id=fork_point),
    )
    session = core.add_session(protocol, created, caller.client_id)
    restore_branch(session, history, caller)
    if code is not None:
        code.record_into(session, caller)
    session.close_work("completed")  # no turn runs here; this gives results to tool calls that had none yet
    return r.CreateSessionReply(session_id=session.state.session_id, cursor=session.cursor)


HANDLERS: Handlers = {
    c.CreateSession: create,
    c.ListSessions: list_sessions,
    c.LoadSession: load,
    c.LoadService: load_service,
    c.RenameSession: rename,
    c.ArchiveSession: archive,
    c.RestoreSession: restore,
    c.DeleteSession: delete,
    c.ForkSession: fork,
}
