"""What a driver may answer: `check_actions` lets through what keeps the contract and names what does not."""

from typing import Any

import pytest

from session_core import limits
from session_core.protocols.driver import (
    AskModel,
    Checkpoint,
    DriverFault,
    ExecuteCode,
    Finish,
    Remember,
    RunTools,
    SwitchFrame,
    Tell,
    check_actions,
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
    assert ((), last) == check_actions((last,))
    assert ((TELL, REMEMBER), last) == check_actions((TELL, REMEMBER, last))


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        (None, "how the turn continues: it returned None; it must be a tuple of actions"),
        ((), "how the turn continues: it returned an empty tuple"),
        ([AskModel()], "how the turn continues: it returned a list"),
        (AskModel(), "how the turn continues: it returned AskModel by itself; write it as a tuple"),
        ((TELL,), "how the turn continues: it returned a tuple that ends with Tell"),
        ((AskModel,), "how the turn continues: it returned a tuple that ends with the class AskModel"),
        ((Remember(memory={1}), AskModel()), "a Remember that is not JSON: memory"),  # type: ignore[arg-type]
        ((Remember(memory=JsonObject({"a": float("nan")})), AskModel()), "a Remember that is not JSON: memory.a: "),
        ((AskModel(), TELL), "how the turn continues"),
        ((AskModel, TELL), "how the turn continues"),
        ((AskModel(), AskModel()), "two things at once: before the last action .* not AskModel"),
        ((Finish(), AskModel()), "two things at once"),
        ((None, AskModel()), "two things at once"),
        ((Tell(text=" \n"), AskModel()), "a Tell without text"),
        ((Tell(text=""), AskModel()), "a Tell without text"),
        ((Tell(text=b"bytes"), AskModel()), "a Tell without text"),  # type: ignore[arg-type]
        ((Checkpoint(kind="whenever"),), "unknown kind of checkpoint: 'whenever'"),  # type: ignore[arg-type]
        ((Finish(status="won"),), "unknown status of a turn: 'won'"),  # type: ignore[arg-type]
        ((Finish(error=5),), "gave an empty error"),  # type: ignore[arg-type]
        ((Finish(error=" "),), "gave an empty error"),
        ((Finish(output={1, 2}),), "a result that cannot be sent"),  # type: ignore[arg-type]
        ((Finish(output="\ud800"),), "unpaired surrogate"),
        ((Finish(output=float("nan")),), "NaN"),
        ((Finish(output="x" * limits.MAX_OUTPUT_BYTES),), "a result of 4,194,306 bytes"),
        ((ExecuteCode(language="python", code="x" * 1_000_001),), "code of more than 1,000,000 characters"),
        ((*[TELL] * limits.MAX_DRIVER_ACTIONS, AskModel()), "returned 33 actions; the limit is 32"),
        ((SwitchFrame(key="", task="t"),), "without naming its key or task"),
        ((SwitchFrame(key="k", task="t", reason=5),), "without a short reason"),  # type: ignore[arg-type]
        ((SwitchFrame(key="k", task="t", reason="\ud800"),), "without a short reason"),
        ((SwitchFrame(key="k", task="t", reason="r" * 201),), "without a short reason"),
    ],
)
def test_what_breaks_it(actions: object, why: str) -> None:
    """Everything else is a fault that says what is wrong."""
    with pytest.raises(DriverFault, match=why):
        check_actions(actions)


def test_a_driver_that_is_async() -> None:
    """A coroutine instead of actions is told as that, and is not left waiting."""

    async def on_start() -> Any:
        return (AskModel(),)

    with pytest.raises(DriverFault, match="a coroutine; the callbacks of a driver are plain functions"):
        check_actions(on_start())


def test_a_result_that_could_change() -> None:
    """A result that is given as plain dicts and lists is taken as what it is now."""
    given: Any = {"a": [1]}
    ((), finish) = check_actions((Finish(output=given),))
    given["a"].append(2)
    assert Finish(output=JsonObject({"a": (1,)})) == finish


def test_a_bottomless_result() -> None:
    """A result that is nested deeper than readers can go is a fault, found without falling into it."""
    deep: Any = ()
    for _ in range(5_000):
        deep = (deep,)
    with pytest.raises(DriverFault, match="nested too deeply"):
        check_actions((Finish(output=deep),))
