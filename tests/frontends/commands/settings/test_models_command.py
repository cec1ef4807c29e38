"""`session-core models`: what people see of the models, in the real program."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import session_core as sc
from frontends.commands.settings.models import model_lines, note, price
from frontends.shared.style import Style
from tests.frontends._extensions import GOOD, make_extension
from tests.frontends._program import program
from tests.frontends.server.daemon._service import kill

KEY = "sk-ant-api03-Zq7Kp2Vx9Lm4Nt6Rw8Bc1Df3Gh5Jk0"
NO_SERVER = '[providers.ollama]\nbase_url = "https://localhost:9"\n'
QUIET = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "OPENROUTER_API_KEY": ""}


@pytest.fixture(autouse=True)
def no_server(home: Path, no_real_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a server with models; the tests must not see it."""
    monkeypatch.delenv("SESSION_CORE_MODEL")
    write(home, "")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No extension of whoever runs the tests is seen."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("SMOOTH_HOME", raising=False)
    monkeypatch.delenv("SMOOTH_EXTENSIONS_ALLOW", raising=False)


def write(home: Path, text: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text + NO_SERVER, encoding="utf-8")


@pytest.mark.slow
async def test_without_a_key() -> None:
    """Without any key no model is listed, and people are told what to set and that the demo works."""
    ended = await program("models", env=QUIET)

    assert (0, "") == (ended.code, ended.err)
    first, second, third = ended.out.splitlines()
    assert first.startswith(
        "no API key is configured, so the offline demo model is used: set ANTHROPIC_API_KEY or OPENAI_API_KEY"
    )
    assert "demo answers offline and without a key" == second
    assert third.endswith("more with --all")


async def test_with_a_key() -> None:
    """With a key its models are listed, the one that answers by default has a mark, and the key is nowhere."""
    ended = await program("models", env={**QUIET, "ANTHROPIC_API_KEY": KEY})
    rows = ended.out.splitlines()

    assert ["●", "anthropic/claude-sonnet-5-5", "sonnet", "1M", "2", "/", "10"] == rows[1].split()
    assert "openai/" not in ended.out
    assert KEY not in ended.out + ended.err


@pytest.mark.slow
async def test_all_of_them() -> None:
    """With --all those without a key are there too, and each says which variable to set."""
    ended = await program("models", "--all", env={**QUIET, "OPENAI_API_KEY": KEY, "COLUMNS": "120"})
    rows = [line for line in ended.out.splitlines() if "anthropic/" in line]

    assert rows
    assert all("set ANTHROPIC_API_KEY" in row for row in rows)
    assert any(line.startswith("●  openai/gpt-6.1-sol") for line in ended.out.splitlines())


@pytest.mark.slow
async def test_as_json(home: Path) -> None:
    """With --json each model is one object, prices in dollars per million tokens."""
    write(home, "model = 'mine'\n[[models]]\nname = 'ollama/qwen3'\naliases = ['mine']\ncontext_tokens = 40_000\n")
    ended = await program("models", "--json", env={**QUIET, "ANTHROPIC_API_KEY": KEY})
    rows = {row["name"]: row for row in map(json.loads, ended.out.splitlines())}

    mine, haiku = rows["ollama/qwen3"], rows["anthropic/claude-haiku-4-5"]
    assert (["mine"], True, True, 40_000, None) == (
        mine["aliases"],
        mine["default"],
        mine["available"],
        mine["context_tokens"],
        mine["prices"],
    )
    assert (False, {"input": 1.0, "output": 5.0, "cache_read": 0.1, "cache_write": 1.25}) == (
        haiku["default"],
        haiku["prices"],
    )
    assert KEY not in ended.out


@pytest.mark.slow
async def test_a_chosen_model_without_a_key(home: Path) -> None:
    """A model that was chosen and cannot be used is told together with the list."""
    write(home, "model = 'opus'\n")
    ended = await program("models", env={**QUIET, "OPENAI_API_KEY": KEY})

    assert 0 == ended.code
    assert "anthropic/claude-opus-5-5 cannot be used: set ANTHROPIC_API_KEY" in ended.out.splitlines()


PROVIDERS = (
    '[{"name": "echo", "models": [{"id": "fast"}, {"id": "slow"}]},'
    ' {"name": "closed", "oauth": True, "models": [{"id": "one"}]},'
    ' {"name": "openai", "models": [{"id": "fake"}]}]'
)
PROVIDING = GOOD.replace('"hooks": ["tool_call"],', f'"hooks": [], "providers": {PROVIDERS},')


async def agree(home: Path, name: str, source: str) -> None:
    make_extension(home / "extensions", name, source)
    ended = await program("ext", "trust", name, "--yes")
    assert 0 == ended.code, ended.err


async def listed(*options: str) -> list[dict[str, Any]]:
    ended = await program("models", "--json", *options, env=QUIET)
    assert (0, "") == (ended.code, ended.err)
    rows = [json.loads(line) for line in ended.out.splitlines()]
    return [{key: row[key] for key in ("name", "extension", "available", "default")} for row in rows]


def row(name: str, *, available: bool = True, default: bool = False) -> dict[str, Any]:
    return {"name": name, "extension": "echo", "available": available, "default": default}


async def test_models_of_extensions(home: Path, alone: None) -> None:
    """The models of an extension that may run are listed, one without a login only with --all, a taken name never."""
    write(home, "model = 'echo/slow'\n")
    await agree(home, "echo", PROVIDING)

    assert [row("echo/fast"), row("echo/slow", default=True)] == await listed()
    ended = await program("models", "--all", env={**QUIET, "COLUMNS": "160"})
    (slow,) = [line for line in ended.out.splitlines() if "echo/slow" in line]
    assert (True, True) == (slow.startswith("●"), slow.endswith("of the extension echo"))
    (closed,) = [line for line in ended.out.splitlines() if "closed/one" in line]
    assert closed.endswith("nobody is logged in to closed: session-core ext login echo/closed")
    assert "openai/fake" not in ended.out


async def test_models_of_extensions_that_a_service_runs(home: Path, alone: None) -> None:
    """While a service runs, it tells the same models: no second process of the extension is started for it."""
    starts = home / "starts"
    noted = f"print('started', file=open({str(starts)!r}, 'a'))\n"
    await agree(home, "echo", noted + PROVIDING)
    try:
        assert 0 == (await program("serve", env={**QUIET, "SESSION_CORE_MODEL": "demo"})).code
        assert [row("echo/fast"), row("echo/slow")] == [each for each in await listed() if each["extension"]]
        everything = [each for each in await listed("--all") if each["extension"]]
        assert [row("closed/one", available=False), row("echo/fast"), row("echo/slow")] == sorted(
            everything, key=lambda each: str(each["name"])
        )
        assert "started\n" == starts.read_text()
    finally:
        await kill(home)  # noqa: ASYNC102 - bounded by its own time limit


async def test_an_extension_that_cannot_tell_its_models(home: Path, alone: None) -> None:
    """One that crashes takes nothing from the others, and its error stands below the list."""
    await agree(home, "broken", "raise SystemExit('no paper')")
    await agree(home, "echo", PROVIDING)
    ended = await program("models", env=QUIET)

    assert "echo/fast" in ended.out
    reason = "it did not start: its process ended with exit status 1, before it was ready; it said: no paper"
    assert f"the models of broken are not known, because {reason}" in ended.out.splitlines()


async def test_no_extension_runs_unasked(home: Path, alone: None) -> None:
    """An extension without consent is not started to list its models, and neither is any if they are not used."""
    started = f"open({str(home / 'started')!r}, 'w')\n"
    make_extension(home / "extensions", "echo", started + PROVIDING)
    assert [] == await listed()
    assert 0 == (await program("ext", "trust", "echo", "--yes")).code
    write(home, "[extensions]\nuse = false\n")
    assert [] == await listed()
    assert not (home / "started").exists()


def test_prices() -> None:
    """Prices are those of reading and of writing, and a question mark where nobody knows."""
    assert "0.1 / 12.5" == price(sc.setup.Prices(input=100_000, output=12_500_000, cache_read=0, cache_write=0))
    assert "?" == price(None)


def test_lines_fit_and_cannot_steer() -> None:
    """Names that a server made up are made harmless, and no line is wider than the terminal."""
    infos = [
        sc.ModelInfo(name=f"ollama/{'x' * 300}\x1b[31m", provider="ollama", api_id="x", described=False),
        sc.ModelInfo(name="a/b", provider="a", api_id="b", retires=date(2027, 1, 1)),
    ]
    choices = [
        sc.setup.ModelChoice(info=infos[0]),
        sc.setup.ModelChoice(info=infos[1], why_not="set \x1b]0;x\x07 A_KEY"),
    ]
    lines = model_lines(Style(), choices, None, width=80)

    assert 3 == len(lines)
    assert all(len(line) <= 80 and line.isprintable() for line in lines)
    assert "until 2027-01-01" == note(sc.setup.ModelChoice(info=infos[1]))
