"""Pictures by path and from the clipboard, and files that are mentioned."""

import base64
import os
import stat
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import session_core as sc
from frontends.shared.attachments import MAX_IMAGE_BYTES
from frontends.terminal.composer import attached_files
from frontends.terminal.composer.attached_files import (
    Attachment,
    NotAttached,
    build_attachments,
    clipboard_image,
    clipboard_text,
    files_of,
    find_image_paths,
    images_of,
    join_attachments,
    read_image,
    read_mentions,
)
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import PNG


def picture(data: bytes = PNG, name: str = "x.png") -> Attachment:
    return Attachment(name=name, part=sc.ImagePart(media_type="image/png", data=base64.b64encode(data).decode()))


@pytest.mark.parametrize(
    ("pasted", "paths"),
    [
        ("/a/b.png", ["/a/b.png"]),
        (" '/a/my b.PNG' \n", ["/a/my b.PNG"]),
        ("/a/my\\ b.png", ["/a/my b.png"]),
        ("/a/my b.png", ["/a/my b.png"]),
        ("file:///a/my%20b.jpeg", ["/a/my b.jpeg"]),
        ("/a.png '/b c.webp'", ["/a.png", "/b c.webp"]),
        ("/a.png\n/b c.gif\n", ["/a.png", "/b c.gif"]),
        ("~/x.png", ["~/x.png"]),
        ("see /a/b.png", []),
        ("b.png", []),
        ("/a/b.txt", []),
        ("/a/it's.png", ["/a/it's.png"]),
        ("", []),
        ("/" + "a" * 9_000 + ".png", []),
        ("/a\0.png", []),
    ],
)
def test_what_terminals_write_for_dropped_files(pasted: str, paths: list[str]) -> None:
    """Paths of pictures and nothing else, however they are quoted, are pictures; all else is text."""
    assert paths == find_image_paths(pasted)


def test_reading_a_picture(tmp_path: Path) -> None:
    """A picture is known by its bytes; what is none, too large, a pipe or missing is refused with a sentence."""
    (tmp_path / "good.jpg").write_bytes(PNG)
    (tmp_path / "bad.png").write_bytes(b"no picture")
    (tmp_path / "large.png").write_bytes(PNG + bytes(MAX_IMAGE_BYTES))
    os.mkfifo(tmp_path / "pipe.png")

    assert picture(name="good.jpg") == read_image("./good.jpg", tmp_path)
    for name, reason in (
        ("bad.png", "bad.png is not a PNG, JPEG, GIF or WebP image."),
        ("large.png", "The image large.png cannot be read: it is larger than 5.0 MB."),
        ("pipe.png", "The image pipe.png cannot be read: it is not an ordinary file."),
        ("gone.png", "The image gone.png cannot be read: No such file or directory."),
        ("a\0.png", "The image a.png cannot be read: embedded null byte."),
    ):
        with pytest.raises(NotAttached) as caught:
            read_image(name, tmp_path)
        assert reason == str(caught.value)


def test_reading_mentions(tmp_path: Path) -> None:
    """Mentioned files go along as text or pictures; what is not there, too large or no text stays a mention."""
    (tmp_path / "a.txt").write_text("\ufeffhello ü")
    (tmp_path / "b.png").write_bytes(PNG)
    (tmp_path / "c.png").write_text("no picture")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "zero").write_bytes(b"a\0b")
    (tmp_path / "large").write_bytes(b"x" * (attached_files.MAX_MENTIONED_BYTES + 1))
    (tmp_path / "folder").mkdir()

    found = read_mentions(
        ["a.txt", "b.png", "c.png", "bytes", "zero", "large", "folder", "gone", "x\0"], tmp_path
    ).inside
    assert (
        Attachment(name="a.txt", part=sc.FilePart(name="a.txt", text="hello ü")),
        picture(name="b.png"),
    ) == found
    assert ((found[1].part,), (found[0].part,)) == (images_of(found), files_of(found))
    assert [each.part for each in build_attachments([*images_of(found), *files_of(found)])] == [
        found[1].part,
        found[0].part,
    ]


def test_mentions_outside_of_the_folder(tmp_path: Path) -> None:
    """What lies outside of the folder is told apart, whatever leads there: a way up, a whole path or a link."""
    folder, secret = tmp_path / "work", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("key")
    (folder / "mine").write_text("mine")
    (folder / "link").symlink_to(secret)
    (folder / "inner").symlink_to(folder / "mine")
    ways = ["../secret", str(secret), "link"]

    found = read_mentions([*ways, "mine", str(folder / "mine"), "inner"], folder)
    assert ways == [each.name for each in found.outside]
    assert ["mine", str(folder / "mine"), "inner"] == [each.name for each in found.inside]


def test_attachments_are_bounded() -> None:
    """The same part goes along once, and no more than a message takes."""
    small, large = picture(), picture(PNG + bytes(4_000_000))

    assert (small, large) == join_attachments((small,), [small, large])
    with pytest.raises(NotAttached, match=r"The images total 8.0 MB; a message takes 5.5 MB."):
        join_attachments((large,), [picture(PNG + bytes(4_000_001))])
    with pytest.raises(NotAttached, match="32 attachments"):
        join_attachments((), [picture(PNG + bytes(n)) for n in range(33)])
    with pytest.raises(NotAttached, match="1,000,001 characters"):
        join_attachments((), [Attachment(name="x", part=sc.FilePart(name="x", text="x" * 1_000_001))])


def test_chips_are_harmless() -> None:
    """Names are shown as short lines without anything hidden."""
    assert "image a<U+202E>b.png 108 bytes" == picture(name="a\u202eb\x1b[2J.png").label


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)


def test_the_clipboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever program there is tells the picture or the text; those that fail or say nothing are passed over."""
    (tmp_path / "picture").write_bytes(PNG)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    environment = {**os.environ, "WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}

    async def play() -> None:
        assert (None, None) == (await clipboard_image(environment), await clipboard_text(environment))
        program(tmp_path, "wl-paste", "exit 1")
        program(tmp_path, "xclip", f'case "$*" in *image/png*) cat {tmp_path}/picture;; *) printf "héllo\\n";; esac')
        assert picture(name="from the clipboard") == await clipboard_image(environment)
        assert "héllo\n" == await clipboard_text(environment)
        assert None is await clipboard_text({**environment, "DISPLAY": ""})
        program(tmp_path, "wl-paste", "echo not a picture")
        assert None is await clipboard_image(environment)

    on_asyncio(play)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_clipboard_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that says too much is not heard to the end, one that hangs is given up, and no process is left."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    environment = {**os.environ, "DISPLAY": ":0", "WAYLAND_DISPLAY": ""}

    async def play() -> None:
        program(tmp_path, "xclip", "printf '\\211PNG\\r\\n\\032\\n'; exec cat /dev/zero")
        with pytest.raises(NotAttached, match=r"larger than 5\.0 MB"):
            await clipboard_image(environment)
        program(tmp_path, "xclip", f"echo $$ > {tmp_path}/pid; exec tail -f /dev/null")
        os.mkfifo(tmp_path / "pid")
        pid = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clipboard_image, environment)
            pid = int(await anyio.to_thread.run_sync((tmp_path / "pid").read_text))
            tasks.cancel_scope.cancel()
        # A start that is cancelled kills it at once; the loop reaps it a moment later.
        for _ in iter(lambda: exists(pid), False):
            await anyio.lowlevel.checkpoint()
        monkeypatch.setattr(attached_files, "CLIPBOARD_S", 0)
        assert None is await clipboard_image(environment)

    on_asyncio(play)
