"""The plan: one line that tells how far it is, or the steps around the current one."""

import session_core as sc
from frontends.terminal.panels.plan import PlanPanel, current_step, plan_line, step_rows
from session_core.vocabulary.sessions import PlanStatus
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import ASCII, PLAIN, PanelApp


def plan(*statuses: PlanStatus) -> tuple[sc.PlanItem, ...]:
    """A plan with steps of these kinds."""
    return tuple(sc.PlanItem(text=f"step\n{number}\x1b[1m", status=status) for number, status in enumerate(statuses, 1))


def test_one_line_tells_how_far_it_is() -> None:
    """Closed, the plan is how many are done and the step that is worked on, or else the next one."""
    assert plan_line(plan("done", "in_progress", "pending"), PLAIN).plain == "plan 1/3 · step 2"
    assert plan_line(plan("done", "pending", "pending"), ASCII).plain == "plan 1/3 - step 2"
    assert plan_line(plan("done", "done"), PLAIN).plain == "plan 2/2 · all done"
    assert current_step(plan("pending", "in_progress")) == 1


def test_steps_are_told_apart_without_colours() -> None:
    """Each state has a sign of its own; a long step goes on in a second row, and no further."""
    steps = plan("done", "in_progress", "pending")

    assert [step_rows(each, 40, PLAIN)[0].plain for each in steps] == ["☑ step 1", "● step 2", "☐ step 3"]
    assert [step_rows(each, 40, ASCII)[0].plain for each in steps] == ["[x] step 1", "* step 2", "[ ] step 3"]
    assert len(step_rows(sc.PlanItem(text="word " * 100), 40, PLAIN)) == 2


def test_it_opens_and_closes_and_keeps_the_current_step_in_sight() -> None:
    """A click opens a plan of a hundred steps around the current one; there is none without steps."""

    async def scene() -> None:
        panel = PlanPanel()
        app = PanelApp(panel)
        async with app.run_test(size=(60, 24)) as pilot:
            assert not panel.display
            steps = (*plan("done") * 50, sc.PlanItem(text="step 51", status="in_progress"), *plan("pending") * 49)
            panel.show(steps)
            await pilot.pause()
            assert panel.size.height == 1
            await pilot.click(PlanPanel)
            await pilot.pause()
            assert "● step 51" in app.picture
            assert "plan 50/100 · 48 rows above, 46 rows below" in app.picture
            assert panel.size.height == 7
            panel.action_toggle_plan()
            await pilot.pause()
            assert "─ plan 50/100 · step 51 ─" in app.picture
            panel.show(())
            assert not panel.display

    on_asyncio(scene)
