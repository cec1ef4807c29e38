"""Going on with a session: which one, what is said about it, and that only the new turn counts."""

import signal
from pathlib import Path

import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.embedded_service import open_embedded
from frontends.commands.run.options import ContinuedSession, InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.conversation import work_lines
from frontends.shared.parser import UsageError
from frontends.shared.session_lookup import last_used
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._kept import MINUTE, NOW, summary
from tests.frontends._paper import NoSignals, Paper, config, written

PLAIN = Style()


@pytest.fixture
def paper() -> StandardStreams:
    return StandardStreams(out=Paper(), err=Paper())


def configure(home: Path, text: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text(text, encoding="utf-8")


async def known(service: sc.SessionService) -> ContinuedSession:
    """The one session of a service, as the list has it."""
    return ContinuedSession(summary=(await service.list_sessions()).sessions[0], short="7k2f")


async def test_only_the_new_turn_counts(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """An old outcome does not end the new turn, old answers are not repeated, and the exit code is the new turn's."""
    provider = scripted.ScriptedProvider(
        scripted.text("First."), scripted.failure("refused", "I will not"), scripted.text("Third.")
    )
    async with open_checked_service(config(provider)) as service:
        await converse(service, RunOptions(prompt="one"), StandardStreams(out=Paper(), err=Paper()), NoSignals())
        failed = await converse(service, RunOptions(prompt="two"), paper, NoSignals(), await known(service))
        ended = await converse(service, RunOptions(prompt="three"), paper, NoSignals(), await known(service))

    out, err = written(paper)
    assert (1, 0, "Third.\n") == (failed, ended, out)
    assert 'Continuing 7k2f "one": 2 messages' in err
    assert "✗ Its last turn failed: " in err


async def test_another_protocol_is_refused(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """A session has one protocol for all of its life: asking for another is refused, for the same it is not."""
    async with open_checked_service(config(scripted.ScriptedProvider(scripted.text("a")))) as service:
        await service.create_session()
        before = await known(service)
        with pytest.raises(UsageError, match=r"session 7k2f has the protocol standard, .* cannot continue with code"):
            await converse(service, RunOptions(prompt="one", protocol="code"), paper, NoSignals(), before)
        assert not (await service.load_session(before.summary.session_id)).messages
        assert 0 == await converse(service, RunOptions(prompt="one", protocol="standard"), paper, NoSignals(), before)


async def test_settings_change_only_when_asked(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """Model, directory, permissions and limits stay as they are in the session unless options say otherwise."""
    provider = scripted.ScriptedProvider(scripted.text("a"), scripted.text("b"), scripted.text("c"))
    async with open_checked_service(config(provider)) as service:
        limits = sc.TurnLimits(steps=5, time_ms=90_000)
        session_id = (await service.create_session(cwd="/usr", permission_mode="ask_all", limits=limits)).session_id
        before = (await service.load_session(session_id)).settings
        await converse(service, RunOptions(prompt="one"), paper, NoSignals(), await known(service))
        same = (await service.load_session(session_id)).settings
        changing = RunOptions(
            prompt="two", cwd="/", permissions="full", model="m", limits=sc.TurnLimits(steps=7, tokens=10**6)
        )
        await converse(service, changing, paper, NoSignals(), await known(service))
        after = (await service.load_session(session_id)).settings

    assert before == same
    assert ("/", "full", "m") == (after.cwd, after.permission_mode, after.model)
    assert sc.TurnLimits(steps=7, tokens=10**6, time_ms=90_000) == after.limits


async def test_going_on_without_a_prompt(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """A turn that was stopped goes on without a new message when no prompt is given."""
    provider = scripted.ScriptedProvider((sc.TextChunk(text="half"), scripted.Hang()), scripted.text("whole"))
    async with open_checked_service(config(provider)) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "go")
        await trio.testing.wait_all_tasks_blocked()
        await service.request_stop(session_id)
        code = await converse(service, RunOptions(prompt=None), paper, NoSignals(), await known(service))
        users = [each for each in (await service.load_session(session_id)).transcript if each.role == "user"]

    out, err = written(paper)
    assert (0, "whole\n", 1) == (code, out, len(users))
    assert "■ Its last turn was stopped; its partial answer was kept." in err


async def test_quiet_says_nothing_about_the_past(
    paper: StandardStreams, autojump_clock: trio.testing.MockClock
) -> None:
    """With --quiet only the new answer is printed."""
    provider = scripted.ScriptedProvider(scripted.text("First."), scripted.text("Second."))
    quiet = InteractionOptions(quiet=True)
    async with open_checked_service(config(provider)) as service:
        for prompt in ("one", "two"):
            sessions = (await service.list_sessions()).sessions
            which = await known(service) if sessions else None
            await converse(service, RunOptions(prompt=prompt, interaction=quiet), paper, NoSignals(), which)

    assert ("First.\nSecond.\n", "") == written(paper)


async def test_falling_behind_in_an_old_session(autojump_clock: trio.testing.MockClock) -> None:
    """After a lag only the new turn is made up for: nothing that was said before it is printed again."""
    provider = scripted.ScriptedProvider(
        scripted.text("Old words."),
        (*(sc.TextChunk(text=f"{number} ") for number in range(100)), sc.ModelFinished(usage=sc.Usage())),
    )
    out, err = Paper(), Paper()
    async with open_checked_service(config(provider, capacity=16)) as service:
        await converse(service, RunOptions(prompt="one"), StandardStreams(out=Paper(), err=Paper()), NoSignals())
        await converse(
            service, RunOptions(prompt="two"), StandardStreams(out=out, err=err), NoSignals(), await known(service)
        )

    assert "".join(f"{number} " for number in range(100)) + "\n" == out.text
    assert "fell behind by" in err.text


async def test_ctrl_c_before_a_turn_goes_on(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """A Ctrl-C that comes together with the wish to go on ends the program with 130 and no complaint."""
    provider = scripted.ScriptedProvider(
        (sc.TextChunk(text="half"), scripted.Hang()), (sc.TextChunk(text="more"), scripted.Hang())
    )
    send, receive = trio.open_memory_channel[int](1)
    send.send_nowait(signal.SIGINT)
    async with open_checked_service(config(provider)) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "go")
        await trio.testing.wait_all_tasks_blocked()
        await service.request_stop(session_id)
        code = await converse(service, RunOptions(prompt=None), paper, receive, await known(service))

    assert 130 == code


async def test_settings_of_the_home(home: Path) -> None:
    """What the home says about old sessions is heeded, but not when an archived one is just being gone on with."""
    configure(home, "[retention]\ndelete_archived_after_days = 30\n")
    asked = sc.maintenance.Retention(delete_archived_after_days=30)

    async def retention(known: ContinuedSession | None) -> sc.maintenance.Retention:
        options = RunOptions(prompt="x", home=home, cwd="/")
        async with open_embedded(options, known) as embedded:
            return embedded.service.core.config.retention

    assert asked == await retention(None)
    assert asked == await retention(ContinuedSession(summary=summary("ses_a"), short="a"))
    assert sc.maintenance.Retention() == await retention(
        ContinuedSession(summary=summary("ses_a", archived=True), short="a")
    )


async def test_wrong_settings_are_named(home: Path) -> None:
    """A mistake in the settings is told before anything runs; a home that is not there yet has none."""
    asked = RunOptions(prompt="x", home=home, cwd="/", is_persistent=False)
    async with open_embedded(asked, None) as embedded:
        assert sc.maintenance.Retention() == embedded.service.core.config.retention
    configure(home, "[retention]\nfor_ever = 1\n")
    with pytest.raises(sc.InvalidInput, match="for_ever"):
        async with open_embedded(asked, None):
            pass


def test_the_last_used_of_a_directory() -> None:
    """Archived sessions, those of other agents and those of other directories are passed over."""
    sessions = [
        summary("ses_a", cwd="/srv/x", updated_at=1),
        summary("ses_b", cwd="/srv/x/", updated_at=2),
        summary("ses_c", cwd="/srv/x", updated_at=3, archived=True),
        summary("ses_d", cwd="/srv/x", updated_at=4, parent_id="ses_a"),
        summary("ses_e", cwd="/srv/y", updated_at=5),
    ]

    assert "ses_b" == last_used(sessions, "/srv/x").session_id
    assert "ses_b" == last_used(sessions, "/srv/x/deep/er").session_id, "also from folders inside"
    above = [*sessions, summary("ses_f", cwd="/srv", updated_at=6)]
    assert "ses_b" == last_used(above, "/srv/x").session_id, "its own come before those above it"
    assert "ses_f" == last_used(above, "/srv/z").session_id
    with pytest.raises(UsageError, match="there is no session in '/srv/z' or a folder above it"):
        last_used(sessions, "/srv/z")


@pytest.mark.parametrize(
    ("activity", "line"),
    [
        (sc.Activity(name="idle"), None),
        (sc.Activity(name="interrupted"), "✗ Its last turn was interrupted: the program that ran it ended."),
        (sc.Activity(name="stopped"), "■ Its last turn was stopped."),
        (sc.Activity(name="errored", message="no\x1b[31m way"), "✗ Its last turn failed: no way"),
    ],
)
def test_the_truth_about_the_last_turn(activity: sc.Activity, line: str | None) -> None:
    """Whoever goes on with a session is told if its last turn did not end well."""
    state = sc.SessionState(session_id=sc.SessionId("ses_a"), name="fix\nit", activity=activity, earlier=3_000)
    first, *rest = work_lines.format_continued_session(
        PLAIN, state, "7k2f", used_at=NOW - 5 * MINUTE, now=NOW
    ).splitlines()

    assert 'Continuing 7k2f "fix it": 3,000 messages, last used 5 min ago.' == first
    assert ([] if line is None else [line]) == rest
