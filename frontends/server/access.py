"""What a client may do and see, decided by how it came in."""

from typing import Final

import attrs

import session_core as sc

_c = sc.commands
_LOOSENING: Final = (_c.ChangeSandboxPolicy, _c.ChangePermissionTier, _c.ChangeWorkingDirectory)
"""With one of these, whoever may act in one session could read the token of the home there."""
_REACHING_OUT: Final = (_c.ForkSession, _c.LoginToProvider)
"""What makes another session, or counts for all of them."""


@attrs.frozen(kw_only=True)
class Access:
    """The rights of a client.

    Attributes:
        role: The most it may be; an observer cannot act, whatever it says of itself.
        sessions: The sessions that it may see; None is all of them, and the list of them.
    """

    role: sc.ClientRole = "controller"
    sessions: frozenset[sc.SessionId] | None = None

    def role_for(self, wanted: sc.ClientRole) -> sc.ClientRole:
        """Return what a client is that wants to be this."""
        return "observer" if self.role == "observer" else wanted

    def check_command(self, command: "sc.Command[object]") -> None:
        """Refuse a command that reaches beyond these rights.

        Raises:
            NotAllowed: It is about another session or about all of them, changes what binds the session, or looks
                elsewhere than where a session works.
            Forbidden: It changes something, and this client may only watch.
        """
        if self.role == "observer" and not command.reads_only:
            raise sc.Forbidden("this client is an observer: it may watch but not act")
        if self.role == "observer" and _looks_elsewhere(command):
            raise sc.NotAllowed("this client may only look where a session works: name a session", field="session_id")
        if self.sessions is not None:
            self.check_session(getattr(command, "session_id", None))
            _check_reach(command)

    def check_session(self, session_id: sc.SessionId | None) -> None:
        """Refuse the reading of a session, or of the list of all, that is not among those that may be seen.

        Raises:
            NotAllowed: It is not.
        """
        if self.sessions is None or session_id in self.sessions:
            return
        what = "the list of all sessions" if session_id is None else "this session"
        raise sc.NotAllowed(f"this client may not see {what}", field="session_id")


def _looks_elsewhere(command: "sc.Command[object]") -> bool:
    """Tell whether a command would show what is in any folder of the machine, or in the service's own."""
    if isinstance(command, _c.FindFiles) and command.session_id is None:
        return True
    return getattr(command, "cwd", None) is not None


def _check_reach(command: "sc.Command[object]") -> None:
    """Refuse what a client that may see some sessions could use to get at the others, or at the home itself."""
    if isinstance(command, _LOOSENING):
        raise sc.NotAllowed("this client may not change the bounds of a session; who shares it can", field="type")
    always = isinstance(command, _c.AnswerApproval) and command.decision == "allow_always"
    if always or isinstance(command, _REACHING_OUT):
        raise sc.NotAllowed("this client may do nothing that reaches beyond this session", field="type")


EVERYTHING = Access()
"""The rights of the user's own programs."""
