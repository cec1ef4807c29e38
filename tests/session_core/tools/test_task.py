"""The task tool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from session_core.tools.base import NoHost, TaskRequest, ToolOutput
from session_core.tools.task import TaskTool
from tests.session_core.tools._calls import context_in, refusal, run


class Host(NoHost):
    """Remembers the task and answers at once."""

    def __init__(self) -> None:
        self.tasks: list[TaskRequest] = []

    async def run_task(self, task: TaskRequest, report: Callable[[str], None]) -> ToolOutput:
        self.tasks.append(task)
        report("half way")
        return ToolOutput(text="found it")


async def test_a_task_goes_to_the_host(tmp_path: Path) -> None:
    """The host gets the request as it was meant, and its answer is ours."""
    host, heard = Host(), list[str]()
    context = context_in(tmp_path, host=host, report=heard.append)

    output = await run(TaskTool(), context, title=" a\ntitle ", prompt="look\nhere", read_only=True, model="m")
    await run(TaskTool(), context, title="b", prompt="p")

    assert ToolOutput(text="found it") == output
    assert ["half way", "half way"] == heard
    assert [
        TaskRequest(title="a title", prompt="look\nhere", read_only=True, model="m"),
        TaskRequest(title="b", prompt="p", read_only=False, model=None),
    ] == host.tasks


async def test_without_a_host_there_are_no_tasks(tmp_path: Path) -> None:
    """Outside a turn the model is told that it cannot have helpers."""
    assert "child sessions are not available here" == await refusal(
        TaskTool(), context_in(tmp_path), title="t", prompt="p"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"prompt": "p"}, "the argument 'title' is missing"),
        ({"title": "t"}, "the argument 'prompt' is missing"),
        ({"title": "t", "prompt": " \n"}, "the argument 'prompt' must not be empty"),
        ({"title": " ", "prompt": "p"}, "the argument 'title' must not be empty"),
        ({"title": "t" * 201, "prompt": "p"}, "the argument 'title' is longer than 200 characters"),
        ({"title": "t", "prompt": "p", "model": ""}, "the argument 'model' must not be empty"),
        ({"title": "t", "prompt": "p", "read_only": "yes"}, "the argument 'read_only' must be true or false"),
        ({"title": "t", "prompt": "p", "x": 1}, "task has no argument 'x'; it takes title, prompt, read_only, model"),
    ],
)
async def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    """What is wrong is named, and nothing is started."""
    host = Host()
    assert says == await refusal(TaskTool(), context_in(tmp_path, host=host), **arguments)
    assert [] == host.tasks
