"""Programs of extensions: real commands in a real sandbox, held to the rules of the session and ended with it."""

import secrets
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from session_core import limits
from session_core.agent.hooks import Blocked, HookName
from session_core.errors import (
    Conflict,
    FilesChanged,
    Forbidden,
    InvalidInput,
    ServiceClosed,
    SessionCoreError,
    Unavailable,
)
from session_core.ids import RequestId, SessionId
from session_core.permissions.rules import PermissionRule
from session_core.sep.protocol.service_api import ProgramResult
from session_core.service.compact_and_restore import start_restore
from session_core.service.extension_bridge.programs import ProgramGate
from session_core.tools import shell as shell_module
from session_core.tools.command_confinement import ShellSetup
from session_core.tools.shell import ShellTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from tests._needs import needs_sandbox
from tests.session_core.service._helpers import new_session, of_type, recorded, until
from tests.session_core.service._programs import People, Programs, make_caller, open_programs
from tests.session_core.service._project import FULL_ACCESS, open_project, shell, turn
from tests.session_core.tools._calls import assert_no_child, processes_with
from tests.session_core.tools._running import names

NO_SANDBOX = ShellTool(setup=ShellSetup(bubblewrap_places="/nowhere"))
CUT = "[the beginning was cut, this is the end of the output]\n"


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail any test that leaves a child behind."""
    yield
    assert_no_child()


@needs_sandbox
async def test_it_runs_confined_and_is_recorded(tmp_path: Path) -> None:
    """The extension gets both streams and the exit code, everybody can read what ran, and no turn was needed."""
    line = "pwd; echo oops >&2; touch made; exit 3"
    async with open_programs(tmp_path) as programs:
        (programs.root / "src").mkdir()
        ran = await programs.run(line, "src")
        snapshot = await programs.service.load_session(programs.session_id)
        told = [
            (each.by, each.event)
            for each in recorded(programs.service, programs.session_id)
            if isinstance(each.event, ev.NoticeShown)
        ]

    assert ProgramResult(stdout=f"{tmp_path}/project/src\n", stderr="oops\n", exit_code=3) == ran
    assert ["made"] == names(programs.root / "src")
    assert [("extension:git", ev.NoticeShown(extension="git", message=f"ran (in src): {line}"))] == told
    assert ("idle", 0) == (snapshot.activity.name, len(snapshot.messages))
    assert [] == programs.people.asked


@needs_sandbox
async def test_nothing_outside_can_be_changed(tmp_path: Path) -> None:
    """The sandbox is that of the session, and a signal is told as shells do, with a sandbox and without."""
    async with open_programs(tmp_path) as programs:
        ran = await programs.run(f"touch {shlex.quote(str(tmp_path))}/outside; kill -9 $$")
        assert ["project"] == names(tmp_path)
        await programs.service.change_sandbox_policy(programs.session_id, FULL_ACCESS)
        free = await programs.run(f"touch {shlex.quote(str(tmp_path))}/outside; kill -9 $$")

    assert (137, 137) == (ran.exit_code, free.exit_code)
    assert ["outside", "project"] == names(tmp_path)


@attrs.frozen
class NoRemoval:
    """An extension that lets nobody remove anything."""

    def handles(self, hook: HookName) -> bool:
        return hook == "user_bash"

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        return Blocked(reason="no removal") if "rm" in str(value["command"]) else value


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rules": (PermissionRule(decision="deny", command="rm *"),)}, "a rule in the configuration forbids it"),
        ({"permission_mode": "read_only"}, "this session is read-only"),
        ({"hooks": NoRemoval()}, "blocked by an extension: no removal"),
    ],
)
async def test_what_is_denied(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    """A rule, a read-only session and a hook are the end of it: nothing runs, and nobody is asked."""
    async with open_programs(tmp_path, **settings) as programs:
        (programs.root / "file").touch()
        with pytest.raises(Forbidden, match=reason):
            await programs.run("timeout 5 rm file")
        assert [] == of_type(programs.service, programs.session_id, ev.NoticeShown)

    assert (["file"], []) == (programs.made(), programs.people.asked)


@needs_sandbox
@pytest.mark.parametrize("yes", [True, False])
async def test_people_see_exactly_what_would_run(tmp_path: Path, *, yes: bool) -> None:
    """Where the mode asks, a person decides about the very command in its folder and sandbox."""
    async with open_programs(tmp_path, permission_mode="ask_writes") as programs:
        programs.people.yes = yes
        if yes:
            await programs.run("touch made")
        else:
            with pytest.raises(Forbidden, match="nobody has agreed"):
                await programs.run("touch made")

    [(session_id, extension, title, shown)] = programs.people.asked
    assert (programs.session_id, "git") == (session_id, extension)
    assert "May the extension git run this command?" == title
    assert shown.startswith(f"touch made\n\nfolder: {programs.root}\nsandbox: workspace_write, may change")
    assert shown.endswith("ended after 120 seconds at the latest\n\nasked because: it runs a program")
    assert (["made"] if yes else []) == programs.made()


@needs_sandbox
async def test_a_yes_for_the_session_counts(tmp_path: Path) -> None:
    """What a person has allowed for the session, or a rule allows, is not asked for again."""
    rules = (PermissionRule(decision="allow", command="echo *"),)
    async with open_programs(tmp_path, permission_mode="ask_writes", rules=rules) as programs:
        await programs.run("echo hello")
        granted = ev.ApprovalResolved(
            request_id=RequestId("req_1"),
            tool_name="bash",
            decision="allow_session",
            because="answered",
            grant=f"run in {programs.root}: touch made",
        )
        programs.service._core.session(programs.session_id).record(granted)
        await programs.run("touch made")
        assert ([], ["made"]) == (programs.people.asked, programs.made())
        await programs.run("touch made", ".")
        await programs.run("touch other")

    assert ["touch other"] == [shown.partition("\n")[0] for *_, shown in programs.people.asked]


async def test_what_changed_meanwhile_does_not_run(tmp_path: Path) -> None:
    """A yes is for what was shown: in another folder, or when the session has become read-only, nothing runs."""
    async with open_programs(tmp_path, permission_mode="ask_all") as programs:
        service, session_id = programs.service, programs.session_id
        (tmp_path / "beside").mkdir()
        programs.people.meanwhile = partial(service.change_working_directory, session_id, str(tmp_path / "beside"))
        with pytest.raises(Conflict, match="something has changed since this program was allowed"):
            await programs.run("touch made")
        programs.people.meanwhile = partial(service.change_permission_mode, session_id, "read_only")
        with pytest.raises(Forbidden, match="this session is read-only"):
            await programs.run("touch made")

    assert 2 == len(programs.people.asked)
    assert (["beside", "project"], [], []) == (names(tmp_path), names(tmp_path / "beside"), programs.made())


async def test_without_a_sandbox_people_are_asked(tmp_path: Path) -> None:
    """Where nothing confines a program, no mode skips the question; with a yes it runs."""
    async with open_programs(tmp_path, tool=NO_SANDBOX) as programs:
        programs.people.yes = False
        with pytest.raises(Forbidden):
            await programs.run("touch made")
        assert [] == programs.made()
        programs.people.yes = True
        await programs.run("touch made")

    assert ["made"] == programs.made()
    assert all("no sandbox here: bubblewrap is not installed" in shown for *_, shown in programs.people.asked)
    assert {("unconfined",)} == {*programs.people.rights}


@pytest.mark.parametrize(
    ("line", "cwd", "field"),
    [
        ("", None, "command"),
        ("x" * 30_001, None, "command"),
        ("a\0b", "src", "command"),
        ("\ud800", None, "command"),
        ("ls", "..", "cwd"),
        ("ls", "/", "cwd"),
        ("ls", "gone", "cwd"),
        ("ls", "", "cwd"),
        ("ls", "\ud800", "cwd"),
        ("ls", "a\0b", "cwd"),
    ],
)
async def test_what_cannot_be_run(tmp_path: Path, line: str, cwd: str | None, field: str) -> None:
    """A line that is no command and a folder outside of the session's are refused with the field."""
    async with open_programs(tmp_path) as programs:
        with pytest.raises(InvalidInput) as refused:
            await programs.run(line, cwd)
        assert [] == of_type(programs.service, programs.session_id, ev.NoticeShown)
    assert field == refused.value.field


async def test_without_a_shell(tmp_path: Path) -> None:
    """Where the shell is switched off, no extension runs anything."""
    async with open_programs(tmp_path, tools=()) as programs:
        with pytest.raises(Unavailable, match="no tool called 'bash'"):
            await programs.run("touch made")


async def test_the_end_of_much_output(tmp_path: Path) -> None:
    """Each stream is bounded, keeps its end, and says that its beginning was cut."""
    async with open_programs(tmp_path) as programs:
        ran = await programs.run("seq 50000; seq 60000 >&2")

    for text, last in ((ran.stdout, 50_000), (ran.stderr, 60_000)):
        assert limits.MAX_TOOL_OUTPUT_CHARS == len(text)
        assert text.startswith(CUT)
        assert text.endswith(f"\n{last}\n")


async def test_a_long_line_is_told_in_part(tmp_path: Path) -> None:
    """A notice stays short, and says how much of the line it leaves out."""
    async with open_programs(tmp_path) as programs:
        await programs.run("true " + "x" * 10_000)
        [notice] = of_type(programs.service, programs.session_id, ev.NoticeShown)

    assert notice.message.endswith("x [and 8,060 more characters]")
    assert limits.MAX_ERROR_CHARS >= len(notice.message)


async def test_a_program_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended with all that it started and never looks like a success."""
    mark = secrets.token_hex(8)
    ran = None
    async with open_programs(tmp_path) as programs:
        for timeout_ms in (500, 5_000, 60_000):  # enough for its first word, on a busy machine too
            monkeypatch.setattr(shell_module, "DEFAULT_TIMEOUT_MS", timeout_ms)
            ran = await programs.run(f"trap 'exit 0' TERM; printf so >&2; sh -c 'sleep 1000; : {mark}' & wait")
            if ran.stderr.startswith("so"):
                break

    assert (
        ProgramResult(stdout="", stderr="so\n[ended after 120 seconds, which is its time limit]\n", exit_code=124)
        == ran
    )
    assert [] == processes_with(mark)


# --- ending it --------------------------------------------------------------------------------------------------------


async def outcome_of(programs: Programs, line: str, outcomes: list[ProgramResult | SessionCoreError]) -> None:
    """Run a program, and note how it ended."""
    try:
        outcomes.append(await programs.run(line))
    except SessionCoreError as error:
        outcomes.append(error)


async def test_a_stop_of_the_session_ends_it(tmp_path: Path) -> None:
    """A stop finds the program and ends its whole group; the extension is told, and others run on."""
    mark = secrets.token_hex(8)
    outcomes: list[ProgramResult | SessionCoreError] = []
    async with open_programs(tmp_path) as programs, trio.open_nursery() as nursery:
        other = await new_session(programs.service)
        nursery.start_soon(outcome_of, programs, f"sh -c 'touch begun; sleep 1000; : {mark}' & wait", outcomes)
        await until((programs.root / "begun").exists)
        elsewhere = await programs.service.request_stop(other)
        stopped = await programs.service.request_stop(programs.session_id)
        assert [] == processes_with(mark)

    [outcome] = outcomes
    assert isinstance(outcome, Conflict)
    assert "a program of extension git was stopped before it was done" == outcome.message
    assert ("nothing_running", "stopped") == (elsewhere.result, stopped.result)
    assert ["command"] == [each.kind for each in stopped.ended]


async def test_who_asked_may_leave(tmp_path: Path) -> None:
    """When the request is cancelled, the program and all that it started have ended before that goes on."""
    mark = secrets.token_hex(8)
    async with open_programs(tmp_path) as programs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(programs.run, f"sh -c 'touch begun; sleep 1000; : {mark}' & wait")
            await until((programs.root / "begun").exists)
            nursery.cancel_scope.cancel()
        assert [] == processes_with(mark)
        assert () == programs.service._core.side_tasks.running_for(programs.session_id)


async def test_the_end_of_the_service_ends_it(tmp_path: Path) -> None:
    """A service that closes leaves no program behind, and the extension is told why."""
    mark = secrets.token_hex(8)
    outcomes: list[ProgramResult | SessionCoreError] = []
    async with trio.open_nursery() as nursery:
        async with open_programs(tmp_path) as programs:
            line = f"touch begun; sleep 1000; : {mark}"
            nursery.start_soon(outcome_of, programs, line, outcomes)  # noqa: ASYNC111 - the end of both is the point
            await until((programs.root / "begun").exists)
        assert [] == processes_with(mark)

    assert [ServiceClosed] == [type(each) for each in outcomes]


async def test_several_at_once(tmp_path: Path) -> None:
    """Programs run side by side up to a bound, and questions count; when they have ended there is room again."""
    answer, asked = trio.Event(), trio.Event()
    outcomes: list[ProgramResult | SessionCoreError] = []
    async with open_programs(tmp_path, permission_mode="ask_all") as programs:

        async def wait() -> None:
            if len(programs.people.asked) == limits.MAX_PROGRAMS_AT_ONCE:
                asked.set()
            await answer.wait()

        programs.people.meanwhile = wait
        async with trio.open_nursery() as nursery:
            for number in range(limits.MAX_PROGRAMS_AT_ONCE):
                nursery.start_soon(outcome_of, programs, f"echo {number}", outcomes)
            await asked.wait()
            with pytest.raises(Conflict, match="programs of extensions run in this session already"):
                await programs.run("echo one too many")
            answer.set()
        await programs.run("echo again")

    said = sorted(each.stdout for each in outcomes if isinstance(each, ProgramResult))
    assert [f"{number}\n" for number in range(limits.MAX_PROGRAMS_AT_ONCE)] == said


async def test_a_stop_ends_the_question(tmp_path: Path) -> None:
    """A program that waits for a person's yes does not run after a stop."""
    outcomes: list[ProgramResult | SessionCoreError] = []
    async with open_programs(tmp_path, permission_mode="ask_all") as programs, trio.open_nursery() as nursery:
        programs.people.meanwhile = trio.sleep_forever
        nursery.start_soon(outcome_of, programs, "touch made", outcomes)
        await until(lambda: programs.people.asked)
        await programs.service.request_stop(programs.session_id)

    assert ([Conflict], []) == ([type(each) for each in outcomes], programs.made())


# --- what it changes --------------------------------------------------------------------------------------------------

WAITS = "while [ ! -e {} ]; do sleep 0.01; done"


async def test_its_changes_belong_to_the_turn(tmp_path: Path) -> None:
    """What a program changes while a turn runs is undone with it."""
    async with open_project(tmp_path, {"go": turn(shell(WAITS.format("go")))}, sandbox=FULL_ACCESS) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        gate = ProgramGate(project.service._core, People())
        await gate(make_caller(session_id), "echo new > a; echo made > b", None)
        project.put("go", "")
        await project.service.wait_for_turn(session_id)
        await project.service.restore_to_message(session_id)
        assert {"a": "old"} == {name: text for name, text in project.files().items() if name != "go"}


async def test_a_program_that_outlives_the_turn(tmp_path: Path) -> None:
    """What it changes after its turn has ended may be somebody else's work, so an undo asks."""
    async with open_project(tmp_path, {"go": turn(shell(WAITS.format("begun")))}, sandbox=FULL_ACCESS) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        gate = ProgramGate(project.service._core, People())
        async with trio.open_nursery() as nursery:
            await project.service.send_user_message(session_id, "go")
            line = f"touch begun; {WAITS.format('later')}; echo new > a"
            nursery.start_soon(gate, make_caller(session_id), line, None)
            await project.service.wait_for_turn(session_id)
            project.put("later", "")
        with pytest.raises(FilesChanged) as refused:
            await project.service.restore_to_message(session_id)
        assert "a" in [path for path, _ in refused.value.files]
        await project.service.restore_to_message(session_id, force=True)
        assert "old" == project.files()["a"]


async def test_nothing_runs_while_files_are_brought_back(tmp_path: Path) -> None:
    """During an undo a program would change what is being restored, so it has to wait."""
    done = trio.Event()
    async with open_programs(tmp_path) as programs:
        core = programs.service._core
        start_restore(core, core.session(programs.session_id), done.wait)
        with pytest.raises(Conflict, match="files are being restored"):
            await programs.run("touch made")
        done.set()
        await until(lambda: core.session(programs.session_id).work is None)
        await programs.run("touch made")
    assert ["made"] == programs.made()
