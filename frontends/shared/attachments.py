"""Additions to a prompt: files to attach, and the required shape of the answer."""

import base64
from collections.abc import Sequence
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.figures import format_size
from frontends.shared.parser import UsageError

MAX_FILES = 32
MAX_TEXT_CHARS = 1_000_000
MAX_IMAGE_BYTES = 5_000_000
MAX_IMAGES_BYTES = 5_500_000
"""The limit for all images together, as a message holds 8 million characters of them."""
MAX_SCHEMA_BYTES = 1_000_000
_NAME_CHARS = 4_000


@attrs.frozen(kw_only=True)
class PromptAttachments:
    """Files as parts of a message."""

    files: tuple[sc.FilePart, ...] = ()
    images: tuple[sc.ImagePart, ...] = ()


def read_attachments(paths: Sequence[str]) -> PromptAttachments:
    """Read the files to attach to a prompt: images as such, everything else as text.

    Raises:
        UsageError: A file is unreadable or neither text nor an image, or the files are too large.
    """
    if len(paths) > MAX_FILES:
        raise UsageError(f"--file: at most {MAX_FILES} files can be attached, not {len(paths)}")
    files: list[sc.FilePart] = []
    images: list[sc.ImagePart] = []
    texts = image_bytes = 0
    for path in paths:
        data = _read(path, "--file", MAX_IMAGE_BYTES)
        kind = sc.image_type(data)
        if kind is not None:
            image_bytes += len(data)
            images.append(sc.ImagePart(media_type=kind, data=base64.b64encode(data).decode()))
        else:
            text = _text(path, data)
            texts += len(text)
            files.append(sc.FilePart(name=path[:_NAME_CHARS], text=text))
    if texts > MAX_TEXT_CHARS:
        raise UsageError(f"--file: the texts have {texts:,} characters together; the limit is {MAX_TEXT_CHARS:,}")
    if image_bytes > MAX_IMAGES_BYTES:
        raise UsageError(
            f"--file: the images total {format_size(image_bytes)}; the limit is {format_size(MAX_IMAGES_BYTES)}"
        )
    return PromptAttachments(files=tuple(files), images=tuple(images))


def read_schema(path: str) -> sc.JsonObject:
    """Read a JSON schema; the service checks whether it is a valid one.

    Raises:
        UsageError: The file cannot be read, or is no JSON object.
    """
    data = _read(path, "--output-schema", MAX_SCHEMA_BYTES)
    try:
        return sc.wire.decode(data, sc.JsonObject)
    except sc.ProtocolError as error:
        raise UsageError(f"--output-schema: {path!r} is not a JSON schema: {error.reason}") from error


def _read(path: str, option: str, most: int) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{option}: {path!r} cannot be read: {why}") from error
    if len(data) > most:
        raise UsageError(f"{option}: {path!r} is too large; the limit is {format_size(most)}")
    return data


def _text(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"--file: {path!r} is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image") from None
    if "\0" in text:
        raise UsageError(f"--file: {path!r} is not text: there are zero bytes in it")
    return text
