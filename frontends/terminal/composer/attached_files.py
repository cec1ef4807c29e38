"""The attachments of a prompt: images by path or from the clipboard, and mentioned files.

Reading blocks: do it in threads. Reads are bounded from the start and limited to regular files: a pipe or a device of
the right name would block for ever.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio
import anyio.abc
import attrs

import session_core as sc
from frontends.shared.attachments import MAX_FILES, MAX_IMAGE_BYTES, MAX_IMAGES_BYTES, MAX_TEXT_CHARS
from frontends.shared.figures import format_size
from frontends.shared.sanitise import one_line

IMAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MAX_MENTIONED_BYTES: Final = 256_000
"""Larger files stay a mention, and the model reads the parts it needs."""
MAX_CLIPBOARD_BYTES: Final = 2_000_000
CLIPBOARD_S: Final = 3.0
_MAX_DROPPED_CHARS: Final = 8_192
_MAX_PATH_CHARS: Final = 4_000
_NAME_CHARS: Final = 40

_PICTURE_PROGRAMS: Final = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    (None, ("pngpaste", "-")),
)
_TEXT_PROGRAMS: Final = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "text")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-out")),
    (None, ("pbpaste",)),
)


class NotAttached(Exception):
    """Something cannot be attached; the message is one sentence for the user."""


@attrs.frozen(kw_only=True)
class Attachment:
    """A part of the message being written, with its display name."""

    name: str
    part: sc.ImagePart | sc.FilePart

    @property
    def size_bytes(self) -> int:
        """The approximate size."""
        if isinstance(self.part, sc.FilePart):
            return len(self.part.text)
        return len(self.part.data) * 3 // 4 - self.part.data[-2:].count("=")

    @property
    def label(self) -> str:
        """The text of its chip."""
        kind = "image" if isinstance(self.part, sc.ImagePart) else "file"
        return f"{kind} {one_line(self.name, _NAME_CHARS)} {format_size(self.size_bytes)}"


def images_of(attached: Iterable[Attachment]) -> tuple[sc.ImagePart, ...]:
    """Return the images among the attachments."""
    return tuple(each.part for each in attached if isinstance(each.part, sc.ImagePart))


def files_of(attached: Iterable[Attachment]) -> tuple[sc.FilePart, ...]:
    """Return the files among the attachments."""
    return tuple(each.part for each in attached if isinstance(each.part, sc.FilePart))


def build_attachments(parts: Sequence[sc.Part]) -> tuple[Attachment, ...]:
    """Return the images and then the files of a message as attachments; images have no names of their own."""
    images = (part for part in parts if isinstance(part, sc.ImagePart))
    return (
        *(Attachment(name=f"{number}", part=part) for number, part in enumerate(images, start=1)),
        *(Attachment(name=part.name, part=part) for part in parts if isinstance(part, sc.FilePart)),
    )


def join_attachments(attached: Sequence[Attachment], more: Iterable[Attachment]) -> tuple[Attachment, ...]:
    """Return both, without duplicates.

    Raises:
        NotAttached: There are too many, or they are too large together.
    """
    parts = [each.part for each in attached]
    both = (*attached, *(each for each in more if each.part not in parts))
    images = sum(each.size_bytes for each in both if isinstance(each.part, sc.ImagePart))
    texts = sum(each.size_bytes for each in both if isinstance(each.part, sc.FilePart))
    if len(both) > MAX_FILES:
        raise NotAttached(f"A message takes at most {MAX_FILES} attachments.")
    if images > MAX_IMAGES_BYTES:
        raise NotAttached(f"The images total {format_size(images)}; a message takes {format_size(MAX_IMAGES_BYTES)}.")
    if texts > MAX_TEXT_CHARS:
        raise NotAttached(f"The files have {texts:,} characters together; a message takes {MAX_TEXT_CHARS:,}.")
    return both


# --- from files -------------------------------------------------------------------------------------------------------


def find_image_paths(pasted: str) -> list[str]:
    """Return the paths if a paste holds nothing but image paths, as terminals send files dropped on them."""
    text = pasted.strip()
    if not text or len(text) > _MAX_DROPPED_CHARS or "\0" in text:
        return []
    for words in (_shell_words(text), text.splitlines(), [text]):
        paths = [_path(word.strip()) for word in words if word.strip()]
        if paths and len(paths) <= MAX_FILES and all(_is_picture_path(path) for path in paths):
            return paths
    return []


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _path(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    if word.startswith("file://"):
        with suppress(ValueError):
            return unquote(urlsplit(word).path)
    return word


def _is_picture_path(path: str) -> bool:
    return is_image(path) and "\n" not in path and path.startswith(("/", "~/", "./", "../"))


def is_image(path: str) -> bool:
    """Return whether a file is an image, judging by its name."""
    return path.casefold().endswith(IMAGE_SUFFIXES)


def read_image(path: str, folder: Path) -> Attachment:
    """Read an image; blocks.

    Raises:
        NotAttached: It does not exist, or cannot be attached.
    """
    name = one_line(path, _NAME_CHARS)
    try:
        data = _read(folder / Path(path).expanduser(), MAX_IMAGE_BYTES)
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotAttached(f"The image {name} cannot be read: {why}.") from error
    return _image(Path(path).name, data)


def _image(name: str, data: bytes) -> Attachment:
    kind = sc.image_type(data)
    if kind is None:
        raise NotAttached(f"{one_line(name, _NAME_CHARS)} is not a PNG, JPEG, GIF or WebP image.")
    return Attachment(name=name, part=sc.ImagePart(media_type=kind, data=base64.b64encode(data).decode()))


@attrs.frozen(kw_only=True)
class Mentions:
    """The mentioned files that were found: inside the session's folder, and outside it."""

    inside: tuple[Attachment, ...] = ()
    outside: tuple[Attachment, ...] = ()


def read_mentions(paths: Sequence[str], folder: Path) -> Mentions:
    """Read the mentioned files; blocks. Anything that is no file, too large or not text stays a mention."""
    inside: list[Attachment] = []
    outside: list[Attachment] = []
    for path in paths[:MAX_FILES]:
        most = MAX_IMAGE_BYTES if is_image(path) else MAX_MENTIONED_BYTES
        with suppress(OSError, ValueError, RuntimeError, NotAttached):
            place = (folder / Path(path).expanduser()).resolve()  # links count as their targets
            data = _read(place, most)
            found = inside if place.is_relative_to(folder.resolve()) else outside
            if is_image(path):
                found.append(_image(path, data))
            elif b"\0" not in data:
                text = data.decode("utf-8-sig")
                found.append(Attachment(name=path, part=sc.FilePart(name=path[:_MAX_PATH_CHARS], text=text)))
    return Mentions(inside=tuple(inside), outside=tuple(outside))


def _read(place: Path, most: int) -> bytes:
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not an ordinary file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is larger than {format_size(most)}")
    return data


# --- from the clipboard -----------------------------------------------------------------------------------------------


async def clipboard_image(environment: Mapping[str, str] = os.environ) -> Attachment | None:
    """Return the image in the clipboard; None if there is none, or no program to read it.

    Raises:
        NotAttached: It is too large.
    """
    data = await _run_clipboard_programs(_PICTURE_PROGRAMS, environment, MAX_IMAGE_BYTES)
    if data is None or sc.image_type(data[:16]) is None:
        return None
    if len(data) > MAX_IMAGE_BYTES:
        raise NotAttached(f"The image in the clipboard is larger than {format_size(MAX_IMAGE_BYTES)}.")
    return _image("from the clipboard", data)


async def clipboard_text(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the text in the clipboard, if a program can read it."""
    data = await _run_clipboard_programs(_TEXT_PROGRAMS, environment, MAX_CLIPBOARD_BYTES)
    return None if data is None or len(data) > MAX_CLIPBOARD_BYTES else data.decode("utf-8", "replace")


async def _run_clipboard_programs(
    programs: Sequence[tuple[str | None, Sequence[str]]], environment: Mapping[str, str], most: int
) -> bytes | None:
    for needs, command in programs:
        if needs is None or environment.get(needs):
            with suppress(OSError):
                data = await _output(command, environment, most)
                if data:
                    return data
    return None


async def _output(command: Sequence[str], environment: Mapping[str, str], most: int) -> bytes:
    """Return a program's output, or `most` + 1 bytes of it if it is longer; nothing if the program fails or hangs."""
    async with await anyio.open_process(
        command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
    ) as process:
        data = b""
        with anyio.move_on_after(CLIPBOARD_S):
            data = await _up_to(process, most)
            if len(data) <= most and await process.wait() == 0:
                return data
        with suppress(ProcessLookupError):
            process.kill()
    return data if len(data) > most else b""


async def _up_to(process: anyio.abc.Process, most: int) -> bytes:
    assert process.stdout is not None
    chunks: list[bytes] = []
    length = 0
    async for chunk in process.stdout:
        chunks.append(chunk)
        length += len(chunk)
        if length > most:
            break
    return b"".join(chunks)[: most + 1]
