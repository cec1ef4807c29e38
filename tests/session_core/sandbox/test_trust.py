"""Files of a project count only after a person has trusted exactly these."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from session_core.errors import StoreUnusable
from session_core.sandbox import trust
from session_core.sandbox.trust import Fingerprint, TooMuchToTrust, TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace

NAMES = (".session-core", "AGENTS.md", "mcp.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that brings files along."""
    folder = tmp_path / "root"
    (folder / ".session-core/skills").mkdir(parents=True)
    (folder / ".session-core/config.toml").write_text("a = 1")
    (folder / ".session-core/skills/one").write_text("do this")
    (folder / "AGENTS.md").write_text("be kind")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    """An empty store."""
    return TrustStore(tmp_path / "home")


def _print(root: Path) -> Fingerprint:
    return take_fingerprint(Workspace(str(root)), NAMES)


def test_same_files_same_fingerprint(root: Path) -> None:
    """The order of names, their repetition, other files and times do not matter."""
    before = _print(root)
    (root / "code.py").write_text("x")
    os.utime(root / "AGENTS.md", (1, 1))
    workspace = Workspace(str(root))
    assert take_fingerprint(workspace, [*reversed(NAMES), "./AGENTS.md", ".session-core/skills"]) == before
    assert [path for path, _ in before.files] == [
        ".session-core/config.toml",
        ".session-core/skills/one",
        "AGENTS.md",
    ]
    assert not before.is_empty
    assert before.covers("AGENTS.md", b"be kind")
    assert not before.covers("AGENTS.md", b"be evil")
    assert not before.covers("other", b"be kind")
    assert take_fingerprint(workspace, ["missing", "code.py/below"]).is_empty


@pytest.mark.parametrize("change", ["content", "new", "removed", "renamed", "moved bytes", "link", "link outside"])
def test_every_change_is_seen(root: Path, change: str) -> None:
    """Any change of content, names or links gives another fingerprint."""
    before = _print(root)
    skill = root / ".session-core/skills/one"
    if change == "content":
        skill.write_text("do that")
    elif change == "new":
        (root / "mcp.json").write_text("")
    elif change == "removed":
        skill.unlink()
    elif change == "renamed":
        skill.rename(skill.with_name("two"))
    elif change == "moved bytes":
        skill.write_text("do thisa")
        (root / ".session-core/config.toml").write_text(" = 1")
    elif change == "link":
        (root / "mcp.json").symlink_to("nothing")
    else:
        (root / "mcp.json").symlink_to("/etc/passwd")
    assert _print(root).digest != before.digest


def test_links(root: Path) -> None:
    """What a link inside leads to counts, in files and folders; what lies outside is not read."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("one")
    (root / "elsewhere").mkdir()
    (root / "elsewhere/skill").write_text("one")
    (root / ".session-core/inside").symlink_to("../elsewhere")
    (root / ".session-core/outside").symlink_to(outside)
    before = _print(root)
    (outside / "file").write_text("two")
    assert _print(root) == before
    (root / "elsewhere/skill").write_text("two")
    assert _print(root) != before


def test_bounds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, too many bytes, a file too large and a circle are refused."""
    (root / ".session-core/circle").symlink_to("../.session-core")
    with pytest.raises(TooMuchToTrust):
        _print(root)
    (root / ".session-core/circle").unlink()
    for name, value in (("_MAX_FILES", 2), ("_MAX_ALL_BYTES", 10), ("MAX_TRUSTED_FILE_BYTES", 6)):
        with monkeypatch.context() as patched:
            patched.setattr(trust, name, value)
            with pytest.raises(TooMuchToTrust):
                _print(root)
    assert len(_print(root).files) == 3


def test_trust_and_distrust(root: Path, store: TrustStore) -> None:
    """A folder is trusted by its content: another content asks again, and trust can be taken back."""
    link = root.parent / "link"
    link.symlink_to("root")
    first = _print(root)
    assert not store.is_trusted(str(root), first)
    store.trust(str(root), first)
    assert store.is_trusted(str(link), first)
    assert not store.is_trusted(str(root.parent), first)
    (root / "AGENTS.md").write_text("be evil")
    assert not store.is_trusted(str(root), _print(root))
    store.trust(str(root), _print(root))
    assert not store.is_trusted(str(root), first)
    assert TrustStore(root.parent / "home").is_trusted(str(root), _print(root))
    store.distrust(str(root))
    store.distrust("/never/heard/of")
    assert not store.is_trusted(str(root), _print(root))


def test_file_is_private(root: Path, store: TrustStore) -> None:
    """The file and its folder are closed to others."""
    store.trust(str(root), _print(root))
    home = root.parent / "home"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    assert modes == {"home": 0o700, "trust.json": 0o600, "trust.lock": 0o600}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"null", b'{"format": 2, "folders": {}}', b'{"format": 1, "folders": []}',
     b'{"format": 1, "folders": {"/": 1}}', b"[" * 100_000],
)  # fmt: skip
def test_damaged_file(root: Path, store: TrustStore, content: bytes) -> None:
    """A damaged file trusts nothing and says so; the next answer starts a new one and keeps the old one aside."""
    store.trust(str(root), _print(root))
    file = root.parent / "home/trust.json"
    file.write_bytes(content)
    assert not store.is_trusted(str(root), _print(root))
    remark = store.remark or ""
    assert "damaged" in remark
    assert "\n" not in remark
    store.trust(str(root), _print(root))
    assert (store.is_trusted(str(root), _print(root)), store.remark) == (True, None)
    assert file.with_suffix(".damaged").read_bytes() == content


def test_file_that_is_a_link(root: Path, store: TrustStore) -> None:
    """A link in the place of the file is not followed and trusts nothing."""
    store.trust(str(root), _print(root))
    file = root.parent / "home/trust.json"
    file.rename(root.parent / "elsewhere")
    file.symlink_to(root.parent / "elsewhere")
    assert not store.is_trusted(str(root), _print(root))
    assert store.remark is not None


def test_home_that_cannot_be_used(root: Path) -> None:
    """Where nothing can be written, the error is typed and says where."""
    (root.parent / "home").write_text("")
    with pytest.raises(StoreUnusable, match="home"):
        TrustStore(root.parent / "home").trust(str(root), _print(root))


def test_oldest_go_first(root: Path, store: TrustStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of folders is bounded; the one trusted longest ago is forgotten first."""
    monkeypatch.setattr(trust, "_MAX_FOLDERS_KNOWN", 3)
    for name in "abcad":
        store.trust(f"/{name}", _print(root))
    kept = json.loads((root.parent / "home/trust.json").read_text())["folders"]
    assert list(kept) == ["/c", "/a", "/d"]


_WRITER = """
import sys
from pathlib import Path
from session_core.sandbox.trust import Fingerprint, TrustStore
store = TrustStore(Path(sys.argv[1]))
for number in range(10_000):
    store.trust(f"/folder{number % 50}", Fingerprint(digest=str(number), files=()))
    print(number, flush=True)
"""


async def test_killed_while_writing(tmp_path: Path) -> None:
    """Killed at any moment, the file is whole and holds at least what had been acknowledged."""
    home = tmp_path / "home"
    for lines in (1, 3, 7, 12, 20):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", _WRITER, str(home)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        heard = b""
        with trio.fail_after(300):
            while heard.count(b"\n") < lines:
                heard += await process.stdout.receive_some()
            os.kill(process.pid, signal.SIGKILL)
            while more := await process.stdout.receive_some():
                heard += more
            await process.wait()
        await process.stdout.aclose()
        last = int(heard[: heard.rindex(b"\n")].split(b"\n")[-1])
        store = TrustStore(home)
        trusted = store.is_trusted(f"/folder{last % 50}", Fingerprint(digest=str(last), files=()))
        assert (trusted, store.remark) == (True, None)


@pytest.mark.parametrize("folder", [".session-core/extensions", ".smooth/extensions"])
def test_extensions_are_pinned_apart(tmp_path: Path, folder: str) -> None:
    """Of a project's extensions only the names are trusted with its folder: each is agreed to with all its files."""
    workspace = Workspace(str(tmp_path))
    extensions = tmp_path / folder
    (extensions / "one").mkdir(parents=True)
    before = take_fingerprint(workspace)
    assert [folder] == [path for path, _ in before.files]
    for number in range(2_100):
        (extensions / "one" / f"{number}.js").touch()
    assert before == take_fingerprint(workspace)
    (extensions / "two").mkdir()
    assert before != take_fingerprint(workspace)
