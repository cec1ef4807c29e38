"""The panel in which questions are answered: what is on the screen, and which keys answer."""

from collections.abc import Awaitable, Callable

import anyio.lowlevel
import attrs
import pytest
from textual import events
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer
from frontends.commands.run.dialogs import Reply
from frontends.terminal.panels.panel import PanelLeft
from frontends.terminal.panels.plan import PlanPanel
from frontends.terminal.questions.panel import RequestPanel
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import PanelApp
from tests.frontends.terminal._requests import APPROVAL, COMMAND, HELPER, ME, NOW, dialog

Told = tuple[object, ...]
Test = Callable[[PanelApp, RequestPanel, Pilot[None]], Awaitable[None]]


class Clock:
    """A clock that goes when it is told to."""

    now = NOW

    def __call__(self) -> int:
        """Return the time."""
        return self.now


def with_panel(
    test: Test, *, patience_s: float = 0, size: tuple[int, int] = (80, 24), now_ms: Callable[[], int] = lambda: NOW
) -> None:
    """Run a test with a panel that counts keys at once, unless it says otherwise."""

    async def run() -> None:
        panel = RequestPanel(now_ms=now_ms)
        panel.settling.patience_s = patience_s
        kept = (RequestPanel.Answered, PanelLeft)
        app = PanelApp(PlanPanel(id="plan"), panel, keep=kept)
        async with app.run_test(size=size) as pilot:
            await test(app, panel, pilot)

    on_asyncio(run)


async def ask(pilot: Pilot[None], panel: RequestPanel, *requests: sc.Approval | sc.Dialog, focus: bool = True) -> None:
    """Show these, and go there."""
    approvals = tuple(each for each in requests if isinstance(each, sc.Approval))
    dialogs = tuple(each for each in requests if isinstance(each, sc.Dialog))
    panel.show(approvals, dialogs, ME, subagent_names={HELPER: "the tester"})
    await pilot.pause()
    if focus:
        panel.action_focus_request()
        await pilot.pause()


async def write(app: PanelApp, pilot: Pilot[None], text: str) -> None:
    """Type a text at once."""
    app.post_message(events.Paste(text))
    await pilot.pause()


def told(app: PanelApp) -> list[Told]:
    """Return what the panel has told, and forget it."""
    said: list[Told] = []
    for message in app.told:
        match message:
            case RequestPanel.Answered(answer=TypedApprovalAnswer() as answer):
                said.append((message.request.request_id, answer.decision, answer.message))
            case RequestPanel.Answered(answer=Reply() as answer):
                said.append((message.request.request_id, answer.value))
            case _:
                said.append(("put off",))
    app.told.clear()
    return said


def test_all_of_a_question_is_on_the_screen() -> None:
    """Who asks for what and why, what would happen, what each answer covers, how long there is and how many wait."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        asked = attrs.evolve(APPROVAL, session_id=HELPER)
        await ask(pilot, panel, COMMAND, asked, focus=False)

        shown = [line.strip(" ") for line in app.lines if line.strip(" ━─")]
        assert shown == [
            '? "the tester" asks. Allow write?                       1 of 2 · 4:32 min left',
            "change a.py (+1 -1)",
            "asked for because it changes a file",
            "│ --- a/a.py",
            "│ +++ b/a.py",
            "│ @@ -1 +1 @@",
            "│ -old",
            "│ +new",
            "y  yes, this once",
            "s  yes, and for this session: changes of a.py",
            "a  yes, and always when it is exactly this, in every session",
            "n  no",
            ">",
            "F8 to answer",
        ]
        assert isinstance(app.focused, Input)
        assert app.focused.id == "composer"

    with_panel(scene, size=(80, 30))


def test_letters_and_sentences_answer_with_enter() -> None:
    """A letter alone does nothing; with Enter it decides, and a sentence is a no with a reason."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        other = attrs.evolve(APPROVAL, request_id=sc.RequestId("req_2"), requested_at=NOW + 2, session_id=HELPER)
        await ask(pilot, panel, APPROVAL, COMMAND, other)
        await pilot.press("s")
        assert told(app) == []
        assert "Enter: yes, and for the rest of this session" in app.picture
        await pilot.press("enter")
        await write(app, pilot, "try it")
        await pilot.press("enter")
        assert told(app) == [
            ("req_write", "allow_session", ""),
            ("req_run", "deny", "try it"),
        ]
        await pilot.press("enter")
        assert told(app) == []
        await pilot.press("up", "up", "up", "enter")
        assert told(app) == [("req_2", "allow_session", ""), ("put off",)]
        assert not panel.display

    with_panel(scene)


def test_keys_after_enter_are_no_part_of_the_answer() -> None:
    """What is typed right behind Enter, before anything else has run, changes neither the text nor the decision."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, APPROVAL)
        for key in ("n", "o", " ", "w", "a", "y", "enter", "s", "o", "enter"):
            app.post_message(events.Key({" ": "space"}.get(key, key), "\r" if key == "enter" else key))
        await pilot.pause()
        assert told(app) == [("req_write", "deny", "no way"), ("put off",)]
        await ask(pilot, panel, COMMAND)
        for key in ("y", "enter", "n", "down", "enter"):
            app.post_message(events.Key(key, {"enter": "\r", "down": None}.get(key, key)))
        await pilot.pause()
        assert told(app) == [("req_run", "allow_once", ""), ("put off",)]

    with_panel(scene)


def test_what_may_have_been_meant_as_a_yes_is_asked_again() -> None:
    """An unclear answer is not sent: the panel says how to be clear, and what was typed can be changed."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, APPROVAL)
        await write(app, pilot, "ok do it")
        await pilot.press("enter")
        assert told(app) == []
        assert "not clear yet" in app.picture
        await pilot.press("ctrl+u", "y", "enter")
        assert told(app)[0] == ("req_write", "allow_once", "")

    with_panel(scene)


def test_keys_from_before_a_question_never_answer_it() -> None:
    """Whoever is typing when a question takes the place of another goes on typing into nothing."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, APPROVAL)
        await pilot.press("y", "enter", "down", "enter")
        assert told(app) == []
        await pilot.press("escape")
        assert told(app) == [("put off",)]

    with_panel(scene, patience_s=3_600)


def test_a_key_that_is_older_than_the_question_does_not_count() -> None:
    """A key that waited behind other work while the question was drawn is not an answer."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        late = events.Key("y", "y")
        await ask(pilot, panel, APPROVAL)
        app.post_message(late)
        await pilot.press("enter")
        assert told(app) == []

    with_panel(scene)


def test_a_question_behind_another_screen_is_not_answered() -> None:
    """What was asked while something else covered the screen can be answered only after it could be read."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, COMMAND)
        await app.push_screen(Screen())
        await ask(pilot, panel, APPROVAL, focus=False)
        panel._ticking.stop()
        await app.pop_screen()
        await pilot.press("y", "enter")
        assert told(app) == []
        panel._tick()
        await pilot.press("y", "enter")
        assert told(app)[0] == ("req_write", "allow_once", "")

    with_panel(scene)


def test_an_answered_question_is_not_asked_twice_unless_that_failed() -> None:
    """While the service is told, the next question is shown; what it was not told, or did not hear, is asked again."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, APPROVAL, COMMAND)
        await pilot.press("y", "enter")
        await ask(pilot, panel, APPROVAL, COMMAND)
        assert "Allow bash?" in app.picture
        await pilot.press("n", "enter")
        assert not panel.has_question
        panel.reopen(APPROVAL.request_id)
        await pilot.pause()
        assert "Allow write?" in app.picture
        assert "of 2" not in app.picture
        clock.now += 10_000
        panel._tick()
        await pilot.pause()
        assert "1 of 2" in app.picture

    clock = Clock()
    with_panel(scene, now_ms=clock)


def test_a_question_stays_until_it_is_settled() -> None:
    """An older question that comes later waits; one that is answered elsewhere makes room, and typing starts anew."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, COMMAND)
        await write(app, pilot, "rather no")
        await ask(pilot, panel, APPROVAL, COMMAND)
        assert "Allow bash?" in app.picture
        assert "2 of 2" in app.picture
        assert "> rather no" in app.picture
        await ask(pilot, panel, APPROVAL)
        assert "Allow write?" in app.picture
        assert "rather no" not in app.picture
        await ask(pilot, panel, COMMAND, APPROVAL)
        await pilot.press("tab")
        assert "Allow bash?" in app.picture
        panel.show((), (), ME, subagent_names={})
        await pilot.pause()
        assert told(app) == [("put off",)]

    with_panel(scene)


def test_a_long_text_scrolls_while_the_question_and_the_keys_stay() -> None:
    """Thousands of lines, made to look like our own, move neither the question nor the answers off a small screen."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        text = "\n".join(["> y  yes, this once", "\x1b[2J\x1b[H? Allow nothing?"] * 2_000)
        await ask(pilot, panel, attrs.evolve(APPROVAL, shown=text))
        for _ in range(2):
            assert [line.strip() for line in app.lines].count("y  yes, this once") == 1
            assert any(line.startswith(" ? Allow write?") for line in app.lines)
            assert any("of 4,000 lines" in line for line in app.lines)
            assert app.lines[-2].startswith(" Esc later · PgUp PgDn scroll")
            assert all(line.startswith(" │ ") for line in app.lines if "Allow nothing" in line)
            await pilot.press("pagedown", "pagedown")
        assert " 13 to 16 of 4,000 lines, 3,984 lines below " in app.picture

    with_panel(scene)


def test_choices_are_narrowed_down_and_chosen() -> None:
    """Typing filters the choices, arrows move among them, and Enter takes the marked one."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        choices = tuple(f"choice {n}" for n in range(30))
        await ask(pilot, panel, dialog("select", choices=choices), dialog("select", 2, choices=choices))
        await pilot.press("2", "down")
        assert "> choice 12" in app.picture
        assert "choice 13" not in app.picture
        await pilot.press("enter")
        assert told(app) == [("req_dialog_1", "choice 12")]
        await pilot.press("x", "enter")
        assert told(app) == []
        await pilot.press("ctrl+g")
        assert told(app) == [("req_dialog_2", None), ("put off",)]

    with_panel(scene)


def test_yes_or_no_and_a_text() -> None:
    """A confirmation is answered with y or n, an input with what stands in the line, begun with what is suggested."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, dialog("confirm"), dialog("input", 2, default="a.py"))
        await pilot.press("n", "enter", "c", "enter")
        assert told(app) == [("req_dialog_1", False), ("req_dialog_2", "a.pyc"), ("put off",)]

    with_panel(scene)


def test_pasted_text_is_one_harmless_line() -> None:
    """A paste with newlines and escapes does not answer by itself, and brings nothing that steers the terminal."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, dialog("input"))
        app.post_message(events.Paste("one\ntwo\x1b[31m\r\n"))
        await pilot.press("enter")
        assert told(app) == [("req_dialog_1", "one two"), ("put off",)]

    with_panel(scene)


def test_a_question_for_another_client_is_one_line() -> None:
    """What only somebody else may answer is told, cannot be answered here, and takes one row."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        theirs = dialog("confirm", to=sc.ClientId("client_web"))
        await ask(pilot, panel, theirs)
        panel.action_focus_request()
        assert not panel.has_focus_within
        assert panel.size.height == 1
        assert "notes asks another client: Which one?" in app.picture
        await ask(pilot, panel, theirs, dialog("confirm", 2, to=ME, title="And you?"))
        assert "notes asks: And you?" in app.picture

    with_panel(scene)


def test_a_click_marks_an_answer_and_a_second_one_gives_it() -> None:
    """With a mouse, too, an answer is marked before it is given."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        await ask(pilot, panel, APPROVAL, focus=False)
        await pilot.click("#request-choices", offset=(5, 4))
        assert told(app) == []
        assert "> n  no" in app.picture
        await pilot.click("#request-choices", offset=(5, 4))
        assert told(app)[0] == ("req_write", "deny", "")

    with_panel(scene)


@pytest.mark.parametrize("key", ["enter", "ctrl+g"])
def test_a_key_for_one_question_never_answers_another(key: str) -> None:
    """However soon after a key the question makes room for another, the other one is left alone."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        for turns in range(12):
            first = dialog("confirm", 2 * turns)
            second = dialog("select", 2 * turns + 1, choices=("delete everything", "keep"))
            await ask(pilot, panel, first, second)
            await pilot.press("y")
            app.post_message(events.Key(key, "\r" if key == "enter" else None))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            panel.show((), (second,), ME, subagent_names={})
            await pilot.pause()
            assert [each for each in told(app) if each[0] == second.request_id] == []

    with_panel(scene)


def test_other_panels_make_room() -> None:
    """While something is asked, an open plan is one line; on a tiny screen it is gone; afterwards it is back."""

    async def scene(app: PanelApp, panel: RequestPanel, pilot: Pilot[None]) -> None:
        plan = app.query_one(PlanPanel)
        plan.show(tuple(sc.PlanItem(text=f"step {n}") for n in range(5)))
        plan.action_toggle_plan()
        await ask(pilot, panel, APPROVAL)
        assert plan.size.height == 1
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        assert plan.size.height == 0
        assert "Allow write?" in app.picture
        await pilot.resize_terminal(80, 24)
        panel.show((), (), ME, subagent_names={})
        await pilot.pause()
        assert plan.size.height > 4

    with_panel(scene)
