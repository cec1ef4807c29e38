"""`session-core config`: what people see of their settings, in the real program."""

import json
from pathlib import Path

import pytest

from frontends.commands.settings.configuration import setting_lines, value_text
from frontends.shared.config_problems import ConfigFindings, find_problems
from frontends.shared.style import Style
from session_core.setup import (
    ConfigInvalid,
    ShownSetting,
    TrustStore,
    Workspace,
    describe_settings,
    load_config,
    take_fingerprint,
)
from tests.frontends._program import program

KEY = "sk-ant-api03-Zq7Kp2Vx9Lm4Nt6Rw8Bc1Df3Gh5Jk0"
QUIET = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "OPENROUTER_API_KEY": ""}


def write(home: Path, text: str, mode: int = 0o600) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


async def test_show(home: Path) -> None:
    """`config show` has a line for each setting with its value and where that came from."""
    path = write(home, "thinking = 'high'\n")
    ended = await program("config", "show", env={**QUIET, "SESSION_CORE_MODEL": "opus", "COLUMNS": "200"})
    rows = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines()}

    assert (0, "") == (ended.code, ended.err)
    assert (["high", f"{path}:1"], ["opus", "SESSION_CORE_MODEL"]) == (rows["thinking"], rows["model"])
    assert ["ask_writes", "default"] == rows["permission_mode"]


@pytest.mark.slow
async def test_show_masks_keys(home: Path) -> None:
    """No form of `config show` prints a key, from wherever it comes."""
    write(home, f"[providers.openai]\nkey = '{KEY}'\nheaders = {{ x-key = '{KEY}' }}\n")
    for form in ((), ("--json",)):
        ended = await program("config", "show", *form, env={"ANTHROPIC_API_KEY": KEY, "COLUMNS": "200"})
        assert 0 == ended.code
        assert "***" in ended.out
        assert KEY not in ended.out + ended.err


@pytest.mark.slow
async def test_show_as_json(home: Path) -> None:
    """With --json each line is one setting."""
    write(home, "permissions = [{tool = 'bash', decision = 'ask'}]\n")
    ended = await program("config", "show", "--json", env=QUIET)
    rows = {row["key"]: row for row in map(json.loads, ended.out.splitlines())}

    assert {"key": "thinking", "value": "off", "from": "default"} == rows["thinking"]
    assert {"decision": "ask", "tool": "bash"} == rows["permissions[1]"]["value"]


@pytest.mark.slow
async def test_a_wrong_file_is_told_in_lines(home: Path) -> None:
    """A file with several mistakes gives one line for each of them and exit code 2, in any command that needs it."""
    path = write(home, "thinkin = 'high'\n[limits]\nsteps = 0\n")
    for command in (("config", "show"), ("models",)):
        ended = await program(*command, env=QUIET)

        assert (2, "") == (ended.code, ended.out)
        assert [
            "session-core: there are 2 problems in the configuration",
            f"  {path}, line 1: thinkin: there is no such setting; did you mean thinking?",
            f"  {path}, line 3: limits.steps: expected a whole number from 1 to 10,000, not 0",
        ] == ended.err.splitlines()


@pytest.mark.slow
async def test_check(home: Path, tmp_path: Path) -> None:
    """`config check` says all that is wrong with exit code 1; what is not trusted is said not to be read."""
    path = write(home, "thinkin = 'high'\n")
    write(tmp_path / "project" / ".session-core", "model = 'opus'\n")
    ended = await program("config", "check", "--cwd", str(tmp_path / "project"), env=QUIET)

    assert 1 == ended.code
    assert [
        f"✗ {path}, line 1: thinkin: there is no such setting; did you mean thinking?",
        "1 problem; no session can run until this is fixed",
    ] == ended.out.splitlines()
    assert "● not read: .session-core/config.toml; this folder is not trusted" in ended.err


@pytest.mark.slow
async def test_check_as_json(home: Path) -> None:
    """With --json each problem is one line, and the exit code is the same."""
    path = write(home, "thinkin = 'high'\n")
    ended = await program("config", "check", "--json", env=QUIET)

    what = "there is no such setting; did you mean thinking?"
    assert 1 == ended.code
    assert {
        "severity": "error",
        "place": str(path),
        "line": 1,
        "key": "thinkin",
        "what": what,
    } == json.loads(ended.out)


@pytest.mark.slow
async def test_check_a_sound_file(home: Path, tmp_path: Path) -> None:
    """A file with nothing wrong in it is named, and where there is none, where it would be."""
    nothing = await program("config", "check", "--cwd", str(tmp_path), env=QUIET)
    path = write(home, "thinking = 'high'\n")
    sound = await program("config", "check", "--cwd", str(tmp_path), env={**QUIET, "SESSION_CORE_MODLE": "x"})

    assert (0, f"✓ nothing is set, and there are no errors; settings go into {path}\n") == (nothing.code, nothing.out)
    assert (0, f"✓ no errors in {path}\n") == (sound.code, sound.out)
    assert "● SESSION_CORE_MODLE is set but has no effect; did you mean SESSION_CORE_MODEL?\n" == sound.err


def test_a_model_without_its_key_is_wrong(home: Path, tmp_path: Path) -> None:
    """A chosen model that has no key makes every turn fail, so it is a problem, with the line that chose it."""
    path = write(home, "\nmodel = 'opus'\n")
    without, with_one = find_problems(home, tmp_path, {}), find_problems(home, tmp_path, {"ANTHROPIC_API_KEY": KEY})

    (problem,) = without.problems
    assert (str(path), 2, "model") == (problem.place, problem.line, problem.key)
    assert problem.what.endswith(" cannot be used: set ANTHROPIC_API_KEY")
    assert ConfigFindings() == with_one


def test_no_key_at_all_is_told(home: Path, tmp_path: Path) -> None:
    """Where no model was chosen and no key is set, people are told what answers then."""
    (remark,) = find_problems(home, tmp_path, {}).remarks

    assert remark.startswith("no key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY), ")
    assert () == find_problems(home, tmp_path, {"OPENAI_API_KEY": KEY}).remarks


def test_names_of_tools_that_are_not_there(home: Path, tmp_path: Path) -> None:
    """A slip in the name of a tool is a warning with the name that was meant; servers' tools are left alone."""
    write(home, "permissions = [{tool = 'bas', decision = 'deny'}]\n[tools]\ndisabled = ['mcp__x__y', 'web_fetch']\n")
    found = find_problems(home, tmp_path, {"OPENAI_API_KEY": KEY})

    assert ((), ["permissions[1].tool"]) == (found.problems, [each.key for each in found.warnings])
    assert "did you mean bash?" in found.warnings[0].what


def test_a_wrong_list_of_servers_is_found(home: Path, tmp_path: Path) -> None:
    """`config check` looks into mcp.json too, and names the line."""
    write(home, "model = 'demo'\n")
    (home / "mcp.json").write_text('{"mcpServers": {\n"a": {\n"comand": "x"}}}', encoding="utf-8")
    (problem,) = find_problems(home, tmp_path, {}).problems

    assert (str(home / "mcp.json"), 2, "mcpServers.a") == (problem.place, problem.line, problem.key)


def test_files_that_are_not_read(home: Path, tmp_path: Path) -> None:
    """Files of a folder that is not trusted are named as not read, with what would be ignored even then."""
    write(home, "model = 'demo'\n")
    folder = tmp_path / "project"
    path = write(folder / ".session-core", "permission_mode = 'full'\n")
    (folder / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    before = find_problems(home, folder, {})
    TrustStore(home).trust(str(folder), take_fingerprint(Workspace(str(folder))))
    after = find_problems(home, folder, {})

    unread, would = before.remarks
    named = ".session-core/config.toml, AGENTS.md"
    assert f"not read: {named}; this folder is not trusted (to review and trust it: session-core trust)" == unread
    assert would.startswith(f"if it were trusted: {path}, line 1: permission_mode: ")
    assert ((), ()) == (before.problems, before.warnings)
    assert ((), (), ["permission_mode"]) == (after.problems, after.remarks, [each.key for each in after.warnings])


@pytest.mark.slow
async def test_a_key_that_others_may_read(home: Path) -> None:
    """The command that makes a file with a key in it private is told, ready to be typed."""
    path = write(home, f"[providers.anthropic]\nkey = '{KEY}'\n", 0o644)
    ended = await program("config", "check", env=QUIET)

    assert 1 == ended.code
    assert f"run: chmod 600 {path}\n" in ended.out
    assert KEY not in ended.out


@pytest.mark.slow
async def test_path(home: Path, tmp_path: Path) -> None:
    """`config path` prints one path, even while the file is missing or wrong, and with --json the project's too."""
    plain = await program("config", "path")
    write(home, "this is not TOML")
    project = write(tmp_path / ".session-core", "")
    as_json = await program("config", "path", "--json", "--cwd", str(tmp_path))

    assert (0, f"{home / 'config.toml'}\n", "") == (plain.code, plain.out, plain.err)
    assert {
        "user": {"path": str(home / "config.toml"), "exists": True},
        "project": {"path": str(project), "trusted": False},
    } == json.loads(as_json.out)


@pytest.mark.slow
async def test_an_untrusted_project_is_told(tmp_path: Path) -> None:
    """`config show` in a folder nobody trusted says that its file is not used."""
    project = write(tmp_path / "project" / ".session-core", "permission_mode = 'read_only'\n")
    ended = await program("config", "show", "--cwd", str(tmp_path / "project"), env={**QUIET, "COLUMNS": "200"})

    assert f"● {project} is not used, as this folder is not trusted\n" == ended.err
    assert "read_only" not in ended.out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ([], "-"),
        (["a", "b"], "a, b"),
        (True, "true"),
        ({"decision": "ask", "tool": None}, "decision = ask, tool = -"),
        (0.5, "0.5"),
    ],
)
def test_values(value: object, text: str) -> None:
    """Values are shown as people would write them."""
    assert text == value_text(value)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit(tmp_path: Path, width: int) -> None:
    """No line is wider than the terminal, and nothing a file says can steer it."""
    write(tmp_path, 'permissions = [{tool = "bash", path = "a\u202eb", decision = "deny"}]\n')
    with pytest.raises(ConfigInvalid):
        load_config(tmp_path, environ={})
    write(tmp_path, f"permissions = [{{tool = '{'x' * 150}', decision = 'deny'}}]\n")
    settings: tuple[ShownSetting, ...] = describe_settings(load_config(tmp_path, environ={}), {})

    lines = setting_lines(Style(), settings, width=width)

    assert len(settings) + 1 == len(lines)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("variable", [False, True])
def test_a_protocol_that_there_is_not(home: Path, tmp_path: Path, *, variable: bool) -> None:
    """A protocol that is not there is a problem, with its place and with those that there are."""
    write(home, "" if variable else "thinking = 'off'\nprotocol = 'plan'\n")
    found = find_problems(home, tmp_path, {**QUIET, **({"SESSION_CORE_PROTOCOL": "plan"} if variable else {})})
    (problem,) = found.problems
    assert ("protocol", None if variable else 2) == (problem.key, problem.line)
    assert problem.what.startswith("there is no protocol called 'plan'; known: standard, code")
