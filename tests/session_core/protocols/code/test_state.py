"""What cells leave behind: written down after each cell, kept in two steps, and brought back whole or not at all."""

import pickle
import platform
from base64 import b64encode
from pathlib import Path
from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.protocols.code.confinement import cell_filter
from session_core.protocols.code.executor import PythonExecutor
from session_core.protocols.code.saved_state import SavedVariables, from_state
from session_core.protocols.execution import KeptState, compute_digest
from session_core.protocols.faults import StateRejected
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ExecutorState, StateLeaf
from session_core.wire.codec import encode
from tests._needs import needs_sandbox
from tests.session_core.protocols.code._executor import kept, open_session

EVERYTHING = """
import collections, json as j
from math import sqrt
numbers = {'a': [1, 2.5], 'b': (None, {3})}
text = 'x' * 2_000
def twice(x, *, by=2): return x * by
class Base:
    def hello(self): return 'hello ' + self.name
class Child(Base):
    limit = 3
    def __init__(self, name): self.name = name
child = Child('ada')
square = lambda x: x * x
_private = 1
def _helper(): return 'helped'
if True:
    def nested(): return _helper() + chr(33)
import functools
@functools.lru_cache
def cached(n): return n if n < 2 else cached(n - 1) + cached(n - 2)
alias = twice
counted = collections.Counter('abca')
"""
ASKED = (
    "print(numbers, len(text), twice(4), child.hello(), Child.limit, square(3), nested(), cached(20), alias(1, by=5),"
    " counted['a'], sqrt(16), j.dumps([1]), isinstance(child, Base))"
)
ANSWERED = "{'a': [1, 2.5], 'b': (None, {3})} 2000 8 hello ada 3 9 helped! 6765 5 2 4.0 [1] True"


@needs_sandbox
async def test_another_executor_goes_on_from_what_was_kept(tmp_path: Path) -> None:
    """Values, functions, classes, lambdas and imports are there in another process, and are kept again unchanged."""
    async with open_session(tmp_path) as session:
        assert not session.dirty()
        assert "" == await session.show(EVERYTHING)
        assert ANSWERED == await session.show(ASKED)
        assert session.dirty()
        first = await session.keep()
        assert not session.dirty()
    async with open_session(tmp_path) as session:
        await session.executor.restore(kept(first))
        assert not session.dirty()
        assert ANSWERED == await session.show(ASKED)
        assert not session.dirty()
        assert "name '_private' is not defined" in ((await session.run("_private")).error or "")
        assert "KeyError" in ((await session.run("def broken(): raise KeyError\nbroken()")).error or "")
        await session.show("def twice(x): return 'new'\nnumbers['a'] = 0\ndel alias")
        second = await session.keep()
        await session.executor.restore(kept(second, first))
        assert "new {'a': 0, 'b': (None, {3})}" == await session.show("print(twice(1), numbers)")
        await session.executor.restore(None)
        assert "numbers" in ((await session.run("numbers")).error or "")


async def test_what_cannot_be_kept_is_named_once(tmp_path: Path) -> None:
    """What has no written form is named with the reason when it appears, and as gone in another process."""
    async with open_session(tmp_path) as session:
        output = await session.show("f = open('/dev/null')\ng = (n for n in [])\nexec('def made(): pass')\nm = [made]")
        assert (
            "[Not kept once this Python process ends: f (a TextIOWrapper cannot be written down); g (a generator "
            "cannot be written down); made (it needs made, whose definition is not kept); m (it needs made, whose "
            "definition is not kept).]"
        ) == output
        assert "" == await session.show("x = 1\nf2 = 1")
        large = await session.show(f"big = bytes({limits.MAX_CELL_VARIABLE_BYTES + 1})")
        assert f"big (it is larger than {limits.MAX_CELL_VARIABLE_BYTES:,} bytes)" in large
        capture = await session.keep()
    async with open_session(tmp_path) as session:
        await session.executor.restore(kept(capture))
        assert (
            "1\n[The Python process was restarted.]\n[Gone, as they cannot be kept: f, g, made, m, big.]"
        ) == await session.show("x")
        assert "1" == await session.show("x")


async def test_bounds_of_the_state(tmp_path: Path) -> None:
    """Variables beyond the number and the size of all together are not kept, the largest first, and are named."""
    async with open_session(tmp_path) as session:
        many = await session.show(f"for n in range({limits.MAX_CELL_VARIABLES}): globals()[f'v{{n}}'] = n")
        assert f"(there are more than {limits.MAX_CELL_VARIABLES} variables)" in many
        await session.executor.restore(None)
        size = limits.MAX_CELL_VARIABLE_BYTES - 100
        full = await session.show(f"for n in 'abcd': globals()[n] = bytes({size})\nlast = bytes({size} - 1)")
        assert "last (all variables together are too large)" not in full
        assert "(all variables together are too large)" in full
        capture = await session.keep()
        assert sum(leaf.size for leaf in capture.state.leaves) <= limits.MAX_CELL_STATE_BYTES
        assert 4 == len(capture.state.leaves)


async def test_one_changed_leaf_is_all_that_is_written(tmp_path: Path) -> None:
    """Of 1 MiB in 300 variables, a changed one of 1 KiB is the only new leaf, and the whole capture is under 64 KiB."""
    async with open_session(tmp_path) as session:
        await session.show(
            "import random\nrng = random.Random(1)\nfor n in range(299): globals()[f'v{n}'] = rng.randbytes(3_500)\n"
            "small = rng.randbytes(1_024)\ndel rng, n"
        )
        first = await session.keep()
        assert 300 == len(first.new)
        assert 1024 * 1024 < sum(map(len, first.new.values()))
        await session.show("small = small[::-1]")
        second = await session.keep()
        assert ["value:small"] == [leaf.name for leaf in second.state.leaves if leaf.digest in second.new]
        assert 1_024 < sum(map(len, second.new.values())) < 1_100
        assert sum(map(len, second.new.values())) + len(encode(second.state)) < 64 * 1024


async def test_aborted_capture_is_offered_again(tmp_path: Path) -> None:
    """What the store has not taken is dirty still and offered again; what it has is not offered twice."""
    async with open_session(tmp_path) as session:
        executor = session.executor
        await session.show("big = 'y' * 5_000\nsmall = 1")
        await executor.probe()
        first = await executor.capture()
        assert 1 == len(first.new)
        executor.abort(first)
        assert session.dirty()
        second = await executor.capture()
        assert first == second
        executor.acknowledge(first)  # which is not on offer any more
        assert session.dirty()
        executor.acknowledge(second)
        assert not session.dirty()
        await session.show("small = 2")
        third = await executor.capture()
        assert {} == third.new
        executor.acknowledge(third)
        await session.show("del big, small")
        fourth = await session.keep()
        assert () == fourth.state.leaves
        assert JsonObject({"order": (), "parts": {}, "lost": ()}) == fourth.state.root


@needs_sandbox
async def test_failed_cell_keeps_what_it_did(tmp_path: Path) -> None:
    """What a cell had done before it failed is kept, and a definition that it never reached changes nothing."""
    async with open_session(tmp_path) as session:
        await session.show("def f(): return 'old'\nclass C:\n    def m(self): return 'old'")
        await session.run("x = 1\n1 / 0\ndef f(): return 'new'\nclass C:\n    def m(self): return 'new'")
        capture = await session.keep()
        await session.executor.restore(kept(capture))
        assert "1 old old" == await session.show("print(x, f(), C().m())")


@needs_sandbox
async def test_what_cannot_be_brought_back_is_told_and_left_out(tmp_path: Path) -> None:
    """A part that fails, hangs or kills its process on the way back is named and dropped, and the rest is there."""
    async with open_session(tmp_path) as session:
        await session.show(
            "import os\ngood = 1\n"
            "class Fails:\n    def __reduce__(self): return (int, ('no number',))\n"
            "class Kills:\n    def __reduce__(self): return (os._exit, (3,))\n"
            "fails, kills = Fails(), Kills()\n_base = dict\nclass Orphan(_base): pass"
        )
        capture = await session.keep()
        await session.executor.restore(kept(capture))
        output = await session.show("good")
        assert output.startswith("1\n[The Python process was restarted.]\n[Gone, as they could not be brought back: ")
        assert "kills (the process did not survive it: it exited with status 3)" in output
        assert "fails (ValueError: invalid literal for int() with base 10: 'no number')" in output
        assert "Orphan (NameError: name '_base' is not defined)" in output
        assert session.dirty()
        names = from_state(kept(await session.keep(), capture)).parts
        assert ["module:os", "value:good", "source:Fails", "source:Kills"] == list(names)


# --- what is restored -------------------------------------------------------------------------------------------------

LONG = pickle.dumps(b"z" * 600)
SMALL = b64encode(pickle.dumps(1)).decode()
GOOD = KeptState(
    state=ExecutorState(
        engine="python",
        version=1,
        root=JsonObject({"order": ("value:x", "value:y"), "parts": {"value:x": SMALL}, "lost": ()}),
        leaves=(StateLeaf(name="value:y", digest=compute_digest(LONG), size=len(LONG)),),
    ),
    leaves={"value:y": LONG},
)


def with_state(**changes: Any) -> KeptState:
    return attrs.evolve(GOOD, state=attrs.evolve(GOOD.state, **changes))


def with_root(**changes: Any) -> KeptState:
    return with_state(root=JsonObject({**GOOD.state.root, **changes}))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (with_state(engine="lua"), "the engine 'lua'"),
        (with_state(version=2), "of version 2, and only versions up to 1"),
        (with_state(version=0), "of version 0, which is no longer supported"),
        (attrs.evolve(GOOD, leaves={}), "is missing: value:y"),
        (attrs.evolve(GOOD, leaves={"value:y": LONG, "value:z": LONG}), "does not name: value:z"),
        (attrs.evolve(GOOD, leaves={"value:y": LONG + b"."}), "differs from what was stored: value:y"),
        (with_state(leaves=GOOD.state.leaves * 2), "occurs twice: value:y"),
        (with_root(parts={"value:x": "?"}), "cannot be decoded: value:x"),
        (with_root(parts={}), "does not name its parts as they are: value:x"),
        (with_root(order=("value:x",)), "does not name its parts as they are: value:y"),
        (with_root(order=("value:x", "value:y", "value:x")), "does not name its parts as they are"),
        (with_root(order=("value:y", "eval:x"), parts={"eval:x": SMALL}), "not the name of a part: 'eval:x'"),
        (with_root(order=None), "another form"),
        (with_root(order=(1, "value:y")), "another form"),
        (with_root(more=1), "another form"),
        (with_root(parts=()), "another form"),
    ],
)
async def test_strange_state_is_refused_by_name(state: KeptState, reason: str) -> None:
    """A state of another engine or version, or one that is not whole, is refused with what is wrong about it."""
    executor = PythonExecutor(cell_seconds=1, output_chars=100)
    await executor.restore(GOOD)
    with pytest.raises(StateRejected) as refused:
        await executor.restore(state)
    assert reason in refused.value.message
    assert GOOD.state == (await executor.capture()).state
    assert {} == (await executor.capture()).new


def test_older_state_is_upgraded_step_by_step() -> None:
    """A state of an older version goes through every step up to the present one, and a step may refuse."""
    old = with_state(version=0, root=JsonObject({"names": ("value:x", "value:y")}))

    def first(root: JsonObject) -> JsonObject:
        return JsonObject({"order": root["names"], "parts": {"value:x": SMALL}})

    def second(root: JsonObject) -> JsonObject:
        return JsonObject({**root, "lost": ("f",)})

    def refusing(root: JsonObject) -> JsonObject:
        raise ValueError

    upgraded = from_state(old, {0: first, 1: second}, version=2)
    assert (from_state(GOOD).parts, ("f",)) == (upgraded.parts, upgraded.lost)
    with pytest.raises(StateRejected, match="of version 1 cannot be upgraded"):
        from_state(old, {0: first, 1: refusing}, version=2)
    with pytest.raises(StateRejected, match="of version 1, which is no longer supported"):
        from_state(old, {0: first}, version=2)


def test_empty_is_clean() -> None:
    """An executor that has run nothing has nothing to keep."""
    assert not PythonExecutor(cell_seconds=1, output_chars=100).dirty
    assert SavedVariables().identity == SavedVariables().identity


def test_filter_for_every_machine() -> None:
    """Machines whose system calls are known get a filter of whole steps, and others none."""
    assert len(cell_filter("x86_64") or b"") % 8 == 0
    assert len(cell_filter("aarch64") or b"") % 8 == 0
    assert cell_filter("vax") is None
    assert platform.machine()
