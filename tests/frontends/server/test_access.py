"""What a client that may see one session can ask."""

import pytest

import session_core as sc
from frontends.server.access import EVERYTHING, Access

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
        Access(sessions=frozenset({OURS})).check_command(command)
    EVERYTHING.check_command(command)


def test_models_and_files_of_its_own_session_are_for_a_guest() -> None:
    """Even a guest who may only watch gets the models and the files of its own session."""
    guest = Access(role="observer", sessions=frozenset({OURS}))
    guest.check_command(sc.commands.ListModels(session_id=OURS))
    guest.check_command(sc.commands.FindFiles(session_id=OURS, query="x"))


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
        watcher.check_command(command)
    watcher.check_command(sc.commands.FindFiles(session_id=OURS, query="x"))
    watcher.check_command(sc.commands.ListModels())
    Access(role="controller").check_command(command)
