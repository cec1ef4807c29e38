"""The guide to protocols shows code that works: every block of Python in it is run, in the order of the page."""

import ast
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import session_core as sc
from examples.protocols.review import QUESTION
from session_core.testing.scripted import ScriptedProvider, text
from tests.docs._documents import ROOT, blocks

PAGE = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
QUOTED = re.compile(r"^````.*?^````$", re.DOTALL | re.MULTILINE)
"""An answer of a model, which holds a fence itself."""
PYTHON = [block.text for block in blocks(QUOTED.sub("", PAGE)) if block.language == "python"]
START = "    def __init__(self, options: ReviewOptions) -> None:\n        self._options = options\n"
"""What the page leaves out of the driver, which is beside the point there."""


def test_every_block_is_run_below() -> None:
    """There is no block that the tests here do not know: how one is chosen, parts of examples, and their tests."""
    heads = [code.partition("\n")[0] for code in PYTHON]
    assert [
        'await service.create_session(protocol="code", options=sc.JsonObject({"code": {"cell_seconds": 60}}))',
        "class ReadingUp(sc.protocols.ProtocolSession):",
        "class Doubting(sc.protocols.ProtocolSession):",
        "class Adder(sc.protocols.CodeExecutor):",
        "class Shouting(sc.protocols.StatelessExecutor):",
        "class ReviewDriver(sc.protocols.NativeToolDriver):",
        "@attrs.frozen(kw_only=True)",
        "class ReviewProtocol(sc.protocols.ProtocolFactory):",
        "from session_core.testing.check_protocol import check_protocol",
        "from session_core.testing.check_protocol import CellSamples, check_protocol",
    ] == heads


async def test_choosing_one_as_the_guide_says(tmp_path: Path) -> None:
    """The session that the guide creates has the protocol and the option that it names."""
    config = sc.ServiceConfig(store=sc.MemoryStore(), cwd=str(tmp_path))
    async with sc.open_session_service(config) as service:
        body = f"async def choose(service):\n    return {PYTHON[0]}"
        known: dict[str, Any] = {"sc": sc}
        exec(compile(body, "docs/protocols.md", "exec"), known)
        created = await known["choose"](service)
        protocol = (await service.load_session(created.session_id)).protocol
    assert ("code", 60) == (protocol.name, protocol.options["cell_seconds"])


async def test_the_example_of_the_guide_is_a_protocol() -> None:
    """The driver, the options and the factory that the guide shows, put together, pass the test that it shows."""
    _, _, _, _, _, driver, options, factory, test, _ = PYTHON
    known: dict[str, Any] = {"sc": sc, "attrs": attrs, "QUESTION": QUESTION}
    first, _, rest = driver.partition("\n")
    for code in (options, f"{first}\n{START}\n{rest}", factory, test):
        exec(compile(code, "docs/protocols.md", "exec"), known)
    await known["test_it_is_a_protocol"]()


async def test_the_executor_of_the_guide_passes_its_test(autojump_clock: MockClock) -> None:
    """The executor that the guide shows is whole: it passes the conformance test that stands there."""
    known: dict[str, Any] = {"sc": sc, "trio": trio}
    for code in (PYTHON[3], PYTHON[9]):
        exec(compile(code, "docs/protocols.md", "exec"), known)
    await known["test_the_adder"]()


@pytest.mark.parametrize(("doubt", "said"), [("yes", "It is 42."), ("no", "Please ask a question.")])
async def test_asking_beside_the_conversation(doubt: str, said: str, tmp_path: Path) -> None:
    """The session that the guide shows asks a model first, and goes by what that says."""
    known: dict[str, Any] = {"sc": sc}
    exec(compile(PYTHON[2], "docs/protocols.md", "exec"), known)

    class Doubt(sc.protocols.ProtocolFactory):
        id = "doubt"

        def build(self, context: sc.protocols.BuildContext) -> sc.protocols.ProtocolBundle:
            return sc.protocols.ProtocolBundle(driver=sc.protocols.NativeToolDriver(), session=known["Doubting"]())

    model = ScriptedProvider(text(doubt), text("It is 42."))
    config = sc.ServiceConfig(
        models={"m": model}, protocols=(Doubt(),), protocol="doubt", store=sc.MemoryStore(), cwd=str(tmp_path)
    )
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "What is six times seven?")
        outcome = (await service.wait_for_turn(session_id)).outcome
    assert said == outcome.final_text
    assert "What is six times seven?" in model.requests[0].messages[0].text


async def test_reading_up_in_a_child(tmp_path: Path) -> None:
    """The session that the guide shows has a child read up once, and goes on in a frame that has what it found."""
    known: dict[str, Any] = {"sc": sc}
    exec(compile(PYTHON[1], "docs/protocols.md", "exec"), known)

    @attrs.frozen(kw_only=True)
    class Options:
        has_read: bool = sc.protocols.option(default=False, kind="own", inherit=False)

    class Informed(sc.protocols.ProtocolFactory):
        id = "informed"
        options = Options

        def build(self, context: sc.protocols.BuildContext) -> sc.protocols.ProtocolBundle:
            return sc.protocols.ProtocolBundle(driver=sc.protocols.NativeToolDriver(), session=known["ReadingUp"]())

    model = ScriptedProvider(text("It is 42."), text("42, they say."), text("As I said."))
    config = sc.ServiceConfig(
        models={"m": model}, protocols=(Informed(),), protocol="informed", store=sc.MemoryStore(), cwd=str(tmp_path)
    )
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        said = []
        for question in ("Six times seven?", "Really?"):
            await service.send_user_message(session_id, question)
            said.append((await service.wait_for_turn(session_id)).outcome.final_text)
        assert (await service.load_session(session_id)).protocol.options == sc.JsonObject({"has_read": True})
    assert ["42, they say.", "As I said."] == said
    assert "Six times seven?\n\nOur files say: It is 42." == model.requests[1].messages[0].text


async def test_the_short_ways_of_the_guide(tmp_path: Path) -> None:
    """The executor runs what it is given, and the function is a protocol that hides what is above the line."""
    known: dict[str, Any] = {"sc": sc, "trio": trio}
    exec(compile(PYTHON[4], "docs/protocols.md", "exec"), known)
    cell = sc.protocols.Cell(language="shout", code="so")
    assert sc.protocols.CellResult(output="SO") == await known["Shouting"]().execute(cell, None)
    model = ScriptedProvider(text("Six by seven.\n---\nIt is 42."))
    config = sc.ServiceConfig(
        models={"m": model}, protocols=(known["lined"],), protocol="lined", store=sc.MemoryStore(), cwd=str(tmp_path)
    )
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "What is six times seven?")
        assert "It is 42." == (await service.wait_for_turn(session_id)).outcome.final_text


@pytest.mark.parametrize("name", ["ReviewDriver", "ReviewOptions", "ReviewProtocol"])
def test_the_guide_shows_the_example_itself(name: str) -> None:
    """What the guide shows of the example is what stands in it, but for comments and docstrings."""
    example = (ROOT / "examples" / "protocols" / "review.py").read_text(encoding="utf-8")
    shown = [_parts(node) for code in PYTHON[5:8] for node in ast.parse(code).body if _is_named(node, name)]
    whole = [_parts(node) for node in ast.parse(example).body if _is_named(node, name)]
    assert (1, 1) == (len(shown), len(whole))
    assert [] == [part for part in shown[0] if part not in whole[0]]


def _is_named(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name


def _parts(node: ast.stmt) -> list[str]:
    """The statements of a class, without docstrings."""
    assert isinstance(node, ast.ClassDef)
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(each) is not None and each.body[1:]:
            del each.body[0]
    return [ast.unparse(each) for each in node.body]
