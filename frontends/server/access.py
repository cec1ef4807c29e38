"""The rights of a client, which depend on how it was admitted."""

from collections.abc import Callable

import attrs

import session_core as sc
from frontends.server.guest_rights import DEFAULT_REFUSAL, GUEST_RIGHTS, REFUSALS

_c = sc.commands

FindRequest = Callable[[sc.SessionId, sc.RequestId], sc.Approval | sc.Dialog | None]


@attrs.frozen(kw_only=True)
class Access:
    """The rights of a client.

    Attributes:
        role: The highest role it may have; an observer cannot act, whatever role it claims.
        sessions: The sessions that it may see; None means all of them, and the list of them.
    """

    role: sc.ClientRole = "controller"
    sessions: frozenset[sc.SessionId] | None = None

    def role_for(self, wanted: sc.ClientRole) -> sc.ClientRole:
        """Return the role of a client that asks for this one."""
        return "observer" if self.role == "observer" else wanted

    def check_command(self, command: "sc.Command[object]", find_request: FindRequest) -> None:
        """Refuse a command that reaches beyond these rights.

        Args:
            command: The command.
            find_request: Finds the open request that an answer is about, as `SessionService.find_request` does.

        Raises:
            AccessDenied: It concerns another session or all of them, changes the session's restrictions, deletes it, or
                looks outside the session's folder.
            Forbidden: It changes something, and this client may only watch.
        """
        if self.role == "observer" and not command.reads_only:
            raise sc.Forbidden("this client is an observer: it may watch but not act")
        if self.role == "observer" and _looks_elsewhere(command):
            raise sc.AccessDenied("this client may only see the folder of a session: name one", field="session_id")
        if self.sessions is not None:
            session_id = command.session_id
            if session_id is None:
                raise _about_no_session(command)
            self.check_session(session_id)
            _check_reach(command)
            _check_answer(command, find_request)

    def check_session(self, session_id: sc.SessionId | None) -> None:
        """Refuse reading a session, or the list of all, that this client may not see.

        Raises:
            AccessDenied: The client may not see it.
        """
        if self.sessions is None or session_id in self.sessions:
            return
        what = "the list of all sessions" if session_id is None else "this session"
        raise _access_denied(f"see {what}", field="session_id")

    def check_service(self) -> None:
        """Refuse access to the whole service for a client that may see only some sessions.

        Raises:
            AccessDenied: The client may see only some sessions.
        """
        if self.sessions is not None:
            raise _access_denied("see the whole service")


def _access_denied(what: str, *, field: str | None = None) -> sc.AccessDenied:
    return sc.AccessDenied(f"this client may not {what}", field=field)


def _about_no_session(command: "sc.Command[object]") -> sc.AccessDenied:
    if "session_id" in attrs.fields_dict(type(command)):
        return _access_denied("ask this about all sessions: name one of its own", field="session_id")
    return _access_denied(REFUSALS.get(type(command), DEFAULT_REFUSAL), field="type")


def _looks_elsewhere(command: "sc.Command[object]") -> bool:
    """Return whether a command could show folders outside of the client's sessions."""
    if isinstance(command, _c.FindFiles) and command.session_id is None:
        return True
    return getattr(command, "cwd", None) is not None


def _check_reach(command: "sc.Command[object]") -> None:
    """Refuse commands with which a client of some sessions could reach the others, the home, or what binds its own."""
    if GUEST_RIGHTS.get(type(command), "owner") == "owner":
        raise _access_denied(REFUSALS.get(type(command), DEFAULT_REFUSAL), field="type")
    if isinstance(command, _c.OpenDialog) and command.extension is not None:
        raise _access_denied("ask in the name of an extension", field="extension")


def _check_answer(command: "sc.Command[object]", find_request: FindRequest) -> None:
    """Refuse a yes that only the owner may give; the rights of a request never change, so this cannot be too early."""
    if not isinstance(command, _c.AnswerApproval | _c.AnswerDialog):
        return
    request = find_request(command.session_id, command.request_id)
    rights = () if request is None else request.rights
    decision: sc.Decision
    if isinstance(command, _c.AnswerApproval):
        decision, field = command.decision, "decision"
    else:
        decision, field = "deny" if command.value in (None, False) else "allow_once", "value"
    refused = sc.explain_refused_decision(decision, rights, "guest")
    if refused is not None:
        raise sc.AccessDenied(refused, field=field)


EVERYTHING = Access()
"""The rights of the user's own programs."""
