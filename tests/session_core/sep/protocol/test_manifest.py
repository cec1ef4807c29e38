"""Manifests are read with care, and whatever is wrong is said with its file and key."""

import os
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.sep.protocol.manifest import (
    MAX_MANIFEST_BYTES,
    Capabilities,
    Manifest,
    ManifestInvalid,
    ManifestResources,
    RunSpec,
    SandboxSpec,
    read_manifest,
)
from session_core.sep.protocol.names import CAPABILITIES, is_extension_name

MINIMAL = 'name = "echo"\nversion = "0.1.0"\n[run]\ncommand = "node"\n'
FULL = """
name = "full_one-2"
version = "1.2.3"
protocol = 1
hook_timeout_ms = 500
disabled = true

[run]
command = "./start"
args = ["--quiet", ""]
sha256 = "AB00000000000000000000000000000000000000000000000000000000000000"
[run.env]
TOKEN = "${env:TOKEN}"
EMPTY = ""

[sandbox]
image = "node:20"
memory = "2G"
cpus = 1.5
network = "egress"
allow_domains = ["API.example.com", "*.example.org"]

[capabilities]
events = ["turn_start", "tool_call"]
tools = true
kv = true
bus = false

[resources]
skills = "skills"
prompts = "more/prompts"
themes = "themes"
"""


def write(folder: Path, content: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "extension.toml").write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def refusal(folder: Path, content: str | bytes) -> ManifestInvalid:
    with pytest.raises(ManifestInvalid) as caught:
        read_manifest(write(folder, content))
    assert "manifest_invalid" == caught.value.code
    return caught.value


def test_the_shortest_manifest_has_defaults(tmp_path: Path) -> None:
    """A name, a version and a command are enough, and without a table of capabilities all of them are on."""
    manifest = read_manifest(write(tmp_path, MINIMAL))
    assert Manifest(name="echo", version="0.1.0", run=RunSpec(command="node")) == attrs.evolve(manifest, digest="")
    assert frozenset(CAPABILITIES) == manifest.capabilities.enabled
    assert 64 == len(manifest.digest)


def test_every_key_is_read(tmp_path: Path) -> None:
    """Each key of the file arrives in its field; a table of capabilities turns on what it says and nothing else."""
    manifest = read_manifest(write(tmp_path, FULL))
    expected = Manifest(
        name="full_one-2",
        version="1.2.3",
        protocol=1,
        hook_timeout_ms=500,
        disabled=True,
        run=RunSpec(
            command="./start",
            args=("--quiet", ""),
            env={"TOKEN": "${env:TOKEN}", "EMPTY": ""},
            sha256="ab" + 62 * "0",
        ),
        sandbox=SandboxSpec(
            image="node:20",
            memory=2048,
            cpus=1.5,
            network="egress",
            allow_domains=("api.example.com", "*.example.org"),
        ),
        capabilities=Capabilities(events=("turn_start", "tool_call"), enabled=frozenset({"tools", "kv"})),
        resources=ManifestResources(skills="skills", prompts="more/prompts", themes="themes"),
    )
    assert expected == attrs.evolve(manifest, digest="")
    assert isinstance(hash(manifest), int)


def test_unknown_keys_are_remembered(tmp_path: Path) -> None:
    """A key that nobody knows does no harm and leaves a remark, so that a misspelt one can be found."""
    manifest = read_manifest(write(tmp_path, MINIMAL.replace("[run]", 'colour = 1\n[run]\n"a b" = 2')))
    assert (
        "colour is not known here and has no effect",
        'run["a b"] is not known here and has no effect',
    ) == manifest.remarks
    misspelt = MINIMAL.replace("[run]", "commad = 1\nversoin = 2\n[run]\narg = []")
    assert ["did you mean run.command?", "did you mean version?", "did you mean args?"] == [
        remark.rpartition("; ")[2] for remark in read_manifest(write(tmp_path, misspelt)).remarks
    ]
    with pytest.raises(ManifestInvalid, match=r'run\.command: is missing; there is "commad": did you mean command'):
        read_manifest(write(tmp_path, 'name = "a"\nversion = "1"\n[run]\ncommad = "x"\n'))
    many = "".join(f"x{number} = 1\n" for number in range(1_000))
    assert 20 == len(read_manifest(write(tmp_path, many + MINIMAL)).remarks)


@pytest.mark.parametrize("memory", ["512", '"512M"', '"512 MiB"', '"512"'])
def test_memory_may_be_written_in_many_ways(tmp_path: Path, memory: str) -> None:
    """A size of memory is a number of megabytes, with or without a unit."""
    manifest = read_manifest(write(tmp_path, f"{MINIMAL}[sandbox]\nmemory = {memory}\n"))
    assert SandboxSpec(memory=512) == manifest.sandbox


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ('version = "1"\n[run]\ncommand = "x"', "name"),
        ('name = 3\nversion = "1"\n[run]\ncommand = "x"', "name"),
        ('name = "echo"\n[run]\ncommand = "x"', "version"),
        ('name = "echo"\nversion = "1\\n2"\n[run]\ncommand = "x"', "version"),
        ('name = "echo"\nversion = "1"', "run"),
        ('name = "echo"\nversion = "1"\nrun = "x"', "run"),
        ('name = "echo"\nversion = "1"\n[run]\nargs = []', "run.command"),
        ('name = "echo"\nversion = "1"\n[run]\ncommand = ""', "run.command"),
        ('name = "echo"\nversion = "1"\n[run]\ncommand = "a\\u0000b"', "run.command"),
        (MINIMAL + "args = [1]", "run.args[0]"),
        (MINIMAL + 'args = "x"', "run.args"),
        (MINIMAL + f"args = {['x'] * 257}", "run.args"),
        (MINIMAL + 'sha256 = "abc"', "run.sha256"),
        (MINIMAL + "env = [1]", "run.env"),
        (MINIMAL + "env = {A = 1}", "run.env.A"),
        (MINIMAL + 'env = {"A B" = "1"}', "run.env"),
        (MINIMAL + "[run.env]\n" + "".join(f'A{number} = ""\n' for number in range(257)), "run.env"),
        ("protocol = 0\n" + MINIMAL, "protocol"),
        ("protocol = true\n" + MINIMAL, "protocol"),
        ("hook_timeout_ms = 0\n" + MINIMAL, "hook_timeout_ms"),
        ("hook_timeout_ms = 1.5\n" + MINIMAL, "hook_timeout_ms"),
        (f"hook_timeout_ms = {10**400}\n" + MINIMAL, "hook_timeout_ms"),
        ("hook_timeout_ms = 2020-01-01\n" + MINIMAL, "hook_timeout_ms"),
        ('disabled = "yes"\n' + MINIMAL, "disabled"),
        (MINIMAL + '[sandbox]\nnetwork = "all"', "sandbox.network"),
        (MINIMAL + '[sandbox]\nmemory = "much"', "sandbox.memory"),
        (MINIMAL + '[sandbox]\nmemory = "0"', "sandbox.memory"),
        (MINIMAL + "[sandbox]\ncpus = nan", "sandbox.cpus"),
        (MINIMAL + '[sandbox]\nallow_domains = ["https://x.org/"]', "sandbox.allow_domains[0]"),
        (MINIMAL + "[capabilities]\ntools = 1", "capabilities.tools"),
        (MINIMAL + "[capabilities]\nevents = [[]]", "capabilities.events[0]"),
        (MINIMAL + '[resources]\nskills = "../../etc"', "resources.skills"),
        (MINIMAL + '[resources]\nthemes = "/etc"', "resources.themes"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, content: str, field: str) -> None:
    """What has the wrong type, size or content is refused, and the sentence names the file and the key."""
    error = refusal(tmp_path, content)
    assert field == error.field
    assert error.message.startswith(f"{tmp_path / 'extension.toml'}: {field}: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name = ", "not TOML"),
        ("a = 1\nb ==", "line 2"),
        (b"\xff\xfe", "not text in UTF-8"),
        ("a = " + 20_000 * "[", "nested too deeply"),
        (f"a = {5_000 * '1'}", "not TOML"),
        (" " * (MAX_MANIFEST_BYTES + 1), "longer than"),
        ("x = 1\n" + ".".join(300 * ["a"]) + " = 1", "line 2"),
    ],
)
def test_what_is_no_manifest_at_all_is_told(tmp_path: Path, content: str | bytes, words: str) -> None:
    """A file that cannot be understood, or only with much time, is refused with the reason."""
    assert words in refusal(tmp_path, content).message


@pytest.mark.parametrize("kind", ["missing", "link", "folder", "pipe"])
def test_only_an_ordinary_file_is_read(tmp_path: Path, kind: str) -> None:
    """Links, folders and pipes in the place of a manifest are refused at once, and nothing stays open."""
    file = tmp_path / "extension.toml"
    if kind == "link":
        (tmp_path / "other").write_text(MINIMAL)
        file.symlink_to("other")
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ManifestInvalid) as caught:
        read_manifest(tmp_path)
    words = {"missing": "there is no extension.toml", "link": "it is a link"}
    assert words.get(kind, "not an ordinary file") in caught.value.message
    assert before == len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("name", ["a", "0", "a-b_c9", 64 * "x"])
def test_good_names(tmp_path: Path, name: str) -> None:
    """Lower-case letters, digits, dashes and underscores make a name."""
    assert name == read_manifest(write(tmp_path, MINIMAL.replace("echo", name))).name


@pytest.mark.parametrize("name", ["A", "../up", "a.b", "-a", "_a", "a b", "a/b", "é", 65 * "x", "a\\n", "a\\u202e"])
def test_bad_names(tmp_path: Path, name: str) -> None:
    """Nothing of a path, no dots and no odd characters: the name is a prefix of tools and a key of storage."""
    assert "name" == refusal(tmp_path, MINIMAL.replace("echo", name)).field


@given(st.text())
def test_a_name_is_plain(name: str) -> None:
    """Whatever is accepted as a name is plain ASCII that means nothing to a file system."""
    if is_extension_name(name):
        assert name.isascii()
        assert not set(name) & set("./\\ \n\0")
        assert 1 <= len(name) <= 64


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """No content of the file leads to anything but a manifest or the one typed error."""
    folder = write(tmp_path / "any", content)
    message = None
    try:
        read_manifest(folder)
    except ManifestInvalid as error:
        message = error.message
    assert message is None or message.startswith(str(folder))
