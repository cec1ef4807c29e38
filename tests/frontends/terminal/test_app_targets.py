"""What is typed goes to the session it was typed in, however fast people look elsewhere."""

from pathlib import Path

import anyio
import pytest
from textual import events

import session_core as sc
from frontends.terminal import context, destination, feeds
from frontends.terminal.actions.stop_and_quit import StopAndQuit
from frontends.terminal.screens.picker import Confirmation
from session_core.testing.scripted import Pause, ScriptedTool, text, tool_call
from tests._mostly_slow import mostly_slow
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import set_text
from tests.frontends.terminal._harness import Terminal, attach_terminal, open_terminal
from tests.frontends.terminal._listening import listen
from tests.frontends.terminal.test_app import endless
from tests.frontends.terminal.test_app_sessions import begin


async def begin_two(terminal: Terminal) -> tuple[sc.SessionId, sc.SessionId]:
    """Begin two sessions, of which the second is viewed."""
    found: list[sc.SessionId] = []
    for words, answer in (("first", "alpha"), ("second", "beta")):
        await begin(terminal, words, answer)
        assert terminal.app.current.session_id is not None
        found.append(terminal.app.current.session_id)
    return found[0], found[1]


def burst(terminal: Terminal, *keys: str) -> None:
    """Press keys that all come at once."""
    for key in keys:
        typed = {"enter": "\r"}.get(key, key if len(key) == 1 else None)
        terminal.app.post_message(events.Key(key, typed))


def said_in(terminal: Terminal, session_id: sc.SessionId) -> list[str]:
    """What people have said in a session."""
    return [each.text for each in terminal.server.snapshot(session_id).transcript if each.role == "user"]


@pytest.mark.parametrize("words", mostly_slow(["@big.txt for the second", "for the second"], quick=1))
def test_a_message_goes_where_it_was_typed(tmp_path: Path, words: str) -> None:
    """A message goes to the session that was viewed when it was sent, also if a file had to be read for it first."""
    (tmp_path / "big.txt").write_text("x" * 200_000)

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta"), text("gamma")) as terminal:
            first, second = await begin_two(terminal)
            set_text(terminal.app.composer, words)
            burst(terminal, "enter", "alt+down")
            await terminal.until_shown("alpha")
            await terminal.until(lambda: len(said_in(terminal, second)) == 2, "the message")
            assert (said_in(terminal, first), said_in(terminal, second)) == (["first"], ["second", words])

    on_asyncio(scene)


def test_a_shell_line_runs_where_it_was_typed(tmp_path: Path) -> None:
    """A line for the shell runs in the session that was viewed when it was sent."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            _, second = await begin_two(terminal)
            listening = listen(terminal)
            set_text(terminal.app.composer, "!git reset --hard")
            burst(terminal, "enter", "alt+down")
            await terminal.until(lambda: listening.asked_of("execute_now"), "the line")
            assert listening.asked_of("execute_now") == [
                sc.commands.RunShellLine(session_id=second, line="git reset --hard")
            ]

    on_asyncio(scene)


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "name"), [("d", "remove_queue_item"), ("s", "take_queue")])
def test_keys_in_a_panel_mean_what_is_seen(tmp_path: Path, keys: str, name: str) -> None:
    """What is done with a message that waits is done in its session, also if another is viewed right after the key."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), endless("beta")) as terminal:
            _, second = await begin_two(terminal)
            await terminal.say("waits")
            await terminal.until_shown("1 message waits")
            listening = listen(terminal)
            await terminal.pilot.press("f7")
            burst(terminal, keys, "alt+2")
            await terminal.until_shown("alpha")
            await terminal.until(lambda: listening.asked_of(name), "the wish")
            assert listening.asked_of(name) == [second]

    on_asyncio(scene)


@pytest.mark.slow
def test_an_answer_goes_to_who_asked(tmp_path: Path) -> None:
    """A yes is given to the session whose question was on the screen, also if another is viewed right after it."""

    async def scene() -> None:
        tool = ScriptedTool("change", effects=("write",), run="changed it")
        answers = (text("alpha"), tool_call("change", {"path": "a"}), text("beta"))
        async with open_terminal(tmp_path, *answers, tools=(tool,)) as terminal:
            terminal.app.main.requests.settling.patience_s = 0
            await begin(terminal, "first", "alpha")
            await begin(terminal, "second", "asks you")
            second = terminal.app.current.session_id
            await terminal.until(lambda: terminal.app.main.requests.has_focus_within, "the question")
            listening = listen(terminal)
            await terminal.type("y")
            burst(terminal, "enter", "alt+2")
            await terminal.until_shown("alpha")
            await terminal.until(lambda: tool.calls, "the tool")
            assert listening.asked_of("answer_approval") == [second]

    on_asyncio(scene)


def test_two_messages_begin_one_session(tmp_path: Path) -> None:
    """What is said while a session is being made goes to that session, and is not taken along to another."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta"), text("gamma")) as terminal:
            await begin(terminal, "old", "alpha")
            old = terminal.app.current.session_id
            listening = listen(terminal)
            on = anyio.Event()
            create = listening.create_session

            async def slowly(**more: object) -> object:
                await on.wait()
                return await create(**more)

            listening.answers["create_session"] = slowly
            await terminal.pilot.press("alt+n")
            await terminal.until_shown("a new session in")
            await terminal.say("one")
            await terminal.say("two")
            await terminal.pilot.press("alt+1")
            on.set()
            await terminal.until(lambda: len(listening.asked_of("send_user_message")) == 2, "the messages")
            made = listening.asked_of("send_user_message")
            assert (made[0] == made[1], terminal.app.current.session_id) == (True, old)
            await terminal.until(lambda: said_in(terminal, made[0]) == ["one", "two"], "both")
            assert old is not None
            assert said_in(terminal, old) == ["old"]

    on_asyncio(scene)


@pytest.mark.slow
def test_what_is_refused_comes_back_where_it_was_typed(tmp_path: Path) -> None:
    """What could not be sent waits in the session it was typed for, and not in the one that is viewed by then."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await begin_two(terminal)
            listening = listen(terminal)
            on = anyio.Event()

            async def refuse(*_: object, **__: object) -> None:
                await on.wait()
                raise sc.InvalidInput("not today")

            listening.answers["send_user_message"] = refuse
            await terminal.say("for the second")
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            on.set()
            await terminal.until_shown("not today")
            assert terminal.app.composer.is_empty
            await terminal.pilot.press("alt+up")
            await terminal.until_shown("beta")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "for the second", "the words")

    on_asyncio(scene)


@pytest.mark.slow
def test_esc_twice_means_one_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Esc in one session and Esc in another are not twice in one: helpers are stopped by two in a row only."""

    async def scene() -> None:
        async with open_terminal(tmp_path, endless("alpha"), endless("beta")) as terminal:
            first, second = await begin_two(terminal)
            stops: list[tuple[sc.SessionId, sc.StopScope]] = []

            async def stop(_: StopAndQuit, session_id: sc.SessionId, scope: sc.StopScope) -> None:
                stops.append((session_id, scope))

            monkeypatch.setattr(StopAndQuit, "stop", stop)
            await terminal.pilot.press("escape", "alt+down")
            await terminal.until_shown("alpha")
            await terminal.pilot.press("escape", "alt+up")
            await terminal.until_shown("beta")
            await terminal.pilot.press("escape", "escape")
            await terminal.until(lambda: len(stops) == 4, "the stops")
            assert stops == [(second, "turn"), (first, "turn"), (second, "turn"), (second, "subtree")]

    on_asyncio(scene)


def test_esc_at_rest_is_not_the_first_of_two(tmp_path: Path) -> None:
    """Esc that had nothing to stop does not make the next one stop more."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            await begin(terminal, "first", "alpha")
            await terminal.until_shown("idle")
            listening = listen(terminal)
            await terminal.pilot.press("escape", "escape")
            await terminal.type("x")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "x", "the letter")
            assert listening.asked == []

    on_asyncio(scene)


@pytest.mark.slow
def test_a_forced_redo_stays_with_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says yes to taking an undo back means the session in which that was asked for."""
    monkeypatch.setattr(context, "PATIENCE_S", 0)

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            _, second = await begin_two(terminal)
            listening = listen(terminal)
            on = anyio.Event()

            async def conflict(_: sc.SessionId, *, force: bool) -> None:
                await on.wait()
                raise sc.NotFound("no undo") if force else sc.Conflict("gone on", field="force")

            listening.answers["take_back_undo"] = conflict
            await terminal.type("/redo", "escape", "enter")
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            on.set()
            await terminal.until(lambda: isinstance(terminal.app.screen, Confirmation), "the question")
            question = terminal.app.screen
            assert isinstance(question, Confirmation)
            await terminal.until(lambda: question.settling.is_drawn, "its picture")
            await terminal.pilot.press("y")
            await terminal.until(lambda: len(listening.asked_of("take_back_undo")) == 2, "the second try")
            assert listening.asked_of("take_back_undo") == [second, second]

    on_asyncio(scene)


@pytest.mark.slow
def test_words_of_an_undo_stay_with_their_session(tmp_path: Path) -> None:
    """What an undo takes out of a conversation waits there, with its files, when another session is viewed by then."""
    (tmp_path / "a.txt").write_text("content")

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await begin(terminal, "first", "alpha")
            await terminal.pilot.press("alt+n")
            set_text(terminal.app.composer, "private @a.txt")
            await terminal.pilot.press("enter")
            await terminal.until_shown("beta")
            await terminal.until_shown("idle")
            listening = listen(terminal)
            on = anyio.Event()
            restore = listening.restore_to_message

            async def slowly(*arguments: object, **more: object) -> object:
                await on.wait()
                return await restore(*arguments, **more)

            listening.answers["restore_to_message"] = slowly
            await terminal.type("/undo", "escape", "enter")
            await terminal.until_shown("Go back to before")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: listening.asked_of("restore_to_message"), "the undo")
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            on.set()
            await terminal.until_shown("undone")
            assert terminal.app.composer.is_empty
            await terminal.pilot.press("alt+up")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "private @a.txt", "the words")
            assert [each.name for each in terminal.app.composer.draft.attached] == ["a.txt"]

    on_asyncio(scene)


@pytest.mark.slow
def test_sending_now_loses_nothing(tmp_path: Path) -> None:
    """A message taken out of the queue to be read at once comes back if it cannot be sent."""

    async def scene() -> None:
        async with open_terminal(tmp_path, [*text("alpha")[:-1], Pause("on"), *text("")]) as terminal:
            await terminal.say("go")
            await terminal.until_shown("alpha")
            await terminal.say("precious words")
            await terminal.until_shown("1 message waits")

            async def fail(*_: object, **__: object) -> None:
                raise sc.Disconnected("the connection was lost")

            listen(terminal).answers["send_user_message"] = fail
            await terminal.pilot.press("f7", "s")
            await terminal.until_shown("the connection was lost")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "precious words", "the words")
            assert terminal.state().queue == ()

    on_asyncio(scene)


@pytest.mark.slow
def test_a_new_session_does_not_inherit_permissions(tmp_path: Path) -> None:
    """The next session has the folder and the model of the viewed one, and the permissions of the start."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta"), permissions="ask_all") as terminal:
            await begin(terminal, "first", "alpha")
            await terminal.type("/permissions full", "escape", "enter")
            await terminal.until(lambda: terminal.state().settings.permission_mode == "full", "the mode")
            await begin(terminal, "second", "beta")
            settings = terminal.state().settings
            assert (settings.permission_mode, settings.model, settings.cwd) == ("ask_all", "m", str(tmp_path))

    on_asyncio(scene)


@pytest.mark.slow
def test_what_is_typed_ahead_waits_for_the_list(tmp_path: Path) -> None:
    """A message typed before the list of sessions is there goes to the last used session of this directory."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as here:
            await begin(here, "old", "alpha")
            old = here.app.current.session_id
            assert old is not None
            async with attach_terminal(here.server, here.provider, slow=True) as there:
                await there.say("typed ahead")
                there.place.let_in.set()
                await there.until_shown("beta")
                assert (there.app.current.session_id, said_in(here, old)) == (old, ["old", "typed ahead"])

    on_asyncio(scene)


@pytest.mark.slow
def test_new_means_new_also_before_the_list(tmp_path: Path) -> None:
    """Who asks for a new session before the list of sessions is there gets one."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as here:
            await begin(here, "old", "alpha")
            old = here.app.current.session_id
            async with attach_terminal(here.server, here.provider, slow=True) as there:
                await there.pilot.press("alt+n")
                await there.say("another")
                there.place.let_in.set()
                await there.until_shown("beta")
                assert there.app.current.session_id != old
                await there.until_said("another", "beta")

    on_asyncio(scene)


@pytest.mark.slow
def test_what_is_typed_ahead_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was typed before the service was there comes back if it never is, or if the named session is not there."""

    async def never() -> None:
        async with open_terminal(tmp_path, slow=True) as terminal:
            await terminal.say("hello")
            await terminal.until_shown("not connected to the service yet")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "hello", "the input")
            terminal.place.let_in.set()

    async def unknown() -> None:
        async with open_terminal(tmp_path, session="nobody", prompt="from the shell") as terminal:
            await terminal.until_shown("there is no session 'nobody'")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "from the shell", "the prompt")
            assert terminal.app.feeds.session_list is not None
            assert not terminal.app.feeds.session_list.sessions

    with monkeypatch.context() as impatient:
        impatient.setattr(feeds, "PATIENCE_S", 0.2)
        impatient.setattr(destination, "PATIENCE_S", 0.2)
        on_asyncio(never)
    on_asyncio(unknown)
