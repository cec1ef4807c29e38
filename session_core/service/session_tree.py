"""Which sessions belong together: parents, children, and who works for whom."""

from collections.abc import Iterator, Mapping

from session_core.ids import ClientId, SessionId
from session_core.session.session import Session
from session_core.session.session_list import SessionListState
from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import Approval, PermissionMode, SandboxPolicy, TurnLimits
from session_core.vocabulary.strictness import PERMISSION_MODES


class SessionTree:
    """Looks up sessions by their relations; `sessions` are those in memory."""

    def __init__(self, session_list: SessionListState, sessions: Mapping[SessionId, Session]) -> None:
        self._session_list = session_list
        self._sessions = sessions

    def subtree(self, session_id: SessionId) -> Iterator[Session]:
        """Return the child sessions of a session, their children, and so on, if anything can happen in them."""
        children: dict[SessionId | None, list[SessionId]] = {}
        for summary in self._session_list.sessions.values():
            children.setdefault(summary.parent_id, []).append(summary.session_id)
        found = children.pop(session_id, [])
        while found:
            child = found.pop()
            if child in self._sessions:
                yield self._sessions[child]
            found += children.pop(child, ())

    def depth(self, session_id: SessionId) -> int:
        """Return the number of sessions above this one."""
        return sum(1 for _ in self._ancestors(session_id))

    def lineage(self, session: Session) -> list[Session]:
        """Return this session, the one that waits for its work, the one that waits for that one, and so on."""
        line = [session]
        for ancestor in self._ancestors(session.state.session_id):
            above = self._sessions.get(ancestor)
            if above is None or line[-1].state.session_id not in _awaited_children(above):
                break
            line.append(above)
        return line

    def find_root_session(self, session: Session) -> Session:
        """Return the topmost session that waits for this one: the user watches, answers and undoes there."""
        return self.lineage(session)[-1]

    def find_topmost(self, session_id: SessionId) -> SessionId:
        """Return the topmost existing session above this one, whether or not it waits; itself if there is none."""
        above = [each for each in self._ancestors(session_id) if each in self._session_list.sessions]
        return above[-1] if above else session_id

    def subagents(self, session: Session) -> Iterator[Session]:
        """Return the sessions that a running turn waits for, those that they wait for, and so on."""
        awaited = _awaited_children(session)
        while awaited:
            subagent = self._sessions.get(awaited.pop())
            if subagent is not None:
                yield subagent
                awaited += _awaited_children(subagent)

    def find_forwarded_approvals(self, session: Session) -> Iterator[tuple[Session, Approval]]:
        """Return the open approvals of a session that are shown in another session, with that session."""
        root = self.find_root_session(session)
        if root is not session:
            yield from (
                (root, approval) for approval in root.state.approvals if approval.session_id == session.state.session_id
            )

    def _ancestors(self, session_id: SessionId) -> Iterator[SessionId]:
        """Return the parent of a session, its parent, and so on; stops at a cycle, which only a damaged store has."""
        seen, summary = {session_id}, self._session_list.sessions.get(session_id)
        while summary is not None and summary.parent_id is not None and summary.parent_id not in seen:
            seen.add(summary.parent_id)
            yield summary.parent_id
            summary = self._session_list.sessions.get(summary.parent_id)

    def change_mode(self, session: Session, mode: PermissionMode, by: ClientId | None) -> None:
        """Change the permission mode of a session and its subagents: a stricter mode restricts them too.

        A subagent that had its parent's mode gets the new one; one with another mode never gets more than its parent,
        and a read-only one stays read-only.
        """
        before = session.state.settings.permission_mode
        session.record(ev.PermissionModeChanged(mode=mode), by)
        for tool in session.state.tools:
            subagent = self._sessions.get(tool.child_id) if tool.child_id is not None else None
            if subagent is not None and tool.result is None:
                has = subagent.state.settings.permission_mode
                follows = has == before and not tool.arguments.get("read_only")
                self.change_mode(subagent, mode if follows else min(has, mode, key=PERMISSION_MODES.index), by)

    def change_sandbox(self, session: Session, policy: SandboxPolicy, by: ClientId | None) -> None:
        """Change the sandbox of a session, and of its subagents that had the same one."""
        before = session.state.settings.sandbox
        session.record(ev.SandboxPolicyChanged(policy=policy), by)
        for subagent_id in _awaited_children(session):
            subagent = self._sessions.get(subagent_id)
            if subagent is not None and subagent.state.settings.sandbox == before:
                self.change_sandbox(subagent, policy, by)

    def change_limits(self, session: Session, limits: TurnLimits, by: ClientId | None) -> None:
        """Change the limits of a session, and of its subagents that had the same ones; running turns are told."""
        before = session.state.settings.limits
        session.record(ev.TurnLimitsChanged(limits=limits), by)
        for subagent_id in _awaited_children(session):
            subagent = self._sessions.get(subagent_id)
            if subagent is not None and subagent.state.settings.limits == before:
                self.change_limits(subagent, limits, by)
        if session.work is not None:
            session.work.on_limits_changed()


def _awaited_children(session: Session) -> list[SessionId]:
    return [tool.child_id for tool in session.state.tools if tool.child_id is not None and tool.result is None]
