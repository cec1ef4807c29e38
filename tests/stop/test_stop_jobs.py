"""Commands in the background and a stop: real processes that survive a turn's stop and end with the session."""

from pathlib import Path

import pytest

from session_core.ids import SessionId
from session_core.testing.scripted import Pause
from session_core.vocabulary.commands import RequestStop
from session_core.vocabulary.sessions import StopScope
from tests.session_core.service._family import PromptedProvider, Scripts, by_name, hand_over
from tests.session_core.service._helpers import new_session, say, stop_in_this_step, until
from tests.session_core.service._project import FULL_ACCESS, Project, open_project, shell, turn

JOB = shell("sleep 600", background=True)


def running(project: Project, session_id: SessionId) -> list[str]:
    return [job.job_id for job in project.jobs.list(session_id) if job.state == "running"]


@pytest.mark.parametrize("scope", ["turn", "subtree"])
async def test_a_stop_of_the_turn_leaves_jobs_and_names_them(tmp_path: Path, scope: StopScope) -> None:
    """A job outlives a stop of the turn that started it, and the outcome lists it among what survived."""
    provider = PromptedProvider({"go": (JOB, Pause("started"))})
    async with open_project(tmp_path, {}, models={"m": provider}, sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        await provider.wait_for_pause("started")
        outcome = await project.service.request_stop(session_id, scope=scope)
        (job,) = running(project, session_id)
        assert [("job", session_id, job)] == [(each.kind, each.session_id, each.id) for each in outcome.survived]
        assert "job" not in {each.kind for each in outcome.ended}


async def test_a_stop_of_the_session_ends_jobs_and_says_so(tmp_path: Path) -> None:
    """Scope `session` ends the jobs of a session at rest and of its children, and the outcome lists them as ended."""
    scripts: Scripts = {"go": turn(JOB, hand_over("help")), "help": turn(JOB), "other": turn(JOB)}
    async with open_project(tmp_path, scripts, sandbox=FULL_ACCESS) as project:
        service = project.service
        session_id, other = await new_session(service, name="go"), await new_session(service, name="other")
        await say(service, session_id, "go")
        await say(service, other, "other")
        helper = by_name(service)["help"]
        jobs = {(each, job) for each in (session_id, helper) for job in running(project, each)}
        assert 2 == len(jobs)

        outcome = await service.request_stop(session_id, scope="session")

        assert ("stopped", jobs) == (outcome.result, {(each.session_id, each.id) for each in outcome.ended})
        assert () == outcome.survived
        assert ([], [], 1) == (running(project, session_id), running(project, helper), len(running(project, other)))


async def test_jobs_end_although_nobody_waits_for_the_stop(tmp_path: Path) -> None:
    """The stop acts in its own step: jobs end even if whoever asked has gone before the outcome."""
    async with open_project(tmp_path, {"go": turn(JOB)}, sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        command = RequestStop(session_id=session_id, scope="session")
        stop_in_this_step(project.service, command)
        await until(lambda: not running(project, session_id))


async def test_deleting_a_session_ends_its_jobs(tmp_path: Path) -> None:
    """With a session go the commands that it left running."""
    async with open_project(tmp_path, {"go": turn(JOB)}, sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert running(project, session_id)
        await project.service.delete_session(session_id)
        await until(lambda: not project.jobs.list(session_id))


async def test_a_session_with_a_running_job_stays_in_memory(tmp_path: Path) -> None:
    """A child session whose job still runs does not leave memory, so that a stop of its parent finds the job."""
    scripts: Scripts = {"go": turn(hand_over("help")), "help": turn(JOB)}
    async with open_project(tmp_path, scripts, sandbox=FULL_ACCESS, session_stay_ms=1) as project:
        session_id = await new_session(project.service, name="go")
        await say(project.service, session_id, "go")
        await until(lambda: session_id not in project.service._core.sessions)
        helper = by_name(project.service)["help"]
        assert helper in project.service._core.sessions
        outcome = await project.service.request_stop(session_id, scope="session")
        assert [(helper, "job")] == [(each.session_id, each.kind) for each in outcome.ended]
