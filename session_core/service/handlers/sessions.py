"""Sessions: create, list, load, rename, archive, restore, delete, fork."""

from collections.abc import Iterator

import attrs

from session_core import limits
from session_core.config.values import Config
from session_core.errors import NotFound, Unavailable
from session_core.ids import new_session_id
from session_core.protocols.options import Materialization, plugin_options
from session_core.service.core import Caller, Handlers, Later, ServiceCore
from session_core.service.extension_api import why_not_there
from session_core.service.handlers.history import bring_back, left_memory, old_path
from session_core.service.handlers.protocol_check import CodeThere, code_at
from session_core.service.validation import check_limit, checked_limits, checked_name, checked_path, checked_sandbox
from session_core.session.turn_handle import missing_before
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message
from session_core.vocabulary.sessions import ForkOrigin, PermissionTier, SandboxPolicy, Settings, Thinking, TurnLimits
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot, SessionSummary, path_to


def create(core: ServiceCore, command: c.CreateSession, caller: Caller) -> r.CreateSessionReply | Later:
    parent_id = command.parent_id
    if parent_id is None or parent_id in core.sessions or parent_id not in core.ledger.fleet.sessions:
        return _created(core, command, caller)

    async def beside_its_parent() -> r.CreateSessionReply:
        """What a child takes over is known when its parent is in memory."""
        await core.residents.bring(parent_id)
        core.refuse_if_unsaved()
        return _created(core, command, caller)

    return Later(beside_its_parent)


def _created(core: ServiceCore, command: c.CreateSession, caller: Caller) -> r.CreateSessionReply:
    config = core.config
    cwd = config.cwd if command.cwd is None else checked_path(command.cwd)
    usual = _usual(core, cwd)
    settings = Settings(
        model=known_model(core, config.model if command.model is None else command.model, cwd),
        cwd=cwd,
        permission_tier=command.permission_tier or usual.permission_tier,
        sandbox=checked_sandbox(command.sandbox or usual.sandbox),
        thinking=command.thinking or usual.thinking,
        limits=checked_limits(command.limits or usual.limits),
    )
    parent = core.sessions.get(command.parent_id) if command.parent_id is not None else None
    if command.parent_id is not None and (parent is None or parent.closing):
        msg = f"there is no session {command.parent_id!r} to be the parent"
        raise NotFound(msg, field="parent_id")
    name = "new session" if command.name is None else checked_name(command.name)
    opening = Materialization(
        opening="create" if command.parent_id is None else "child",
        session_id=new_session_id(),
        parent_id=command.parent_id,
    )
    like = parent.state.protocol if parent is not None else None
    stated = plugin_options(command.options)
    protocol = core.protocols.decide(opening, name=command.protocol, stated=stated, like=like)
    created = ev.SessionCreated(name=name, settings=settings, parent_id=command.parent_id)
    session = core.add_session(protocol, created, caller.client_id)
    return r.CreateSessionReply(session_id=session.state.session_id, cursor=session.cursor)


@attrs.frozen(kw_only=True)
class _Usual:
    """What a new session starts with where its command says nothing."""

    permission_tier: PermissionTier
    sandbox: SandboxPolicy
    thinking: Thinking
    limits: TurnLimits


def _usual(core: ServiceCore, cwd: str) -> "_Usual | Config":
    config = core.config
    if config.folders is None:
        return _Usual(
            permission_tier=config.permission_tier,
            sandbox=config.sandbox,
            thinking=config.thinking,
            limits=config.turn_limits,
        )
    folder = config.folders.at(cwd)
    if folder is None:  # `execute` has it read before; nobody else may do without
        raise Unavailable(f"what the files of {cwd} say is not known yet; try again", field="cwd")
    return folder.config


def known_model(core: ServiceCore, model: str, cwd: str) -> str:
    if model not in core.agent.models.at(cwd).providers:
        why = why_not_there(model, core.config.extensions)
        known = ", ".join(core.config.models)
        msg = f"there is no model called {model!r}{f' ({why})' if why else ''}; known models: {known}"
        raise NotFound(msg, field="model")
    return model


def list_sessions(core: ServiceCore, command: c.ListSessions, _: Caller) -> r.ListSessionsReply:
    check_limit(command.limit)
    matching = list(_matching(core, command))
    rest = [each for each in matching if command.page is None or each.session_id < command.page]
    page = tuple(rest[: command.limit])
    more = len(rest) > len(page)
    return r.ListSessionsReply(
        sessions=page,
        next_page=page[-1].session_id if more else None,
        total=len(matching),
        cursor=core.stream.cursor,
    )


def _matching(core: ServiceCore, command: c.ListSessions) -> Iterator[SessionSummary]:
    """Summaries that fit the filter, newest first; ids sort by age, which keeps pages stable while sessions change."""
    wanted = (command.search or "").casefold()
    for summary in reversed(core.ledger.fleet.sessions.values()):
        if command.archived is not None and summary.archived != command.archived:
            continue
        if command.running is not None and summary.activity.at_rest == command.running:
            continue
        if wanted in summary.name.casefold() or wanted in summary.cwd.casefold():
            yield summary


def load(core: ServiceCore, command: c.LoadSession, _: Caller) -> SessionSnapshot:
    return core.session(command.session_id).snapshot()


def load_service(core: ServiceCore, _command: c.LoadService, _: Caller) -> ServiceSnapshot:
    return core.ledger.fleet.snapshot(core.stream.cursor)


def rename(core: ServiceCore, command: c.RenameSession, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.record(ev.SessionRenamed(name=checked_name(command.name)), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def archive(core: ServiceCore, command: c.ArchiveSession, caller: Caller) -> r.Acknowledged:
    session = core.session_at_rest(command.session_id, "archive the session")
    session.record(ev.SessionArchived(), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def restore(core: ServiceCore, command: c.RestoreSession, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.record(ev.SessionRestored(), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def delete(core: ServiceCore, command: c.DeleteSession, caller: Caller) -> r.Acknowledged | Later:
    session = core.session(command.session_id, even_damaged=True)
    session.closing = True  # from here on no other command finds it
    session.close_requests("stopped", caller.client_id)
    for child in core.family.subtree(command.session_id):
        core.side.stop(child.state.session_id)
        child.request_stop("session", caller.client_id)  # nothing could stop it through this session any more
    work = session.work
    if work is None:
        core.remove_session(session, caller.client_id)
        return r.Acknowledged(cursor=core.stream.cursor)
    work.on_end.append(lambda: core.remove_session(session, caller.client_id))
    session.request_stop("session", caller.client_id)

    async def gone() -> r.Acknowledged:
        await work.ended.wait()
        return r.Acknowledged(cursor=core.stream.cursor)

    return Later(gone)


def fork(core: ServiceCore, command: c.ForkSession, caller: Caller) -> r.CreateSessionReply | Later:
    origin = core.session(command.session_id)
    at = command.at_message_id or origin.state.head
    if at is None:
        return _forked(core, command, caller, (), None)
    recent = path_to(origin.state.messages, at)
    if not recent and not left_memory(origin, at):
        msg = f"there is no message {at!r} in this session"
        raise NotFound(msg, field="at_message_id")
    missing = missing_before(origin.state, recent) if recent else at
    if missing is None and not origin.state.executor_points:
        return _forked(core, command, caller, recent, None)

    async def whole() -> r.CreateSessionReply:
        path = recent if missing is None else await old_path(origin, missing, "at_message_id") + recent
        code = await code_at(origin, path)
        await core.residents.bring(command.session_id)
        core.refuse_if_unsaved()
        return _forked(core, command, caller, path, code)

    return Later(whole)


def _forked(
    core: ServiceCore, command: c.ForkSession, caller: Caller, history: tuple[Message, ...], code: CodeThere | None
) -> r.CreateSessionReply:
    origin = core.session(command.session_id)
    at = history[-1].message_id if history else None
    name = (
        f"{origin.state.name} (fork)"[: limits.MAX_NAME_CHARS] if command.name is None else checked_name(command.name)
    )
    opening = Materialization(opening="fork", session_id=new_session_id())
    protocol = core.protocols.decide(
        opening, name=None, stated=plugin_options(command.options), like=origin.state.protocol
    )
    created = ev.SessionCreated(
        name=name,
        settings=origin.state.settings,
        forked_from=ForkOrigin(session_id=command.session_id, message_id=at),
    )
    session = core.add_session(protocol, created, caller.client_id)
    bring_back(session, history, caller)
    if code is not None:
        code.give(session, caller)
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
