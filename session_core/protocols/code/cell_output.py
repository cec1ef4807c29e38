"""The output of a cell: its text, cut in the middle when it is long, and its images. None of it is trusted."""

import codecs
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from session_core import limits
from session_core.vocabulary.messages import ImagePart, ImageType, image_type

_IMAGE_TYPES: Final = ("image/png", "image/jpeg")
_NO_MORE: Final = "\n[further output is not shown]\n"


class CellText:
    """Converts bytes to text: shown to people as it arrives, and to the model at the end.

    Args:
        most: How many characters are kept, half of them from the beginning and half from the end.
        report: Shows people the text as it arrives, up to the same number of characters.
    """

    def __init__(self, most: int, report: Callable[[str], None]) -> None:
        self._half = most // 2
        self._report = report
        self._room = most
        self._cut = False  # whether people were told that there is more
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._dropped = 0

    def feed(self, chunk: bytes | bytearray, *, final: bool = False) -> None:
        """Add a piece."""
        text = self._decoder.decode(chunk, final)
        if not text:
            return
        self._show(text)
        if (room := self._half - self._head_chars) > 0:
            self._head.append(text[:room])
            self._head_chars += len(text[:room])
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_chars += len(text)
        while self._tail and self._tail_chars - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_chars -= gone
            self._dropped += gone

    def _show(self, text: str) -> None:
        if self._room > 0:
            self._report(text[: self._room])
        if len(text) > self._room and not self._cut:
            self._report(_NO_MORE)
            self._cut = True
        self._room = max(0, self._room - len(text))

    def as_text(self) -> str:
        """Return the text for the model."""
        head, tail = "".join(self._head), "".join(self._tail)
        cut = max(0, len(tail) - self._half)
        if left_out := self._dropped + cut:
            return f"{head}\n[... {left_out:,} characters left out ...]\n{tail[cut:]}"
        return head + tail


class CellImages:
    """The images of a cell, bounded in number and size."""

    def __init__(self) -> None:
        self._images: list[ImagePart] = []
        self._chars = 0
        self.refused = 0

    def add(self, kind: object, data: object) -> None:
        """Add data from the worker, if it is an image."""
        found = _find_type(data) if kind in _IMAGE_TYPES and isinstance(data, str) else None
        if found is not None and found == kind:
            self.add_parts([ImagePart(media_type=found, data=str(data))])
        else:
            self.refused += 1

    def add_parts(self, images: Iterable[ImagePart]) -> None:
        """Add images, as far as there is room."""
        for image in images:
            there_is_room = len(self._images) < limits.MAX_CELL_IMAGES
            if there_is_room and self._chars + len(image.data) <= limits.MAX_CELL_IMAGE_CHARS:
                self._images.append(image)
                self._chars += len(image.data)
            else:
                self.refused += 1

    def as_tuple(self) -> tuple[ImagePart, ...]:
        """Return the images."""
        return tuple(self._images)


def _find_type(data: str) -> ImageType | None:
    if len(data) > 2 * limits.MAX_IMAGE_BYTES:
        return None
    try:
        decoded = b64decode(data, validate=True)
    except ValueError:
        return None
    return image_type(decoded) if len(decoded) <= limits.MAX_IMAGE_BYTES else None
