"""From bytes to lines: the cuts make no difference, and a line that is too long costs only itself."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session_core import limits
from session_core.rpc.line_frames import LineSplitter, OversizedLine


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def expected(data: bytes, limit: int) -> tuple[list[bytes | OversizedLine], int, int]:
    """What comes out, and how many blank lines and bytes of them do not, said plainly."""
    *lines, last = data.split(b"\n")
    whole = [*lines, last] if last else lines
    blank = [line for line in whole if not line.strip() and len(line) <= limit]
    return (
        [
            line if len(line) <= limit else OversizedLine(size=len(line), head=line[: limits.RPC_HEAD_BYTES])
            for line in whole
            if line.strip() or len(line) > limit
        ],
        len(blank),
        sum(len(line) + 1 for line in blank),
    )


@given(
    data=st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b" ", b"\t\n", b"\0\xff", b"x" * 9, b"y" * 5_000])).map(
        b"".join
    ),
    places=st.lists(st.integers(0, 1 << 20), max_size=12),
    limit=st.sampled_from([0, 1, 3, 10, 4_096, 6_000, 1 << 24]),
)
@example(data=b"y" * 9_000 + b"\nok\n", places=[4, 5, 4_097], limit=3)
def test_cuts_make_no_difference(data: bytes, places: list[int], limit: int) -> None:
    """Any bytes give the same lines wherever they are cut, the overlong in their places, the blank counted."""
    lines = LineSplitter(limit)

    found = [line for piece in cut(data, places) for line in lines.feed(piece)] + lines.finish()

    assert expected(data, limit) == (found, lines.blank, lines.blank_bytes)
    assert [] == lines.finish()


@pytest.mark.parametrize("extra", [0, 1])
def test_the_limit_is_exact(extra: int) -> None:
    """A line of just the limit is kept, and one byte more is too much."""
    lines = LineSplitter(100)

    [line] = lines.feed(b"z" * (100 + extra) + b"\n")

    assert line == (b"z" * 100 if not extra else OversizedLine(size=101, head=b"z" * 101))


def test_an_endless_line_is_not_kept() -> None:
    """Of a line that never ends only its head and its size are held, and the next line is read as usual."""
    lines = LineSplitter(100_000)
    piece = b"z" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1_000):
            assert [] == lines.feed(piece)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert lines.skipped_bytes == 65_536_000
    assert held < 50_000
    assert peak < 1_000_000
    assert [OversizedLine(size=65_536_000, head=piece[: limits.RPC_HEAD_BYTES]), b"next"] == lines.feed(b"\nnext\n")
    assert lines.skipped_bytes == 0


def test_tiny_pieces_are_kept_as_one() -> None:
    """A line that comes byte by byte takes no more memory than its size asks for."""
    lines = LineSplitter()
    tracemalloc.start()
    try:
        for _ in range(100_000):
            lines.feed(b"z")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 300_000
    assert [b"z" * 100_000] == lines.feed(b"\n")
