"""`session-core config`: what people see of their settings, in the real program."""

import json
from pathlib import Path

import pytest

from frontends.console.style import Style
from frontends.settings.configuration import setting_lines, value_text
from session_core import ConfigInvalid, ShownSetting, load_config, shown_settings
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
    assert ["ask_writes", "default"] == rows["permission_tier"]


async def test_show_masks_keys(home: Path) -> None:
    """No form of `config show` prints a key, from wherever it comes."""
    write(home, f"[providers.openai]\nkey = '{KEY}'\nheaders = {{ x-key = '{KEY}' }}\n")
    for form in ((), ("--json",)):
        ended = await program("config", "show", *form, env={"ANTHROPIC_API_KEY": KEY, "COLUMNS": "200"})
        assert 0 == ended.code
        assert "***" in ended.out
        assert KEY not in ended.out + ended.err


async def test_show_as_json(home: Path) -> None:
    """With --json each line is one setting."""
    write(home, "permissions = [{tool = 'shell', decision = 'ask'}]\n")
    ended = await program("config", "show", "--json", env=QUIET)
    rows = {row["key"]: row for row in map(json.loads, ended.out.splitlines())}

    assert {"key": "thinking", "value": "off", "from": "default"} == rows["thinking"]
    assert {"decision": "ask", "tool": "shell"} == rows["permissions[1]"]["value"]


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


async def test_check(home: Path, tmp_path: Path) -> None:
    """`config check` says all that is wrong in both files, also in one that is not trusted, with exit code 1."""
    path = write(home, "thinkin = 'high'\n")
    project = write(tmp_path / "project" / ".session-core", "model = 'opus'\n")
    ended = await program("config", "check", "--cwd", str(tmp_path / "project"), env=QUIET)

    assert (1, "") == (ended.code, ended.err)
    assert [
        f"✗ {path}, line 1: thinkin: there is no such setting; did you mean thinking?",
        f"✗ {project}, line 1: model: a project's file cannot set this, only your own config.toml can",
        "2 problems; nothing is used until this is put right",
    ] == ended.out.splitlines()


async def test_check_as_json(home: Path) -> None:
    """With --json each problem is one line, and the exit code is the same."""
    path = write(home, "thinkin = 'high'\n")
    ended = await program("config", "check", "--json", env=QUIET)

    what = "there is no such setting; did you mean thinking?"
    assert (1, {"place": str(path), "line": 1, "key": "thinkin", "what": what}) == (ended.code, json.loads(ended.out))


async def test_check_a_sound_file(home: Path) -> None:
    """A file with nothing wrong in it is named, and where there is none, where it would be."""
    nothing = await program("config", "check", env=QUIET)
    path = write(home, "thinking = 'high'\n")
    sound = await program("config", "check", env={**QUIET, "SESSION_CORE_MODLE": "x"})

    assert (0, f"✓ nothing is set, and nothing is wrong; settings go into {path}\n") == (nothing.code, nothing.out)
    assert (0, f"✓ nothing is wrong in {path}\n") == (sound.code, sound.out)
    assert "● SESSION_CORE_MODLE is set, and means nothing; did you mean SESSION_CORE_MODEL?\n" == sound.err


async def test_a_key_that_others_may_read(home: Path) -> None:
    """The command that makes a file with a key in it private is told, ready to be typed."""
    path = write(home, f"[providers.anthropic]\nkey = '{KEY}'\n", 0o644)
    ended = await program("config", "check", env=QUIET)

    assert 1 == ended.code
    assert f"run: chmod 600 {path}\n" in ended.out
    assert KEY not in ended.out


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


async def test_an_untrusted_project_is_told(tmp_path: Path) -> None:
    """`config show` in a folder nobody trusted says that its file is not used."""
    project = write(tmp_path / "project" / ".session-core", "permission_tier = 'read_only'\n")
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
    write(tmp_path, 'permissions = [{tool = "shell", path = "a\u202eb", decision = "deny"}]\n')
    with pytest.raises(ConfigInvalid):
        load_config(tmp_path, environ={})
    write(tmp_path, f"permissions = [{{tool = '{'x' * 150}', decision = 'deny'}}]\n")
    settings: tuple[ShownSetting, ...] = shown_settings(load_config(tmp_path, environ={}), {})

    lines = setting_lines(Style(), settings, width=width)

    assert len(settings) + 1 == len(lines)
    assert max(map(len, lines)) <= width
