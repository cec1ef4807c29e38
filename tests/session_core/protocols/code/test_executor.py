"""Cells in their process: what they show, what they can call, and what ends them."""

import sys
from base64 import b64encode
from pathlib import Path

import pytest
import trio
import trio.testing

from session_core import limits
from session_core.protocols.code.cell_output import CellText
from session_core.protocols.code.instructions import render_signature
from session_core.protocols.execution import CellResult
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ToolResultPart
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.protocols.code._executor import open_session, result

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
JPEG = b"\xff\xd8\xff" + b"pixels"


def image(data: bytes, kind: str = "png") -> ImagePart:
    return ImagePart(media_type=f"image/{kind}", data=b64encode(data).decode())  # type: ignore[arg-type]


async def test_cells_show_output_and_last_value_and_share_globals(tmp_path: Path) -> None:
    """A cell shows what it prints in order and the value of its last line, people see it too, and globals live on."""
    async with open_session(tmp_path) as session:
        first = await session.run("import sys\nx = 20\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
        assert CellResult(output="out\nerr\n21") == first
        assert "out\nerr\n21\n" == "".join(session.said)
        assert "" == await session.show("x += 1\nNone")
        assert "21\n[21, 'ä']" == await session.show("print(x)\n[x, 'ä']")
        pid = session.executor.pid
        assert "hidden" == await session.show("import os\nos.write(1, b'hidden')\nos.close(1); os.close(2)\nNone")
        assert "again" == await session.show("print('again')")
        assert pid == session.executor.pid


async def test_errors_are_data_without_host_paths(tmp_path: Path) -> None:
    """A failed cell tells the lines of cells only, names no file of the machine, and the next cell runs."""
    async with open_session(tmp_path) as session:
        await session.run("def half(x):\n    return x / 0")
        failed = await session.run("import json\nprint('before')\nhalf(1)")
        assert "before" == failed.output
        assert failed.error is not None
        assert failed.error.startswith("Traceback (most recent call last):\n")
        assert 'File "<cell 2>", line 3, in <module>\n    half(1)' in failed.error
        assert 'File "<cell 1>", line 2, in half\n    return x / 0' in failed.error
        assert failed.error.endswith("ZeroDivisionError: division by zero")
        for code, told in (
            ("json.loads('{')", "JSONDecodeError"),
            ("from json import nothing", "ImportError"),
            ("if True\n  pass", "SyntaxError"),
            ("'\\0'.x\0", "null bytes"),
            ("raise SystemExit('no')", "SystemExit: no"),
            ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E: <exception str() failed>"),
            ("input()", "EOFError"),
            ("(" * 1000, "SyntaxError"),
            ("def f(): f()\nf()", "RecursionError"),
        ):
            error = (await session.run(code)).error
            assert error is not None
            assert told in error
            assert sys.base_prefix not in error
            assert "worker" not in error
        assert len((await session.run("raise ValueError('x' * 1_000_000)")).error or "") < 10_000
        assert CellResult(output="") == await session.run("raise SystemExit")
        assert "True" == await session.show("half is not None")


async def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    """Endless output costs no memory: the model gets both ends and how much is missing, and people its beginning."""
    async with open_session(tmp_path, output_chars=1_000) as session:
        output = await session.show("print('begin')\nfor n in range(100_000): print(n)\nprint('end')")
        assert output.startswith("begin\n0\n1\n")
        assert output.endswith("99999\nend")
        assert "characters left out ...]" in output
        assert len(output) < 1_100
        assert 1_000 < len("".join(session.said)) < 1_100


@pytest.mark.parametrize("pieces", [(b"x" * 10, b"y"), (b"x" * 11,), (b"x" * 4, b"x" * 7, b"y")])
def test_people_are_told_once_that_there_is_more(pieces: tuple[bytes, ...]) -> None:
    """However output is cut into pieces, its first characters are shown, and then one remark that there is more."""
    said: list[str] = []
    text = CellText(10, said.append)
    for piece in pieces:
        text.feed(piece)
    assert "x" * 10 + "\n[further output is not shown]\n" == "".join(said)


def test_text_in_pieces_is_the_same_as_in_one() -> None:
    """However output is cut into pieces, the same characters are kept, and none twice."""
    data = ("ä" * 30 + "z" * 30).encode()
    texts: set[str] = set()
    for size in (1, 3, 7, 200):
        text = CellText(20, lambda _: None)
        for start in range(0, len(data), size):
            text.feed(data[start : start + size])
        text.feed(b"", final=True)
        texts.add(text.as_text())
    assert {"ä" * 10 + "\n[... 40 characters left out ...]\n" + "z" * 10} == texts
    exact = CellText(20, lambda _: None)
    exact.feed(b"0123456789" * 2)
    assert "0123456789" * 2 == exact.as_text()


async def test_pictures(tmp_path: Path) -> None:
    """Pictures come from bytes, files and objects; what is none, too large or too many is an error in the cell."""
    (tmp_path / "photo.jpg").write_bytes(JPEG)
    async with open_session(tmp_path) as session:
        await session.run(f"class P:\n    def _repr_png_(self): return {PNG!r}")
        shown = await session.run(f"show_image({PNG!r}); show_image('photo.jpg')\nP()")
        assert (None, (image(PNG), image(JPEG, "jpeg"), image(PNG))) == (shown.error, shown.images)
        assert "PNG and JPEG" in ((await session.run("show_image(b'GIF89a')")).error or "")
        too_many = await session.run(f"for _ in range(9): show_image({PNG!r})")
        assert "at most 4 images" in (too_many.error or "")
        assert 4 == len(too_many.images)
        large = await session.run(f"show_image({PNG!r} + bytes({limits.MAX_IMAGE_BYTES}))")
        assert "larger than" in (large.error or "")
        assert () == large.images


async def test_finish(tmp_path: Path) -> None:
    """`finish` ends the cell with a value, takes nothing but JSON, and cannot be undone by a broad `except`."""
    async with open_session(tmp_path) as session:
        done = await session.run("finish({'a': [1, 2.5, None, True, 'ä']})\nprint('never')")
        expected = CellResult(finished=True, value=JsonObject({"a": (1, 2.5, None, True, "ä")}))
        assert expected == done
        assert CellResult(finished=True) == await session.run("finish()")
        caught = await session.run("try:\n    finish(1)\nexcept BaseException: pass\nprint('on')")
        assert CellResult(output="on", finished=True, value=1) == caught
        for value in ("{1}", "float('nan')", "2**60", "{1: 2}", "'\\ud800'", "print", "deep"):
            code = f"deep = []\nfor _ in range(99): deep = [deep]\nfinish({value})"
            failed = await session.run(code)
            assert not failed.finished
            assert "finish() takes JSON only" in (failed.error or "")
        assert "longer than" in ((await session.run("finish('x' * 2_000_000)")).error or "")


@pytest.mark.parametrize(
    ("code", "error"), [("[1]", "SystemExit: [1]"), ("2", "SystemExit: 2"), ("0", None), ("", None)]
)
async def test_a_cell_may_exit_with_anything(tmp_path: Path, code: str, error: str | None) -> None:
    """A cell that exits ends itself and not its process; any status but zero is its error."""
    async with open_session(tmp_path) as session:
        await session.show("kept = 5")
        done = await session.run(f"import sys\nsys.exit({code})")
        assert error == (done.error and done.error.splitlines()[-1])
        assert "5" == await session.show("kept")


async def test_arguments_are_in_the_order_of_the_signature(tmp_path: Path) -> None:
    """An argument without a name is the first that the signature shows, even if the schema names an odd one before."""
    asked: list[JsonObject] = []

    async def answer(_name: str, arguments: JsonObject) -> ToolResultPart:
        asked.append(arguments)
        return result("done")

    properties = JsonObject({"not-a-name": {"type": "integer"}, "size": {"type": "integer"}})
    pick = ToolSpec(name="pick", description="Picks.", parameters=JsonObject({"properties": properties}))
    assert 'pick(size: int = ..., **{"not-a-name": int})' == render_signature(pick, "pick")
    async with open_session(tmp_path, answer=answer) as session:
        session.tools = (pick,)
        await session.show("pick(7); None")
    assert [{"size": 7}] == asked


async def test_tools_are_functions(tmp_path: Path) -> None:
    """Tools take arguments by name and by place, return text and details, and raise `ToolError` when they fail."""
    asked: list[tuple[str, JsonObject]] = []

    async def answer(name: str, arguments: JsonObject) -> ToolResultPart:
        asked.append((name, arguments))
        if arguments.get("path") == "secret":
            return result("you may not", status="denied")
        return result(f"text of {arguments.get('path')}", details=JsonObject({"lines": (1, 2)}), images=(image(PNG),))

    async with open_session(tmp_path, answer=answer) as session:
        done = await session.run(
            "got = read_file('a.txt', limit=3)\nprint(got, got.details, got.upper())\n"
            "try:\n    read_file(path='secret')\nexcept ToolError as error:\n    print(error)\n"
            "read_file('b', 7)\nNone"
        )
        assert "text of a.txt {'lines': [1, 2]} TEXT OF A.TXT\nyou may not" == done.output
        assert (None, 3, (image(PNG), image(PNG))) == (done.error, done.tool_calls, done.images)
        wanted: list[dict[str, str | int]] = [
            {"path": "a.txt", "limit": 3},
            {"path": "secret"},
            {"path": "b", "limit": 7},
        ]
        assert [("read-file", JsonObject(each)) for each in wanted] == asked
        for call, told in (
            ("read_file(1, 2, 3)", "at most 2 arguments"),
            ("read_file('a', path='b')", "path twice"),
            ("read_file({1})", "takes JSON only"),
            ("read_file('secret')", "ToolError: you may not"),
        ):
            assert told in ((await session.run(call)).error or "")
        assert 4 == len(asked)
        assert "read_file(path: str, limit: int = ...)" in await session.show("print(read_file.__doc__)")
        assert "'text of a'" == await session.show("import copy\nkept = read_file('a')\ncopy.copy(kept)")
        assert "5" == await session.show("read_file = 5\nread_file")
        assert "text of c" == await session.show("del read_file\nprint(read_file('c'))")


async def test_calls_side_by_side_and_too_many(tmp_path: Path) -> None:
    """Threads of a cell can wait for tools at once, and a cell that calls without end is told to stop."""
    together = trio.Event()
    waiting: list[str] = []

    async def answer(name: str, arguments: JsonObject) -> ToolResultPart:
        waiting.append(name)
        if len(waiting) >= 3:
            together.set()
        await together.wait()
        return result("ok")

    async with open_session(tmp_path, answer=answer) as session:
        code = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(3) as pool: print(list(pool.map(lambda _: str(wait()), range(3))))\ndel pool"
        )
        assert "['ok', 'ok', 'ok']" == await session.show(code)
        many = await session.run("n = 0\nwhile True:\n    wait()\n    n += 1")
        assert "a cell calls at most 256 tools" in (many.error or "")
        assert limits.MAX_CELL_CALLS == many.tool_calls
        assert "256" == await session.show("n")
