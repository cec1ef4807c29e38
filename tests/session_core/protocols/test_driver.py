"""What a driver may answer: `checked_actions` lets through what keeps the contract and names what does not."""

from typing import Any

import pytest

from session_core.protocols.driver import (
    AskModel,
    Checkpoint,
    DriverFault,
    Finish,
    Remember,
    RunTools,
    Tell,
    checked_actions,
)
from session_core.vocabulary.frozen import JsonObject

TELL, REMEMBER = Tell(text="again"), Remember(memory=1)


@pytest.mark.parametrize(
    "last",
    [
        AskModel(),
        RunTools(),
        Checkpoint(kind="after_work"),
        Checkpoint(kind="before_completion"),
        Finish(),
        Finish(status="limit_reached", error="enough", output=JsonObject({"a": [1, None]})),
    ],
)
def test_what_keeps_the_contract(last: Any) -> None:
    """Any actions with one at the end that leads on are split into what is done at once and that one."""
    assert ((), last) == checked_actions((last,))
    assert ((TELL, REMEMBER), last) == checked_actions((TELL, REMEMBER, last))


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        (None, "how the turn goes on"),
        ((), "how the turn goes on"),
        ([AskModel()], "how the turn goes on"),
        (AskModel(), "how the turn goes on"),
        ((TELL,), "how the turn goes on"),
        ((AskModel(), TELL), "how the turn goes on"),
        ((AskModel, TELL), "how the turn goes on"),
        ((AskModel(), AskModel()), "two things at once"),
        ((Finish(), AskModel()), "two things at once"),
        ((None, AskModel()), "two things at once"),
        ((Tell(text=" \n"), AskModel()), "does not say what"),
        ((Tell(text=""), AskModel()), "does not say what"),
        ((Tell(text=b"bytes"), AskModel()), "does not say what"),  # type: ignore[arg-type]
        ((Checkpoint(kind="whenever"),), "checkpoint that there is not: 'whenever'"),  # type: ignore[arg-type]
        ((Finish(status="won"),), "end that there is not: 'won'"),  # type: ignore[arg-type]
        ((Finish(error=5),), "says nothing"),  # type: ignore[arg-type]
        ((Finish(error=" "),), "says nothing"),
        ((Finish(output={1, 2}),), "nobody could be sent"),  # type: ignore[arg-type]
        ((Finish(output="\ud800"),), "half a character"),
        ((Finish(output=float("nan")),), "NaN"),
    ],
)
def test_what_breaks_it(actions: object, why: str) -> None:
    """Everything else is a fault that says what is wrong."""
    with pytest.raises(DriverFault, match=why):
        checked_actions(actions)


def test_a_bottomless_result() -> None:
    """A result that is nested deeper than readers can go is a fault, found without falling into it."""
    deep: Any = ()
    for _ in range(5_000):
        deep = (deep,)
    with pytest.raises(DriverFault, match="nested too deeply"):
        checked_actions((Finish(output=deep),))
