"""Reading: the right lines whatever the size of the file, pictures, and everything that is refused."""

import os
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.limits import MAX_IMAGE_BYTES, MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.workspace import Workspace
from session_core.tools import read as reading
from session_core.tools.read import MAX_LINE_CHARS, MAX_LINES, LineTaker, ReadTool
from session_core.vocabulary.messages import ImagePart
from tests.session_core.tools._running import answer, refusal, run

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder to read in, and a secret beside it."""
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


def put(root: Path, content: str | bytes, name: str = "f") -> None:
    (root / name).write_bytes(content.encode() if isinstance(content, str) else content)


async def test_lines_come_with_their_numbers(root: Path) -> None:
    """Every line has its number and a tab in front."""
    put(root, "one\n\n  three")

    assert "     1\tone\n     2\t\n     3\t  three" == await answer(ReadTool(), root, path="f")


async def test_some_lines(root: Path) -> None:
    """A range is shown with its numbers, and a remark tells how to read on."""
    put(root, "a\nb\nc\nd\n")

    expected = "     2\tb\n     3\tc\n[lines 2 to 3, 4 in all; read on with first_line 4]"
    assert expected == await answer(ReadTool(), root, path="f", first_line=2, lines=2)
    assert "     4\td" == await answer(ReadTool(), root, path="f", first_line=4, lines=9)
    assert "the argument 'first_line' is 5, but the file has 4 lines" == (
        await refusal(ReadTool(), root, path="f", first_line=5)
    )


async def test_an_empty_file(root: Path) -> None:
    """An empty file says so."""
    put(root, "")

    assert "(the file is empty)" == await answer(ReadTool(), root, path="f")


async def test_byte_order_mark_and_line_ends_are_not_in_the_way(root: Path) -> None:
    """A mark at the beginning is left out, and CR LF is told once instead of shown in every line."""
    put(root, "\ufeffa\r\nb\r\n")

    assert "     1\ta\n     2\tb\n[its lines end with CR LF; edits keep that]" == await answer(
        ReadTool(), root, path="f"
    )


async def test_a_long_file_can_be_read_in_pieces(root: Path) -> None:
    """Reading on as told gives all of a long file, each line once."""
    lines = [f"line {number} " + "x" * 60 for number in range(5_000)]
    put(root, "\n".join(lines))
    got: list[str] = []
    first = 1
    while first:
        text = await answer(ReadTool(), root, path="f", first_line=first)
        assert len(text) <= MAX_TOOL_OUTPUT_CHARS
        shown = text.split("\n")
        first = int(shown.pop().rpartition(" ")[2].rstrip("]")) if shown[-1].startswith("[") else 0
        assert len(shown) <= MAX_LINES
        got += [line.partition("\t")[2] for line in shown]

    assert lines == got


async def test_a_long_line_is_cut(root: Path) -> None:
    """Of a very long line the beginning is shown and its length told, and the lines after it are there."""
    put(root, "ä" * 100_000 + "\nnext\n")

    first, second = (await answer(ReadTool(), root, path="f")).split("\n")

    assert first == "     1\t" + "ä" * MAX_LINE_CHARS + "... [cut: this line has 200,000 bytes]"
    assert "     2\tnext" == second


async def test_a_huge_file_is_read_only_as_far_as_needed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of any size only the part up to the lines asked for is read."""
    with (root / "f").open("wb") as file:
        file.write(b"first\n" * 1_000_000)
        file.truncate(50_000_000_000)
    read = list[int]()
    real = Workspace.read_range

    def noting(self: Workspace, path: str, *, offset: int, length: int) -> bytes:
        read.append(offset + length)
        return real(self, path, offset=offset, length=length)

    monkeypatch.setattr(Workspace, "read_range", noting)

    text = await answer(ReadTool(), root, path="f", first_line=400_000, lines=1)

    assert "400000\tfirst\n[lines 400000 to 400000, the file has 50,000,000,000 bytes; read on with" in text
    assert max(read) <= 4_000_000


async def test_a_line_too_far_away(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is not found within the bound is not looked for any further."""
    monkeypatch.setattr(reading, "MAX_SCANNED_BYTES", 2_000_000)
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 1_000)
    put(root, b"x\n" * 2_000_000)

    assert "use grep" in await refusal(ReadTool(), root, path="f", first_line=1_900_000)


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 9, "image/jpeg"),
        (b"GIF89a" + b"\0" * 9, "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_pictures(root: Path, start: bytes, media_type: str) -> None:
    """A picture is recognised by its first bytes, whatever it is called, and handed on as it is."""
    put(root, start, "picture.txt")

    output = await run(ReadTool(), root, path="picture.txt")

    [image] = output.images
    assert isinstance(image, ImagePart)
    assert (media_type, start) == (image.media_type, b64decode(image.data))
    assert media_type.removeprefix("image/") in output.text


async def test_a_picture_that_is_too_large(root: Path) -> None:
    """A picture no model would take is refused."""
    put(root, PNG + b"\0" * MAX_IMAGE_BYTES)

    assert f"the image 'f' is too large: more than {MAX_IMAGE_BYTES:,} bytes" == await refusal(
        ReadTool(), root, path="f"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"abc\0def", "'f' is a binary file, not text"),
        (b"x\n" * 1_000_000 + b"\0", "'f' is a binary file, not text"),
        ("caf\xe9".encode("latin-1"), "'f' is not UTF-8 text; it may be a binary file"),
        (b"caf\xc3", "'f' is not UTF-8 text; it may be a binary file"),
        ("text".encode("utf-16"), "'f' is UTF-16 text, and only UTF-8 can be handled; convert it first"),
        (b"\xfe\xff", "'f' is UTF-16 text, and only UTF-8 can be handled; convert it first"),
    ],
)
async def test_what_is_no_text(root: Path, content: bytes, said: str) -> None:
    """What is not UTF-8 text is refused as what it is."""
    put(root, content)

    assert said == await refusal(ReadTool(), root, path="f")


async def test_what_cannot_be_read(root: Path) -> None:
    """Folders, pipes, missing files and links that lead out are refused with a plain sentence."""
    (root / "folder").mkdir()
    (root / "out").symlink_to("../secret.txt")
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")

    assert "'folder' is a folder, not a file" == await refusal(ReadTool(), root, path="folder")
    assert "there is no 'gone' in the working folder" == await refusal(ReadTool(), root, path="gone")
    assert "not an ordinary file" in await refusal(ReadTool(), root, path="pipe")
    for path in ("out", "circle", "../secret.txt", "/etc/passwd"):
        assert "that tools may use" in await refusal(ReadTool(), root, path=path)


async def test_a_file_that_vanishes_while_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes away between two reads is a sentence, not a crash."""
    put(root, "text")
    real = Workspace.read_range

    def vanishing(self: Workspace, path: str, *, offset: int, length: int) -> bytes:
        (root / "f").unlink(missing_ok=True)
        return real(self, path, offset=offset, length=length)

    monkeypatch.setattr(Workspace, "read_range", vanishing)

    assert "there is no 'f' in the working folder" == await refusal(ReadTool(), root, path="f")


async def test_a_stop_need_not_wait_for_the_disk(root: Path) -> None:
    """A cancelled read lets go at once."""
    put(root, "text")
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(ReadTool(), root, path="f")

    assert scope.cancelled_caught


@given(
    text=st.text(st.sampled_from("aä\n\r€𝄞"), max_size=60),
    first=st.integers(1, 12),
    count=st.integers(1, 12),
    cuts=st.lists(st.integers(0, 150), max_size=5),
)
def test_a_range_is_a_slice_of_the_file(text: str, first: int, count: int, cuts: list[int]) -> None:
    """However the bytes come in, the lines taken are a slice of the file's lines, and all lines are counted."""
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    taker = LineTaker(first, count)
    for start, stop in pairwise(places):
        taker.feed(data[start:stop])
    taker.end()
    *whole, last = text.split("\n")
    lines = [*whole, *([last] if last else [])]

    assert [line.removesuffix("\r") for line in lines[first - 1 : first - 1 + count]] == taker.lines
    assert len(lines) == taker.total
    assert taker.has_more == (len(lines) >= first + len(taker.lines))
