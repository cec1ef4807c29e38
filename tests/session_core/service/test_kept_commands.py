"""What commands change is in the checkpoint of their turn: side by side, by helpers, and on in the background."""

from pathlib import Path

import pytest

from session_core.errors import FilesChanged
from session_core.testing.scripted import tool_call
from session_core.tools import background_jobs
from tests.session_core.service._family import Scripts, hand_over
from tests.session_core.service._helpers import new_session, say, until
from tests.session_core.service._project import FULL_ACCESS, open_project, shell, turn, write

WAITS = "while [ ! -e {} ]; do sleep 0.01; done"


def after(file: str, command: str) -> str:
    """A command that waits for a file, so that the order of things is certain."""
    return f"{WAITS.format(file)}; {command}"


async def test_helpers_side_by_side(tmp_path: Path) -> None:
    """What a helper's command does after another helper's command has ended is undone with the turn."""
    scripts: Scripts = {
        "go": turn(hand_over("a", "b")),
        "a": turn(shell(after("b-runs", "echo new > a")), write("a-ended", "")),
        "b": turn(shell("touch b-runs; " + after("a-ended", "echo new > b; rm c"))),
    }
    async with open_project(tmp_path, scripts, sandbox=FULL_ACCESS) as project:
        for name in "abc":
            project.put(name, "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a": "new\n", "b": "new\n", "a-ended": "", "b-runs": ""} == project.files()
        await project.service.restore_to_message(session_id)
        assert {"a": "old", "b": "old", "c": "old"} == project.files()


async def test_a_job_that_ends_within_its_turn(tmp_path: Path) -> None:
    """What a command in the background changes while its turn runs is undone without further questions."""
    look = tool_call("job_output", {"job_id": "job_1", "wait_ms": 20_000})
    scripts: Scripts = {
        "go": turn(shell(after("begin", "echo new > a; echo made > b"), background=True), write("begin", ""), look)
    }
    async with open_project(tmp_path, scripts, sandbox=FULL_ACCESS) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a": "new\n", "b": "made\n", "begin": ""} == project.files()
        await project.service.restore_to_message(session_id)
        assert {"a": "old"} == project.files()


async def test_a_job_that_outlives_its_turn(tmp_path: Path) -> None:
    """What changes beside a job after its turn is named, brought back by force alone, and can be taken back."""
    job = shell(after("begin", "echo new > a"), background=True)
    async with open_project(tmp_path, {"go": turn(job)}, sandbox=FULL_ACCESS) as project:
        project.put("a", "old")
        project.put("b", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        project.put("b", "mine, while it runs")
        project.put("begin", "")
        await until(lambda: project.jobs.list(session_id)[0].state == "finished")
        project.put("c", "mine, after it has ended")
        before = project.files()

        with pytest.raises(FilesChanged, match="kept running in the background") as refused:
            await project.service.restore_to_message(session_id)
        assert ["a", "b", "begin"] == [path for path, _ in refused.value.files]
        await project.service.restore_to_message(session_id, force=True)
        assert {"a": "old", "b": "old", "c": "mine, after it has ended"} == project.files()
        await project.service.take_back_undo(session_id)
        assert before == project.files()


async def test_an_undo_beside_a_running_job_says_so(tmp_path: Path) -> None:
    """While a job still runs, an undo tells that it may change files again."""
    job = shell("sleep 1000", background=True)
    async with open_project(tmp_path, {"go": turn(job, write("a", "new"))}, sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        reply = await project.service.restore_to_message(session_id)
        assert ({}, True) == (project.files(), "still runs in the background" in reply.remarks[-1])


async def test_a_job_that_does_not_start_is_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When there are too many jobs, nothing runs, and what a person does afterwards is nobody's command."""
    monkeypatch.setattr(background_jobs, "MAX_RUNNING_PER_SESSION", 0)
    async with open_project(
        tmp_path, {"go": turn(shell("sleep 1000", background=True))}, sandbox=FULL_ACCESS
    ) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        project.put("mine", "mine")
        reply = await project.service.restore_to_message(session_id)
        assert ((), (), {"mine": "mine"}) == (reply.files, reply.remarks, project.files())
