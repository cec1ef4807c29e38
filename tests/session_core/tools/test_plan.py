"""The plan tool."""

from pathlib import Path
from typing import Any

import pytest

from session_core.tools.arguments import check_arguments
from session_core.tools.base import NoHost
from session_core.tools.plan import MAX_PLAN_ITEM_CHARS, MAX_PLAN_ITEMS, PlanTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PlanItem
from tests.session_core.tools._calls import context_in, refusal, run


class Host(NoHost):
    """Remembers the plan."""

    def __init__(self) -> None:
        self.plan: tuple[PlanItem, ...] | None = None

    def set_plan(self, plan: tuple[PlanItem, ...]) -> None:
        self.plan = plan


async def test_a_plan_replaces_the_last_one(tmp_path: Path) -> None:
    """The host gets all steps in their order, each on one line, pending unless it says otherwise."""
    host = Host()
    items = [{"text": "look\n around"}, {"text": "change it", "status": "in_progress"}, {"text": "x", "status": "done"}]

    output = await run(PlanTool(), context_in(tmp_path, host=host), items=items)

    assert host.plan == (
        PlanItem(text="look around", status="pending"),
        PlanItem(text="change it", status="in_progress"),
        PlanItem(text="x", status="done"),
    )
    assert "the plan has 3 steps: 1 pending, 1 in progress, 1 done" == output.text


async def test_an_empty_plan_clears_it(tmp_path: Path) -> None:
    """No steps are a plan too."""
    host = Host()
    await run(PlanTool(), context_in(tmp_path, host=host), items=[])
    assert () == host.plan


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "the argument 'items' is missing"),
        ({"items": "x"}, "the argument 'items' must be a non-empty list of objects"),
        ({"items": [1]}, "the argument 'items' must be a list of objects"),
        ({"items": [{"text": "x"}] * (MAX_PLAN_ITEMS + 1)}, "the argument 'items' has 51 entries; the maximum is 50"),
        ({"items": [{"text": "x"}, {"text": " "}]}, "the argument 'items[1].text' must be a short sentence"),
        ({"items": [{"text": 1}]}, "the argument 'items[0].text' must be a short sentence"),
        (
            {"items": [{"text": "x" * (MAX_PLAN_ITEM_CHARS + 1)}]},
            "the argument 'items[0].text' is longer than 200 characters",
        ),
        (
            {"items": [{"text": "\ud800"}]},
            "the argument 'items[0].text' contains an unpaired surrogate, which cannot be encoded",
        ),
        (
            {"items": [{"text": "x", "status": "completed"}]},
            "the argument 'items[0].status' must be one of pending, in_progress, done",
        ),
        ({"items": [{"text": "x", "note": ""}]}, "unknown field 'note' in 'items[0]'"),
        ({"plan": []}, "plan has no argument 'plan'; it takes items"),
    ],
)
async def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    """A wrong plan is refused as a whole, in a sentence that names the step, and the schema refuses it too."""
    host = Host()
    assert says == await refusal(PlanTool(), context_in(tmp_path, host=host), **arguments)
    assert host.plan is None
    if "short sentence" not in says and "unpaired surrogate" not in says:  # which a schema cannot see
        assert check_arguments(PlanTool.spec, JsonObject(arguments)) is not None
