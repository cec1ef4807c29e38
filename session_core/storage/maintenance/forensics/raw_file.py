"""The bytes of a store file: the header of the database, and the write-ahead log beside it. Pure.

SQLite trusts the log up to the first frame with a wrong checksum, and ignores what follows. Each frame's checksum
continues from the previous one, which is stored too, so frames after a damaged one can still be verified.
"""

import struct
from collections import Counter
from collections.abc import Iterator

import attrs

from session_core.storage.schema import APPLICATION_ID, VERSION

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
PAGE_SIZES = tuple(1 << power for power in range(9, 17))

_WAL_MAGIC = 0x377F0682
_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_MASK = 0xFFFFFFFF


def page_size_of(head: bytes) -> int | None:
    """Return the page size from the header; None if it is impossible."""
    if len(head) < HEADER_BYTES:
        return None
    (size,) = struct.unpack_from(">H", head, 16)
    size = 65_536 if size == 1 else size
    return size if size in PAGE_SIZES else None


def header_faults(head: bytes) -> Iterator[str]:
    """Yield what in the first 100 bytes of a store file is not as this program writes it.

    SQLite notices some of these faults only when it writes, and accepts others as they are.
    """
    if len(head) < HEADER_BYTES:
        yield f"the file has only {len(head)} bytes"
        return
    if not head.startswith(MAGIC):
        yield "the file does not begin like a SQLite database"
    if page_size_of(head) is None:
        yield "the page size is impossible"
    if head[18] not in {1, 2} or head[18] != head[19]:
        yield f"the file format is {head[18]}/{head[19]}"
    if head[20:24] != bytes((0, 64, 32, 32)):
        yield "the page layout is impossible"
    for name, place, expected in (
        ("schema format", 44, 4),
        ("auto-vacuum mark", 52, 0),
        ("text encoding", 56, 1),
        ("incremental-vacuum mark", 64, 0),
        ("application id", 68, APPLICATION_ID),
    ):
        (found,) = struct.unpack_from(">I", head, place)
        if found != expected:
            yield f"the {name} is {found}, not {expected}"
    (version,) = struct.unpack_from(">I", head, 60)
    if version > VERSION or version == 0:
        yield f"the format of the store is {version}, and this program writes {VERSION}"


@attrs.frozen(kw_only=True)
class WriteAheadLog:
    """The content of a log.

    Attributes:
        page_size: The size of its pages.
        pages: The newest image of each page, up to the last commit that SQLite accepts.
        beyond: Images of pages after that, in order, up to the last commit mark.
        cut_off: Whether there is a commit mark after the last commit that SQLite accepts.
    """

    page_size: int
    pages: dict[int, bytes]
    beyond: tuple[tuple[int, bytes], ...] = ()
    cut_off: bool = False


@attrs.frozen(kw_only=True)
class _WalFrame:
    number: int
    commits: bool
    salts: tuple[int, int]
    sums: tuple[int, int]
    head: bytes
    page: bytes


def read_log(data: bytes, page_size: int | None) -> WriteAheadLog | None:
    """Read a write-ahead log; `page_size` is that of the database, in case the log does not say."""
    if len(data) <= _WAL_HEADER.size:
        return None
    magic, _, own_page_size, _, salt_1, salt_2, sum_1, sum_2 = _WAL_HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _WAL_MAGIC or _checksum(order, data[:24], 0, 0) != (sum_1, sum_2):
        # SQLite ignores such a log, but the frames still show which of them belong together.
        frames = list(_iterate_frames(data, page_size)) if page_size is not None else []
        salts = Counter(frame.salts for frame in frames).most_common(1)
        return _build_log(page_size or 0, [], [frame for frame in frames if frame.salts == salts[0][0]])
    accepted: list[_WalFrame] = []
    rest: list[_WalFrame] = []
    sums = (sum_1, sum_2)
    for frame in _iterate_frames(data, own_page_size):
        fits = _checksum(order, frame.page, *_checksum(order, frame.head, *sums)) == frame.sums
        sums = frame.sums
        if frame.salts != (salt_1, salt_2) or not fits or not frame.number or len(frame.page) < own_page_size:
            rest.append(frame)
        else:
            (rest or accepted).append(frame)
    return _build_log(own_page_size, accepted, [frame for frame in rest if frame.salts == (salt_1, salt_2)])


def _build_log(page_size: int, accepted: list[_WalFrame], rest: list[_WalFrame]) -> WriteAheadLog:
    committed = max((place for place, frame in enumerate(accepted, 1) if frame.commits), default=0)
    beyond = max((place for place, frame in enumerate(rest, 1) if frame.commits), default=0)
    return WriteAheadLog(
        page_size=page_size,
        pages={frame.number: frame.page for frame in accepted[:committed]},
        beyond=tuple((each.number, each.page) for each in [*accepted[committed:], *rest[:beyond]]) if beyond else (),
        cut_off=beyond > 0,
    )


def _iterate_frames(data: bytes, page_size: int) -> Iterator[_WalFrame]:
    step = _FRAME_HEADER.size + page_size
    for place in range(_WAL_HEADER.size, len(data) - _FRAME_HEADER.size, step):
        number, commits, salt_1, salt_2, sum_1, sum_2 = _FRAME_HEADER.unpack_from(data, place)
        yield _WalFrame(
            number=number,
            commits=bool(commits),
            salts=(salt_1, salt_2),
            sums=(sum_1, sum_2),
            head=data[place : place + 8],
            page=data[place + _FRAME_HEADER.size : place + step],
        )


def _checksum(order: str, data: bytes, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 8 * 2}I", data[: len(data) // 8 * 8])
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & _MASK
        second = (second + words[place + 1] + first) & _MASK
    return first, second
