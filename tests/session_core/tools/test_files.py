"""The file tools: what they show, and every path they refuse."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.permissions.rules import PermissionRule, decide
from session_core.tools.base import PreviewingTool, Tool, ToolFailed, ToolOutput
from session_core.tools.files import MAX_ENTRIES, CountWords, ListFiles, ReadFile, coding_file_tools, file_tools
from session_core.tools.read import ReadTool
from session_core.tools.text_files import MAX_FILE_BYTES
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.tools._calls import context_in
from tests.session_core.tools._running import refusal, run

READERS: list[Tool] = [ReadFile(), CountWords()]
_CHANGE = {"old_text": "1", "new_text": "2"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "glob": {"pattern": "*"},
    "grep": {"pattern": "x"},
    "write": {"content": ""},
    "edit": _CHANGE,
    "multi_edit": {"edits": [_CHANGE]},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a few things in it, and a secret beside it."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "notes.txt").write_text("one two\nthree\n", encoding="utf-8")
    (folder / "src").mkdir()
    (folder / "src" / "main.py").write_text("print()", encoding="utf-8")
    (folder / ".hidden").write_text("psst", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


def test_they_only_read() -> None:
    """Every tool here has a name of its own, and reading is all that it can do."""
    tools = file_tools()

    assert ["list_files", "read_file", "count_words"] == [tool.spec.name for tool in tools]
    assert all(tool.effects == frozenset({"read"}) for tool in tools)


def test_the_tools_for_code() -> None:
    """Tools that look only read; those that change files say so; all of them tell beforehand what they would do."""
    looking = ["read", "list", "glob", "grep"]
    changing = ["write", "edit", "multi_edit"]
    tools = coding_file_tools()

    assert [*looking, *changing] == [tool.spec.name for tool in tools]
    for tool in tools:
        assert frozenset({"read" if tool.spec.name in looking else "write"}) == tool.effects
        assert isinstance(tool, PreviewingTool)


async def test_a_listing(root: Path) -> None:
    """A listing is sorted, marks folders, and leaves out hidden names unless asked for them."""
    (root / "src-old.txt").touch()

    assert "notes.txt\nsrc/\nsrc-old.txt" == (await run(ListFiles(), root)).text
    assert ".hidden\nnotes.txt\nsrc/\nsrc-old.txt" == (await run(ListFiles(), root, hidden=True)).text
    assert "main.py" == (await run(ListFiles(), root, path="src")).text
    assert "main.py" == (await run(ListFiles(), root, path=str(root / "src"))).text


async def test_an_empty_listing(root: Path) -> None:
    """A folder without names says so."""
    (root / "empty").mkdir()

    assert "(no files here)" == (await run(ListFiles(), root, path="empty")).text


async def test_a_long_listing_is_cut(root: Path) -> None:
    """Of very many names the first are listed, and the rest is counted."""
    for number in range(MAX_ENTRIES + 7):
        (root / "src" / f"{number:04}").touch()

    lines = (await run(ListFiles(), root, path="src")).text.splitlines()

    assert [f"{number:04}" for number in range(MAX_ENTRIES)] == lines[:-1]
    assert "[8 more names are not shown]" == lines[-1]


async def test_a_listing_of_long_names_is_cut(root: Path) -> None:
    """A listing never exceeds the bound on output, however long its names are."""
    for number in range(MAX_ENTRIES):
        (root / "src" / f"{number:0250}").touch()

    text = (await run(ListFiles(), root, path="src")).text

    assert len(text) == MAX_TOOL_OUTPUT_CHARS
    assert text.endswith("characters in all]")


async def test_strange_names_become_plain_text(root: Path) -> None:
    """Names that are not text, or not one line, are shown with replacement characters."""
    (root / "src" / os.fsdecode(b"bad\xffname")).touch()
    (root / "src" / "two\nlines").touch()

    assert "bad\ufffdname\nmain.py\ntwo\ufffdlines" == (await run(ListFiles(), root, path="src")).text


async def test_links_in_a_listing(root: Path) -> None:
    """A listing shows links by their names, wherever they lead, and follows none."""
    (root / "src" / "a").symlink_to(root)
    (root / "src" / "b").symlink_to("nowhere")
    (root / "src" / "c").symlink_to("c")

    assert "a\nb\nc\nmain.py" == (await run(ListFiles(), root, path="src")).text


async def test_what_cannot_be_listed(root: Path) -> None:
    """A file and a missing folder are refused as what they are."""
    assert "'notes.txt' is a file, not a folder" == await refusal(ListFiles(), root, path="notes.txt")
    assert "there is no 'gone' in the working folder" == await refusal(ListFiles(), root, path="gone")


async def test_reading(root: Path) -> None:
    """Reading gives the text as it is, through links inside the folder too."""
    (root / "link").symlink_to("src/../notes.txt")

    assert "one two\nthree\n" == (await run(ReadFile(), root, path="notes.txt")).text
    assert "one two\nthree\n" == (await run(ReadFile(), root, path="link")).text
    assert "print()" == (await run(ReadFile(), root, path="./src/../src/main.py")).text


async def test_reading_nothing(root: Path) -> None:
    """An empty file says that it is empty."""
    (root / "empty").touch()

    assert "(the file is empty)" == (await run(ReadFile(), root, path="empty")).text


async def test_reading_some_lines(root: Path) -> None:
    """Some lines can be asked for, and a remark tells how to read on."""
    (root / "abc").write_text("a\nb\nc", encoding="utf-8")

    assert "b\nc" == (await run(ReadFile(), root, path="abc", first_line=2)).text
    assert "b\n[lines 2 to 2 of 3; read on with first_line 3]" == (
        (await run(ReadFile(), root, path="abc", first_line=2, lines=1)).text
    )
    assert "c" == (await run(ReadFile(), root, path="abc", first_line=3, lines=9)).text
    assert "the argument 'first_line' is 4, but the file has 3 lines" == (
        await refusal(ReadFile(), root, path="abc", first_line=4)
    )


async def test_a_long_file_can_be_read_in_pieces(root: Path) -> None:
    """A long file is cut between lines, and reading on as told gives all of it, each line once."""
    lines = [f"line {number}" for number in range(30_000)]
    (root / "long").write_text("\n".join(lines), encoding="utf-8")
    got: list[str] = []
    first = 1
    while first:
        text = (await run(ReadFile(), root, path="long", first_line=first)).text
        assert len(text) <= MAX_TOOL_OUTPUT_CHARS
        *shown, last = text.split("\n")
        first = int(last.rpartition(" ")[2].rstrip("]")) if last.startswith("[lines") else 0
        got += shown if first else [*shown, last]

    assert lines == got


async def test_a_long_line_is_cut(root: Path) -> None:
    """A single line longer than the bound is cut within the line."""
    (root / "long").write_text("x" * 3 * MAX_TOOL_OUTPUT_CHARS, encoding="utf-8")

    text = (await run(ReadFile(), root, path="long")).text

    assert len(text) == MAX_TOOL_OUTPUT_CHARS
    assert text.endswith(f"[cut: {3 * MAX_TOOL_OUTPUT_CHARS} characters in all]")


async def test_counting(root: Path) -> None:
    """Counting tells lines as editors number them, words and characters."""
    (root / "odd").write_text("a\x0cb\u2028c\r\nd", encoding="utf-8")

    assert ToolOutput(
        text="notes.txt: 2 lines, 3 words, 14 characters",
        details=JsonObject({"lines": 2, "words": 3, "characters": 14}),
    ) == await run(CountWords(), root, path="notes.txt")
    assert "odd: 2 lines, 4 words, 8 characters" == (await run(CountWords(), root, path="odd")).text


@pytest.mark.parametrize("tool", [*READERS, ListFiles()], ids=lambda tool: tool.spec.name)
@pytest.mark.parametrize(
    "path",
    ["..", "../secret.txt", "../missing", "src/../../secret.txt", "/etc/passwd", "out", "out/secret.txt", "leak", "//"],
)
async def test_nothing_outside_can_be_reached(root: Path, tool: Tool, path: str) -> None:
    """A path that leads out of the folder, by dots, root or links, is refused whether or not anything is there."""
    (root / "out").symlink_to("..")
    (root / "leak").symlink_to("../secret.txt")

    assert "of the folders that tools may use" in await refusal(tool, root, path=path)


async def test_a_folder_with_the_same_start_is_outside(root: Path) -> None:
    """A neighbour whose name merely begins like the folder's is outside."""
    root.with_name("root-2").mkdir()

    assert "is outside of the folders" in await refusal(ListFiles(), root, path="../root-2")


async def test_a_working_folder_may_be_a_link(root: Path) -> None:
    """A session whose own folder is a link sees what is in it."""
    link = root.with_name("link")
    link.symlink_to(root)

    assert "print()" == (await run(ReadFile(), link, path="src/main.py")).text


@pytest.mark.parametrize("tool", READERS, ids=lambda tool: tool.spec.name)
async def test_what_cannot_be_read(root: Path, tool: Tool) -> None:
    """Whatever is not a text file of moderate size is refused as what it is."""
    (root / "zeros").write_bytes(b"abc\0def")
    (root / "latin").write_bytes("caf\xe9".encode("latin-1"))
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)

    assert "there is no 'gone' in the working folder" == await refusal(tool, root, path="gone")
    assert "'src' is a folder, not a file" == await refusal(tool, root, path="src")
    assert "cannot read 'notes.txt/x': Not a directory" == await refusal(tool, root, path="notes.txt/x")
    assert "'zeros' is a binary file, not text" == await refusal(tool, root, path="zeros")
    assert "'latin' is not UTF-8 text; it may be a binary file" == await refusal(tool, root, path="latin")
    assert "cannot read 'pipe': this is not an ordinary file" == await refusal(tool, root, path="pipe")
    assert f"'huge' is too large: more than {MAX_FILE_BYTES} bytes" == await refusal(tool, root, path="huge")
    assert "'circle'" in await refusal(tool, root, path="circle")


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        (ReadFile(), {}, "the argument 'path' is missing"),
        (CountWords(), {"path": None}, "the argument 'path' is missing"),
        (ReadFile(), {"path": 5}, "the argument 'path' must be the name of a file or folder, as text"),
        (ListFiles(), {"path": ""}, "the argument 'path' must be the name of a file or folder, as text"),
        (ListFiles(), {"path": "x" * 5000}, "the argument 'path' is longer than 4096 characters"),
        (ListFiles(), {"path": "a\0b"}, "the argument 'path' cannot be a path: it contains a null character"),
        (
            ListFiles(),
            {"path": "\ud800"},
            "the argument 'path' contains an unpaired surrogate, which cannot be encoded",
        ),
        (ListFiles(), {"path": "x" * 300}, "File name too long"),
        (ListFiles(), {"hidden": "yes"}, "the argument 'hidden' must be true or false"),
        (ReadFile(), {"path": "a", "first_line": 0}, "the argument 'first_line' must be a whole number of at least 1"),
        (ReadFile(), {"path": "a", "lines": True}, "the argument 'lines' must be a whole number of at least 1"),
        (ReadFile(), {"path": "a", "lines": 1.5}, "the argument 'lines' must be a whole number of at least 1"),
        (CountWords(), {"file": "a"}, "count_words has no argument 'file'; it takes path"),
    ],
)
async def test_bad_arguments_are_named(root: Path, tool: Tool, arguments: dict[str, Any], expected: str) -> None:
    """An argument that is missing, unknown or wrong is named in the refusal."""
    assert expected in await refusal(tool, root, **arguments)


async def test_a_working_folder_that_is_gone(root: Path) -> None:
    """When the working folder itself has gone, there is nothing in it, and the tool says so."""
    assert "there is no 'a' in the working folder" == await refusal(ReadFile(), root / "gone", path="a")


async def test_a_stop_need_not_wait_for_the_disk(root: Path) -> None:
    """A cancelled read lets go at once."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(ReadFile(), root, path="notes.txt")

    assert scope.cancelled_caught


@given(path=st.text(max_size=20) | st.lists(st.sampled_from(["..", ".", "/", "out", "in", "\n"])).map("/".join))
def test_no_path_breaks_out_or_breaks_the_tool(path: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the path, the tool reads something inside or refuses; it never shows the secret and never crashes."""
    base = tmp_path_factory.getbasetemp() / "paths"
    if not base.exists():
        (base / "root" / "in").mkdir(parents=True)
        (base / "secret.txt").write_text("secret", encoding="utf-8")
        (base / "root" / "out").symlink_to("..")

    async def attempt() -> None:
        for tool in file_tools():
            try:
                output = await run(tool, base / "root", path=path)
            except ToolFailed:
                continue
            assert "secret" not in output.text

    trio.run(attempt)


@pytest.mark.parametrize("tool", [*file_tools(), *coding_file_tools()], ids=lambda tool: tool.spec.name)
async def test_tools_name_what_they_touch(tool: Tool, tmp_path: Path) -> None:
    """A tool names its path before it runs, also where a link leads, so that a rule about either can forbid it."""
    assert isinstance(tool, PreviewingTool)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".env").write_text("KEY=1\n", encoding="utf-8")
    (tmp_path / "harmless").symlink_to("kept/.env")

    preview = await tool.preview(
        JsonObject({"path": "./harmless", **ARGUMENTS.get(tool.spec.name, {})}), context_in(tmp_path)
    )

    assert preview.paths == ("harmless", "kept/.env")
    assert " harmless" in preview.summary
    assert decide([PermissionRule(decision="deny", path=".env")], tool="any", paths=preview.paths) == "deny"


async def test_a_reader_names_no_path_outside(tmp_path: Path) -> None:
    """A path that leads out is refused before anybody is asked about it."""
    with pytest.raises(ToolFailed, match="outside"):
        await ReadTool().preview(JsonObject({"path": "../other"}), context_in(tmp_path))
