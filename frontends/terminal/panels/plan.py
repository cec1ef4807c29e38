"""The agent's plan, step by step: one line, or all of it."""

from __future__ import annotations

from typing import Final

from rich.text import Text
from textual import events

import session_core as sc
from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.styles import Glyph, Look
from frontends.terminal.panels.panel import Panel, draw_title_rule, wrap_text

SHARE: Final = 0.25
"""The largest share of the screen for an open plan."""
_LEAST_ROWS: Final = 4
_STEP_ROWS: Final = 2
_GLYPHS: Final[dict[str, Glyph]] = {"done": "checked", "in_progress": "running", "pending": "unchecked"}
Plan = tuple[sc.PlanItem, ...]


def plan_line(plan: Plan, look: Look) -> Text:
    """Return one line with the progress and the next step."""
    done = sum(each.status == "done" for each in plan)
    line = Text.assemble(("plan ", look.strong), (f"{done}/{len(plan)}", look.accent))
    step_index = current_step(plan)
    said = "all done" if step_index is None else sanitise_line(plan[step_index].text)
    return line.append(f" {look.glyph('dot')} ", look.dim).append(said, look.dim if step_index is None else look.text)


def current_step(plan: Plan) -> int | None:
    """Return the number of the step in progress, or else of the next one; None when all are done."""
    working = next((n for n, each in enumerate(plan) if each.status == "in_progress"), None)
    return working if working is not None else next((n for n, each in enumerate(plan) if each.status != "done"), None)


def step_rows(step: sc.PlanItem, width: int, look: Look) -> list[Text]:
    """Draw one step."""
    style = {"done": look.dim, "in_progress": look.strong, "pending": look.text}[step.status]
    mark = Text(f"{look.glyph(_GLYPHS[step.status])} ", look.accent if step.status == "in_progress" else look.dim)
    rows = wrap_text(Text(sanitise_line(step.text), style), max(1, width - mark.cell_len), most=_STEP_ROWS)
    return [mark.append_text(rows[0]), *(Text(" " * mark.cell_len).append_text(row) for row in rows[1:])]


class PlanPanel(Panel):
    """Shows the plan; a key of the app, or a click, opens and closes it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan = ()
        self._collapsed = True  # to one line
        self._moved = 0  # scroll offset from the current step

    def show(self, plan: Plan) -> None:
        """Show this plan, if there is one."""
        if plan is self._plan or plan == self._plan:
            return
        self._plan = plan
        self._moved = 0
        self.show_or_hide(wanted=bool(plan))

    def action_toggle_plan(self) -> None:
        """Toggle between the whole plan and its current step."""
        self._collapsed = not self._collapsed
        self._moved = 0
        self.redraw()

    def draw(self, width: int) -> list[Text]:
        """Draw one line, or the steps around the current one as far as there is room."""
        if not self._plan:
            return []
        if self._collapsed or self.cramped:
            return [draw_title_rule(plan_line(self._plan, self.look), width, self.look)]
        most = max(_LEAST_ROWS, int(self.app.size.height * SHARE))
        rows = [(n, row) for n, step in enumerate(self._plan) for row in step_rows(step, width - 2, self.look)]
        step_index = current_step(self._plan)
        first = next((place for place, (n, _) in enumerate(rows) if n == step_index), len(rows))
        begin = max(0, min(first - most // 3 + self._moved, len(rows) - most))
        visible_rows = rows[begin : begin + most]
        head = self._headline(begin, len(rows) - begin - len(visible_rows))
        return [draw_title_rule(head, width, self.look), *(Text("  ").append_text(row) for _, row in visible_rows)]

    def _headline(self, above: int, below: int) -> Text:
        look = self.look
        done = sum(each.status == "done" for each in self._plan)
        line = Text.assemble(("plan ", look.strong), (f"{done}/{len(self._plan)}", look.accent))
        hidden = [f"{format_count(above, 'row')} above"] if above else []
        hidden += [f"{format_count(below, 'row')} below"] if below else []
        return line.append(f" {look.glyph('dot')} {', '.join(hidden)}", look.dim) if hidden else line

    def on_click(self) -> None:
        """Open or close the plan."""
        self.action_toggle_plan()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll to earlier steps."""
        self._move(-1)
        event.stop()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll to later steps."""
        self._move(1)
        event.stop()

    def _move(self, step: int) -> None:
        most = len(self._plan) * _STEP_ROWS
        self._moved = max(-most, min(most, self._moved + step))
        self.redraw()
