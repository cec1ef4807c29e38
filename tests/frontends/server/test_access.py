"""What a client that may see one session can ask."""

import attrs
import pytest

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.guest_rights import GUEST_RIGHTS, REFUSALS
from session_core.vocabulary.commands import COMMANDS


def nothing_open(_session_id: sc.SessionId, _request_id: sc.RequestId) -> None:
    """No request is open."""


OURS, THEIRS = sc.SessionId("ses_ours"), sc.SessionId("ses_theirs")


@pytest.mark.parametrize(
    "command",
    [
        sc.commands.ListModels(),
        sc.commands.ListModels(cwd="/etc"),
        sc.commands.ListModels(session_id=THEIRS),
        sc.commands.FindFiles(session_id=THEIRS, query="x"),
        sc.commands.FindFiles(cwd="/", query="x"),
        sc.commands.FindFiles(query="x"),
    ],
)
def test_models_and_files_of_elsewhere_are_not_for_guests(command: "sc.Command[object]") -> None:
    """Who may see one session gets no models or files of another session or of a folder; who may do all does."""
    with pytest.raises(sc.AccessDenied):
        Access(sessions=frozenset({OURS})).check_command(command, nothing_open)
    EVERYTHING.check_command(command, nothing_open)


def test_models_and_files_of_its_own_session_are_for_a_guest() -> None:
    """Even a guest who may only watch gets the models and the files of its own session."""
    guest = Access(role="observer", sessions=frozenset({OURS}))
    guest.check_command(sc.commands.ListModels(session_id=OURS), nothing_open)
    guest.check_command(sc.commands.FindFiles(session_id=OURS, query="x"), nothing_open)


@pytest.mark.parametrize(
    "command",
    [
        sc.commands.ListModels(cwd="/etc"),
        sc.commands.FindFiles(cwd="/", query="x"),
        sc.commands.FindFiles(query="x"),
    ],
)
def test_who_may_only_watch_looks_into_folders_of_sessions_only(command: "sc.Command[object]") -> None:
    """A token to watch all sessions does not show the names of files elsewhere on the machine."""
    watcher = Access(role="observer")
    with pytest.raises(sc.AccessDenied):
        watcher.check_command(command, nothing_open)
    watcher.check_command(sc.commands.FindFiles(session_id=OURS, query="x"), nothing_open)
    watcher.check_command(sc.commands.ListModels(), nothing_open)
    Access(role="controller").check_command(command, nothing_open)


def test_every_command_has_a_row() -> None:
    """Nobody adds a command without saying whether guests may send it; what only watches changes nothing."""
    assert set(GUEST_RIGHTS) == set(COMMANDS)
    rights = [(command.reads_only, GUEST_RIGHTS[command]) for command in COMMANDS]
    assert (False, "observer") not in rights
    assert (True, "controller") not in rights
    assert set(REFUSALS) <= {command for command, right in GUEST_RIGHTS.items() if right == "owner"}


def make(command: type["sc.Command[object]"], session_id: sc.SessionId) -> "sc.Command[object]":
    """Make a command about a session; its other fields do not matter, because it is refused or allowed by its type."""
    given = {"session_id": session_id, "decision": "deny"}
    made = object.__new__(command)
    for field in attrs.fields(command):
        object.__setattr__(made, field.name, given.get(field.name))
    return made


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_what_each_guest_may_send(command: type["sc.Command[object]"]) -> None:
    """Each command is let through for those guests that its row names, and about their own session only."""
    right = GUEST_RIGHTS[command]
    for role in ("observer", "controller"):
        guest = Access(role=role, sessions=frozenset({OURS}))
        if right in {"observer", role}:
            guest.check_command(make(command, OURS), nothing_open)
        else:
            with pytest.raises((sc.AccessDenied, sc.Forbidden)):
                guest.check_command(make(command, OURS), nothing_open)
        with pytest.raises((sc.AccessDenied, sc.Forbidden)):
            guest.check_command(make(command, THEIRS), nothing_open)
    EVERYTHING.check_command(make(command, THEIRS), nothing_open)


def test_a_command_without_a_row_is_for_the_owner() -> None:
    """A command that nobody has thought about yet is refused to guests."""

    class Novel(sc.commands.RenameSession):
        pass

    command = Novel(session_id=OURS, name="x")
    with pytest.raises(sc.AccessDenied):
        Access(sessions=frozenset({OURS})).check_command(command, nothing_open)
    EVERYTHING.check_command(command, nothing_open)


@pytest.mark.parametrize(
    "command",
    [
        sc.commands.ChangeTurnLimits(session_id=OURS, limits=sc.TurnLimits(steps=100_000)),
        sc.commands.SwitchModel(session_id=OURS, model="a/dear-one"),
        sc.commands.ScheduleWakeup(session_id=OURS, delay_ms=10**9, text="when my token has expired"),
        sc.commands.PostMessage(session_id=OURS, text="I have checked it", role="assistant"),
        sc.commands.OpenDialog(session_id=OURS, kind="input", title="Your password?", extension="gate"),
        sc.commands.AnswerApproval(session_id=OURS, request_id=sc.RequestId("r"), decision="allow_always"),
        sc.commands.ChangePermissionMode(session_id=OURS, mode="full"),
        sc.commands.ChangeSandboxPolicy(session_id=OURS, policy=sc.SandboxPolicy(mode="full_access")),
        sc.commands.ChangeWorkingDirectory(session_id=OURS, cwd="/"),
        sc.commands.ForkSession(session_id=OURS),
        sc.commands.DeleteSession(session_id=OURS),
        sc.commands.AppendMessages(session_id=OURS, operation_id="o", messages=()),
        sc.commands.EditQueueItem(session_id=OURS, item_id=sc.QueueItemId("i"), text="what somebody else has said"),
    ],
)
def test_what_outlasts_or_costs_more_is_for_the_owner(command: "sc.Command[object]") -> None:
    """A guest changes nothing that binds its session, leaves nothing for later, and speaks in nobody's name."""
    with pytest.raises(sc.AccessDenied):
        Access(sessions=frozenset({OURS})).check_command(command, nothing_open)
    EVERYTHING.check_command(command, nothing_open)
