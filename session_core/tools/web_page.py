"""What a server on the web sent, made readable for a model: text as text, pictures as pictures, nothing else."""

import base64
import codecs
import re
from typing import Final, Literal

import attrs

from session_core.limits import MAX_IMAGE_BYTES
from session_core.tools.base import ToolFailed, ToolOutput
from session_core.tools.html_text import html_to_text
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart

_ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
_IMAGES: Final[dict[bytes, _ImageType]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_TEXTS: Final = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|toml|javascript|ecmascript|x-sh|sql|x-ndjson)")
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs"})
"""What Python can decode, but no page is written in; some take very long."""


@attrs.frozen(kw_only=True)
class FetchedPage:
    """What a server answered at the end of all redirects."""

    url: str
    media_type: str
    charset: str | None
    data: bytes
    complete: bool


def readable(page: FetchedPage, max_chars: int) -> ToolOutput:
    """Turn a page into a result, in a thread, for it may take a while; raises `ToolFailed` for what cannot be shown."""
    kind = page.media_type or _guess(page.data)
    if kind.startswith("image/"):
        return _picture(page)
    if kind in {"text/html", "application/xhtml+xml"}:
        found = html_to_text(_decoded(page), base_url=page.url, limit=max_chars)
        title, text, complete = found.title, found.text, found.complete
    elif _TEXTS.fullmatch(kind):
        whole = _decoded(page)
        title, text, complete = "", whole[:max_chars], len(whole) <= max_chars
    else:
        raise ToolFailed(f"{page.url} is of the type {kind[:100]!r}, which is neither text nor a picture")
    cut = "" if complete and page.complete else f"\n[cut after {len(text)} characters; the page is longer]"
    heading = f"{title}\n{page.url}" if title else page.url
    return ToolOutput(
        text=f"{heading}\n\n{text or '(the page has no text)'}{cut}", details=JsonObject({"url": page.url})
    )


def _picture(page: FetchedPage) -> ToolOutput:
    media_type: _ImageType | None = next((_IMAGES[start] for start in _IMAGES if page.data.startswith(start)), None)
    if media_type is None or (media_type == "image/webp" and page.data[8:12] != b"WEBP"):
        raise ToolFailed(f"{page.url} is a picture of a kind that cannot be shown; png, jpeg, gif and webp can")
    if not page.complete or len(page.data) > MAX_IMAGE_BYTES:
        raise ToolFailed(f"the picture at {page.url} is larger than {MAX_IMAGE_BYTES} bytes")
    image = ImagePart(media_type=media_type, data=base64.b64encode(page.data).decode("ascii"))
    return ToolOutput(text=page.url, images=(image,), details=JsonObject({"url": page.url}))


def _guess(data: bytes) -> str:
    start = data[:1_024].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    if any(data.startswith(each) for each in _IMAGES):
        return "image/*"
    return "application/octet-stream" if b"\0" in start else "text/plain"


def _decoded(page: FetchedPage) -> str:
    for mark, known in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if page.data.startswith(mark):
            return page.data.decode(known, "replace")
    told = _META_CHARSET.search(page.data[:4_096])
    for name in (page.charset, told.group(1).decode("ascii") if told else None):
        if name is not None:
            try:
                if codecs.lookup(name).name.replace("-", "_") not in _NO_CHARSETS:
                    return page.data.decode(name, "replace")
            except (LookupError, ValueError):  # not a charset at all
                continue
    return page.data.decode("utf-8", "replace")
