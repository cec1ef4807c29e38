"""`session-core trust`: which files count, and who has said so."""

import json
from pathlib import Path

import pytest

import session_core as sc
from frontends.commands.settings.project_effects import MOST_LINES, describe_project_file
from frontends.commands.settings.trust import file_lines
from frontends.shared.style import Style
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that brings instructions along."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    return made


def test_from_trust_to_distrust(home: Path, folder: Path, capfd: Said) -> None:
    """A folder is trusted by --yes as it is, not any more after a change, and not after --remove."""
    assert 0 == session_core("trust", str(folder), "--yes")
    assert f"✓ {folder} is trusted, until one of these files changes.\n" == capfd.readouterr().out
    assert sc.setup.find_trusted_fingerprint(home, folder) is not None

    assert 0 == session_core("trust", str(folder), "--yes")
    assert "is trusted already" in capfd.readouterr().out
    assert 0 == session_core("trust", str(folder), "--show")
    brings = "      instructions for the model, 1 line\n      | Be brief.\n"
    assert f"  AGENTS.md\n{brings}✓ {folder} is trusted with these files as they are now.\n" == capfd.readouterr().out

    (folder / "AGENTS.md").write_text("Be long.", encoding="utf-8")
    assert 0 == session_core("trust", str(folder), "--show")
    assert f"■ {folder} is not trusted: these files are not used.\n" in capfd.readouterr().out

    session_core("trust", str(folder), "--yes")
    assert 0 == session_core("trust", str(folder), "--remove")
    assert capfd.readouterr().out.endswith(f"{folder} is no longer trusted.\n")
    assert sc.setup.find_trusted_fingerprint(home, folder) is None


def test_nobody_to_ask(home: Path, folder: Path, capfd: Said) -> None:
    """Without a terminal and without --yes nothing is trusted."""
    assert 2 == session_core("trust", str(folder))
    assert "trust asks first, and there is no terminal to ask on" in capfd.readouterr().err
    assert sc.setup.find_trusted_fingerprint(home, folder) is None


def test_a_folder_that_brings_nothing(home: Path, tmp_path: Path, capfd: Said) -> None:
    """Where nothing would count there is nothing to trust, and no home is made for it."""
    empty = tmp_path / "empty"
    empty.mkdir()

    assert 0 == session_core("trust", str(empty))
    assert f"There is nothing to trust in {empty}: " in capfd.readouterr().out
    assert 0 == session_core("trust", str(empty), "--show")
    assert "has no files that need trust" in capfd.readouterr().out
    assert not home.exists()


def test_too_much_to_trust(folder: Path, capfd: Said) -> None:
    """What nobody can have looked at cannot be trusted, and is told in one line."""
    (folder / "AGENTS.md").write_bytes(b"x" * (5 * 1024 * 1024))

    assert 1 == session_core("trust", str(folder), "--yes")
    said = capfd.readouterr().err
    assert f"{folder} cannot be trusted: the file 'AGENTS.md' is larger than" in said
    assert 1 == said.count("\n")


def test_many_files_are_counted() -> None:
    """A long list is cut with the number of the rest, and names cannot steer the terminal."""
    found = sc.setup.Fingerprint(digest="d", files=tuple((f".agents/\x1b[31m{n}", "x") for n in range(103)))
    lines = file_lines(Style(), found)

    assert ("  .agents/0", "  and 3 more files", 101) == (lines[0], lines[-1], len(lines))


BRINGS = {
    "mcp.json": json.dumps(
        {
            "mcpServers": {
                "gh": {"command": "npx", "args": ["-y", "a b\x1b[31m"], "env": {"TOKEN": "secret"}},
                "web": {"url": "https://x.example/mcp", "disabled": True},
            }
        }
    ),
    ".session-core/config.toml": "limits = {steps = 3}\npermissions = [{tool = 'bash', decision = 'deny'}]\n",
    ".agents/skills/x/SKILL.md": "---\nname: x\ndescription: does x\n---\n",
    ".agents/notes": "a\nb\n",
    "AGENTS.md": "# Hi\n\nOne.\nTwo.\nThree.\n",
}


def test_what_the_files_would_bring(tmp_path: Path, capfd: Said) -> None:
    """Each file is shown with the programs, addresses, settings, rules and words it would bring, before any trust."""
    for name, text in BRINGS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert 0 == session_core("trust", "--show", str(tmp_path))

    assert [
        "  .agents/notes",
        "      2 lines; not used on its own",
        "  .agents/skills/x/SKILL.md",
        "      a skill: does x",
        "  .session-core/config.toml",
        "      setting: limits.steps = 3",
        "      rule: deny tool bash",
        "  AGENTS.md",
        "      instructions for the model, 5 lines",
        "      | # Hi",
        "      | One.",
        "      | Two.",
        "      | ...",
        "  mcp.json",
        "      the MCP server gh runs: npx -y 'a b', with the variables TOKEN",
        "      the MCP server web talks to: https://x.example/mcp, switched off",
        f"■ {tmp_path} is not trusted: these files are not used.",
    ] == capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("trusted", [False, True])
def test_settings_without_effect(home: Path, tmp_path: Path, capfd: Said, *, trusted: bool) -> None:
    """Settings and rules that a project cannot make are marked, with the reason, trusted or not; others are not."""
    home.mkdir()
    (home / "config.toml").write_text("limits.steps = 5\n", encoding="utf-8")
    project = tmp_path / "project"
    (project / ".session-core").mkdir(parents=True)
    (project / ".session-core" / "config.toml").write_text(
        "model = 'x'\nlimits = {steps = 9, cost = 1}\n[providers.a]\nbase_url = 'http://localhost'\n"
        "[[permissions]]\ntool = 'bash'\ndecision = 'ask'\n[[permissions]]\ntool = 'write'\ndecision = 'allow'\n",
        encoding="utf-8",
    )
    if trusted:
        assert 0 == session_core("trust", str(project), "--yes")
    capfd.readouterr()
    assert 0 == session_core("trust", "--show", str(project))

    not_stricter = "a project's file can only make it stricter, and 9 is not stricter than 5"
    not_allow = "a project's file can only add rules that ask or deny, not one that allows"
    not_here = "a project's file cannot set it, only your own config.toml can"
    assert [
        "  .session-core/config.toml",
        f'      ignored setting: model = "x" ({not_here})',
        f"      ignored setting: limits.steps = 9 ({not_stricter})",
        "      setting: limits.cost = 1",
        f'      ignored setting: providers.a.base_url = "http://localhost" ({not_here})',
        "      rule: ask tool bash",
        f"      ignored rule: allow tool write ({not_allow})",
    ] == capfd.readouterr().out.splitlines()[:-1]


def test_settings_that_are_wrong(home: Path, tmp_path: Path, capfd: Said) -> None:
    """A value that would stop every session of the folder is marked before anybody trusts it."""
    (tmp_path / ".session-core").mkdir()
    (tmp_path / ".session-core" / "config.toml").write_text("limits.steps = 'many'\n", encoding="utf-8")
    assert 0 == session_core("trust", "--show", str(tmp_path))

    (_, line, _) = capfd.readouterr().out.splitlines()
    assert line.startswith('      wrong setting: limits.steps = "many" (expected a')


@pytest.mark.parametrize("name", [*BRINGS, "AGENTS.md"])
@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"[[[", b"{}", b"[]", b'{"mcpServers": {"a": 1, "b": {}}}', b"x" * 300_000]
)
def test_whatever_is_in_a_file(tmp_path: Path, name: str, data: bytes) -> None:
    """Files that make no sense are told in a few harmless lines, never with an error."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(data)
    lines = describe_project_file(sc.setup.Workspace(str(tmp_path)), name)

    assert 1 <= len(lines) <= MOST_LINES + 1
    assert all(line.isprintable() for line in lines)


def test_what_is_described_is_what_is_trusted(tmp_path: Path) -> None:
    """A file that is swapped for the time of the review, and back for each check, is described as what it is."""
    (tmp_path / "AGENTS.md").write_text("delete everything", encoding="utf-8")
    found = sc.setup.take_fingerprint(sc.setup.Workspace(str(tmp_path)))
    (tmp_path / "AGENTS.md").write_text("be nice", encoding="utf-8")
    lines = file_lines(Style(), found, sc.setup.Workspace(str(tmp_path)))

    assert ["  AGENTS.md", "      is being changed just now: do not trust it, and look again later"] == lines


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"command": "./server.py"}, ["./server.py"]),
        ({"command": "python", "args": ["server.py", "--port", "7"]}, ["server.py"]),
        ({"command": "node", "args": ["dist/index.js"]}, ["dist/index.js"]),
        ({"command": "node", "args": ["index.js"], "cwd": "dist"}, ["index.js"]),
        ({"command": "sh", "args": ["linked"]}, ["linked"]),
        ({"command": "npx", "args": ["-y", "@x/y", "dist", "../elsewhere"]}, []),
        ({"url": "https://x.example"}, []),
        ({"command": 7, "args": [["server.py"]]}, []),
    ],
)
def test_programs_of_the_folder_itself_are_named(tmp_path: Path, entry: object, named: list[str]) -> None:
    """Who trusts a folder reads which of its files run outside of the sandbox, and that these are not pinned."""
    (tmp_path / "dist").mkdir()
    for name in ("server.py", "dist/index.js"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "linked").symlink_to("server.py")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}), encoding="utf-8")
    lines = describe_project_file(sc.setup.Workspace(str(tmp_path)), "mcp.json")

    words = "may be changed later without your being asked, and runs as you, outside of the sandbox"
    assert [f"{each} {words}" for each in named] == lines[1:]


def test_a_file_with_much_in_it(tmp_path: Path) -> None:
    """Of a long list it is said how much more there is."""
    servers = {f"s{n}": {"command": "x"} for n in range(30)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    lines = describe_project_file(sc.setup.Workspace(str(tmp_path)), "mcp.json")

    assert (MOST_LINES + 1, "and 18 more lines like these; read the file") == (len(lines), lines[-1])


def test_the_list_of_trusted_folders(home: Path, folder: Path, tmp_path: Path, capfd: Said) -> None:
    """Every folder that was trusted is listed, with whether it still counts; where there is none, that is said."""
    assert 0 == session_core("trust", "--list")
    assert "No folder is trusted.\n" == capfd.readouterr().out
    for name in ("changed", "gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text("x", encoding="utf-8")
        session_core("trust", "--yes", str(tmp_path / name))
    session_core("trust", "--yes", str(folder))
    (tmp_path / "changed" / "AGENTS.md").write_text("y", encoding="utf-8")
    (tmp_path / "gone" / "AGENTS.md").unlink()
    (tmp_path / "gone").rmdir()
    capfd.readouterr()

    assert 0 == session_core("trust", "--list")
    assert [
        f"■ {tmp_path / 'changed'}  changed since, so it is not used (review it: session-core trust)",
        f"■ {tmp_path / 'gone'}  gone",
        f"✓ {folder}  trusted, 1 file",
    ] == capfd.readouterr().out.splitlines()
