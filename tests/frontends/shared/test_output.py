"""Colours only where they are wanted, and output that fails in a way people understand."""

import os
from pathlib import Path
from typing import TextIO

import pytest

from frontends.shared.output import Output, OutputFailed, ReaderLeft
from frontends.shared.style import Style, style_for


@pytest.mark.parametrize(
    ("tty", "encoding", "environ", "style"),
    [
        (True, "utf-8", {}, Style(colours=True, symbols=True)),
        (True, "UTF-8", {"NO_COLOR": ""}, Style(colours=True, symbols=True)),
        (True, "utf-8", {"NO_COLOR": "1"}, Style(colours=False, symbols=True)),
        (True, "utf-8", {"TERM": "dumb"}, Style(colours=False, symbols=True)),
        (False, "utf-8", {}, Style(colours=False, symbols=True)),
        (True, "iso-8859-1", {}, Style(colours=True, symbols=False)),
    ],
)
def test_choosing_a_style(tty: bool, encoding: str, environ: dict[str, str], style: Style) -> None:  # noqa: FBT001
    """Colours need a terminal and no NO_COLOR, symbols need an encoding that has them."""
    assert style == style_for(tty=tty, encoding=encoding, environ=environ)


def test_a_plain_style_adds_nothing() -> None:
    """Without colours every text stays as it is, and ASCII stands in for symbols."""
    plain = Style(colours=False, symbols=False)

    assert "x" == plain.red(plain.bold(plain.dim("x")))
    assert "ok" == plain.symbol("✓")


def test_a_coloured_style_switches_off_what_it_switches_on() -> None:
    """A coloured text ends with the code that ends its colour, and an empty one has no codes."""
    style = Style(colours=True)

    assert "\x1b[31mx\x1b[39m" == style.red("x")
    assert "" == style.dim("")


async def test_output_arrives_whole(tmp_path: Path) -> None:
    """Text and bytes are written in order and as they are."""
    with (tmp_path / "out").open("w", encoding="utf-8") as stream:
        output = Output(stream)
        await output.write("hällo ")
        await output.write(b"bytes\n")
        await output.write("")

    assert "hällo bytes\n" == (tmp_path / "out").read_text(encoding="utf-8")
    assert not output.tty


def opened(fd: int) -> TextIO:
    return os.fdopen(fd, "w", encoding="utf-8")


async def test_a_reader_that_left() -> None:
    """Writing to a pipe that nobody reads says that the reader has left."""
    receiving, sending = os.pipe()
    os.close(receiving)
    with opened(sending) as stream, pytest.raises(ReaderLeft):
        await Output(stream).write("x")


async def test_a_full_disk_is_named() -> None:
    """A refused write is told in a sentence with the system's reason."""
    full = os.open("/dev/full", os.O_WRONLY)
    with opened(full) as stream, pytest.raises(OutputFailed, match="No space left on device"):
        await Output(stream).write("x")


async def test_a_closed_stream_swallows_everything() -> None:
    """A stream that was closed before the program started takes everything and is nowhere."""
    output = Output(None)
    await output.write("x")

    assert not output.same_place(output)


def test_streams_that_meet(tmp_path: Path) -> None:
    """Two streams into one file are known to meet, and two files are not."""
    with (tmp_path / "a").open("w") as a, (tmp_path / "a").open("a") as again, (tmp_path / "b").open("w") as b:
        assert Output(a).same_place(Output(again))
        assert not Output(a).same_place(Output(b))
