"""What plugins give back: whatever could not be read again, or be restored, is named before it is recorded."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.protocols.api import ProtocolBundle
from session_core.protocols.code.protocol import CellProjector
from session_core.protocols.execution import CellResult, StateCapture, compute_digest
from session_core.protocols.result_checks import (
    find_bundle_problem,
    find_capture_problem,
    find_result_problem,
    find_text_problem,
    is_large,
)
from session_core.testing.scripted import ScriptedTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.protocols import ExecutorState, StateLeaf
from tests.session_core.service._protocols import CellDriver, ToyExecutor

BODY = b"x" * 600
LEAF = StateLeaf(name="a", digest=compute_digest(BODY), size=len(BODY))
PICTURE = ImagePart(media_type="image/png", data="AAAA")


def state(root: Any = None, *leaves: Any, engine: Any = "toy", version: Any = 1) -> ExecutorState:
    """Make a state."""
    return ExecutorState(engine=engine, version=version, root=JsonObject() if root is None else root, leaves=leaves)


GOOD_RESULTS = (
    CellResult(),
    CellResult(output="a", error="b", images=(PICTURE,), finished=True, value=JsonObject({"a": (1,)}), tool_calls=2),
)
BAD_RESULTS: Mapping[str, object] = {
    "no CellResult": "text",
    "other types": CellResult(output=5),  # type: ignore[arg-type]
    "other types ": CellResult(error=b"x"),  # type: ignore[arg-type]
    "other types  ": CellResult(images=(5,)),  # type: ignore[arg-type]
    "other types   ": CellResult(value=object()),  # type: ignore[arg-type]
    "not JSON: NaN": CellResult(value=float("nan")),
    "unpaired surrogate": CellResult(value=("\ud800",)),
    "not base64": CellResult(images=(ImagePart(media_type="image/png", data="!!"),)),
    "images of more than": CellResult(images=(ImagePart(media_type="image/png", data="A" * 8_000_000),)),
}


BUNDLE = ProtocolBundle(
    driver=CellDriver(), executor=ToyExecutor(), prose=CellProjector(), tools=(ScriptedTool("a"), ScriptedTool("b"))
)


class Nameless(ToyExecutor):
    """An executor that does not say what it runs."""

    language: Any = None


class Sure(ToyExecutor):
    """An executor whose flag is a method."""

    def dirty(self) -> bool:  # type: ignore[override]
        return True


class Hasty(ToyExecutor):
    """An executor that does not wait."""

    def probe(self) -> Any:
        return None


class Dead(ScriptedTool):
    """A tool that cannot be run."""

    run: Any = None


class Vague(ScriptedTool):
    """A tool that does not say what it does."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.effects: Any = None


BAD_BUNDLES: Mapping[str, dict[str, Any]] = {
    "no bundle with a driver: None has no on_start, on_answer": {"driver": None},
    "dirty must be True or False, not a method; make it a property": {"executor": Sure()},
    "its executor's probe is a plain function and must be async: write `async def probe`": {"executor": Hasty()},
    "its prose must be a projector, not the class CellProjector: write CellProjector()": {"prose": CellProjector},
    "its tool 'a' cannot be run": {"tools": (Dead("a"),)},
    "its tool 'a' has no effects": {"tools": (Vague("a"),)},
    "its native_tools must be True or False, not a str": {"native_tools": "yes"},
    "not a ProtocolSession": {"session": None},
    "not a CodeExecutor": {"executor": 7},
    "its executor's language must be a short string, not None": {"executor": Nameless()},
    "an int has no method open": {"prose": 7},
    "its tools must be a tuple of tools, not an int": {"tools": 7},
    "its tools must have a spec that is a ToolSpec, but an int has none": {"tools": (7,)},
    "two of its tools are called 'a'": {"tools": (ScriptedTool("a"), ScriptedTool("b"), ScriptedTool("a"))},
}


@pytest.mark.parametrize(("problem", "change"), BAD_BUNDLES.items())
def test_what_is_built(problem: str, change: dict[str, Any]) -> None:
    """A bundle that no turn could use is refused before there is a session."""
    assert find_bundle_problem(BUNDLE) is None
    assert problem.strip() in (find_bundle_problem(attrs.evolve(BUNDLE, **change)) or "")


def test_texts_for_models() -> None:
    """What a model is told is a text of a sensible length that can be sent."""
    assert find_text_problem("yes") is None
    for text, problem in (
        (7, "not text"),
        ("x" * 1_000_001, "1,000,001 characters"),
        ("\ud800", "unpaired surrogate"),
    ):
        assert problem in (find_text_problem(text) or "")


def test_results_of_cells() -> None:
    """A result that can be shown and recorded has no problem."""
    assert [None] * len(GOOD_RESULTS) == [find_result_problem(each) for each in GOOD_RESULTS]


@pytest.mark.parametrize(("problem", "result"), BAD_RESULTS.items())
def test_results_that_are_none(problem: str, result: object) -> None:
    """A result that cannot be is refused, and the reason says why."""
    assert problem.strip() in (find_result_problem(result) or "")


GOOD_CAPTURES = (
    StateCapture(state=state()),
    StateCapture(state=state(JsonObject({"a": 1}), LEAF), new={LEAF.digest: BODY}),
    StateCapture(state=state(None, LEAF, StateLeaf(name="b", digest=LEAF.digest, size=600)), new={LEAF.digest: BODY}),
    StateCapture(state=state(None, StateLeaf(name="old", digest="there", size=5))),
)
BAD_CAPTURES: Mapping[str, object] = {
    "no StateCapture": {},
    "no StateCapture ": StateCapture(state=state(), new=7),  # type: ignore[arg-type]
    "other types": StateCapture(state=state(engine=5)),
    "other types ": StateCapture(state=state(version="1")),
    "other types  ": StateCapture(state=state(None, 5)),
    "other types   ": StateCapture(state=state({"a": 1})),
    "another engine: 'other'": StateCapture(state=state(engine="other")),
    "not JSON": StateCapture(state=state(JsonObject({"a": "\ud800"}))),
    "the root of its state has": StateCapture(state=state(JsonObject({"a": "x" * limits.MAX_EXECUTOR_ROOT_BYTES}))),
    "not bytes": StateCapture(state=state(None, LEAF), new={LEAF.digest: "text"}),  # type: ignore[dict-item]
    "no names of their own": StateCapture(state=state(None, LEAF, LEAF), new={LEAF.digest: BODY}),
    "does not name": StateCapture(state=state(), new={LEAF.digest: BODY}),
    "neither there nor given: 'a'": StateCapture(state=state(None, LEAF)),
    "not what its digest says: 'a'": StateCapture(state=state(None, LEAF), new={LEAF.digest: b"y" * 600}),
    "not what its digest says": StateCapture(
        state=state(None, StateLeaf(name="a", digest=LEAF.digest, size=1)), new={LEAF.digest: BODY}
    ),
    "more than 33,554,432 bytes": StateCapture(
        state=state(None, StateLeaf(name="a", digest="there", size=limits.MAX_CELL_STATE_BYTES + 1))
    ),
    "more than 131,072 characters together": StateCapture(
        state=state(None, StateLeaf(name="x" * 131_073, digest="there", size=1))
    ),
    "more than 4,096 leaves": StateCapture(
        state=state(None, *(StateLeaf(name=str(n), digest="there", size=1) for n in range(5_000)))
    ),
}


def test_states_that_can_be_kept() -> None:
    """A state whose leaves are given, or are there already, has no problem."""
    assert [None] * len(GOOD_CAPTURES) == [find_capture_problem(each, "toy", {"there"}) for each in GOOD_CAPTURES]


@pytest.mark.parametrize(("problem", "capture"), BAD_CAPTURES.items())
def test_states_that_cannot_be_kept(problem: str, capture: object) -> None:
    """A state that could not be read, or not be restored, is refused, and the reason says why."""
    assert problem.strip() in (find_capture_problem(capture, "toy", {"there"}) or "")


def test_states_that_take_long_to_look_at() -> None:
    """Only what is large is looked at elsewhere; what is no state is not."""
    assert not any(is_large(each) for each in (*GOOD_CAPTURES, *BAD_CAPTURES.values()))
    assert is_large(StateCapture(state=state(), new={"a": bytes(300_000)}))
