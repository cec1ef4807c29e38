"""The agent behind `run`: its model, its limits, and what people are told about both."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import session_core as sc
from frontends.commands.run.embedded_service import EmbeddedRun, open_embedded
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.shared.attachments import PromptAttachments
from frontends.shared.parser import UsageError
from tests.frontends._kept import keep_sessions, kept_sessions, summary
from tests.frontends._program import program

KEY = "sk-ant-api03-Zq7Kp2Vx9Lm4Nt6Rw8Bc1Df3Gh5Jk0"
NO_SERVER = '[providers.ollama]\nbase_url = "https://localhost:9"\n'


def configure(home: Path, text: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text(text, encoding="utf-8")


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


@asynccontextmanager
async def embedded(home: Path, known: sc.SessionSummary | None = None, **changes: Any) -> AsyncGenerator[EmbeddedRun]:
    """Open a service for a turn; it writes nothing."""
    options = RunOptions(prompt="x", home=home, cwd="/", is_persistent=False, **changes)
    continued = ContinuedSession(summary=known, short="a") if known is not None else None
    async with open_embedded(options, continued) as service:
        yield service


async def model_of(home: Path, known: sc.SessionSummary | None = None, **changes: Any) -> str:
    async with embedded(home, known, **changes) as service:
        return service.model


@pytest.mark.slow
async def test_without_a_key(home: Path) -> None:
    """Without any key the demo answers, and people are told once what to set; --quiet and --json leave that out."""
    configure(home, NO_SERVER)
    nothing = {"SESSION_CORE_MODEL": ""}
    told = await program("run", "--no-save", "count to 1", env=nothing)
    quiet = await program("run", "--no-save", "--quiet", "count to 1", env=nothing)
    as_json = await program("run", "--no-save", "--json", "count to 1", env=nothing)

    sentence = "● no API key is configured, so the offline demo model is used: set ANTHROPIC_API_KEY or OPENAI_API_KEY"
    assert (0, "1 Done.\n", 1) == (told.code, told.out, told.err.count(sentence))
    assert (1, 1) == (told.err.count("offline demo"), as_json.err.count("offline demo")), "once is enough"
    assert ("1 Done.\n", "") == (quiet.out, quiet.err)
    assert "set ANTHROPIC_API_KEY" not in as_json.err
    assert ["config.toml"] == names_in(home), "--no-save keeps nothing"


async def test_a_key_makes_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key a real model answers, by an alias too, and people are told why it is that one."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("SESSION_CORE_MODEL")
    async with embedded(home) as found:
        remarks = await found.list_remarks()
    async with embedded(home, model="opus") as chosen:
        assert chosen.model == chosen.setup.service.model

    assert (False, False) == (found.is_demo, chosen.is_demo)
    assert f"{found.model} answers: there is a key for anthropic" in remarks
    assert chosen.model.startswith("anthropic/claude-opus")
    assert KEY not in repr(remarks)


async def test_the_model_of_a_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session keeps its own model, is refused with what to do when that has no key, and may take another."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    opus = await model_of(home, model="opus")
    known = summary("ses_a", model=opus)
    assert opus == await model_of(home, known)

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(UsageError) as refused:
        await model_of(home, known)
    assert (
        f"the model of this session cannot be used now: {opus} cannot be used: set ANTHROPIC_API_KEY; "
        "or choose another with --model"
    ) == str(refused.value)
    assert "demo" == await model_of(home, known, model="demo")


async def test_limits_and_what_cannot_be_held(home: Path) -> None:
    """Limits of the command line come before those of the settings, and one that cannot hold is told."""
    configure(home, '[limits]\nsteps = 9\ntokens = 7\n[[models]]\nname = "ollama/blind"\nimages = false\n')
    limits = sc.TurnLimits(steps=3, cost_micros=5)
    images = PromptAttachments(images=(sc.ImagePart(media_type="image/png", data="aGVsbG8="),))
    async with embedded(home, model="ollama/blind", limits=limits, attached=images) as service:
        session_id = (await service.service.create_session()).session_id
        given = (await service.service.load_session(session_id)).settings.limits
        remarks = await service.list_remarks()

    assert sc.TurnLimits(steps=3, tokens=7, cost_micros=5) == given
    assert [
        "the price of ollama/blind is unknown, so --max-cost cannot end a turn",
        "ollama/blind cannot see images: it is only told that they exist",
    ] == remarks


@pytest.mark.slow
async def test_flags_reach_the_session(home: Path) -> None:
    """What was said on the command line is what the session has, hyphens and all; its model stays when it goes on."""
    modes = ("--permissions", "auto-edit", "--thinking", "low", "--sandbox", "read-only")
    bounds = ("--max-steps", "7", "--max-cost", "0.5", "--max-time", "90")
    ended = await program("run", *modes, *bounds, "count to 1")
    changed = ("--thinking", "high", "--permissions", "read-only", "--sandbox", "full_access")
    again = await program("run", "--continue", *changed, "count to 2")
    session = (await kept_sessions(home))["count to 1"]
    async with sc.open_session_service(sc.ServiceConfig(store=sc.SqliteStore(home), wakeups=False)) as service:
        settings = (await service.load_session(session.session_id)).settings

    assert (0, 0) == (ended.code, again.code)
    assert ("demo", "read_only", "high") == (settings.model, settings.permission_mode, settings.thinking)
    assert sc.SandboxPolicy(mode="full_access") == settings.sandbox
    assert sc.TurnLimits(steps=7, cost_micros=500_000, time_ms=90_000) == settings.limits


async def test_a_slip_in_a_rule_is_told(home: Path) -> None:
    """A rule about a tool that is not there protects nothing: people are told when a turn begins."""
    configure(home, 'permissions = [{tool = "bas", decision = "deny"}]\n')
    async with embedded(home, model="demo") as service:
        (remark,) = await service.list_remarks()

    assert remark.startswith(f"{home / 'config.toml'}, line 1: permissions[1].tool: there is no tool called 'bas'")
    assert remark.endswith("did you mean bash?")


@pytest.mark.slow
async def test_a_limit_ends_the_turn() -> None:
    """A turn that reaches its limit says so and is exit code 4."""
    ended = await program("run", "--max-steps", "1", "list the files")

    assert 4 == ended.code
    assert "✗ ended after" in ended.err


@pytest.mark.slow
async def test_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    """Files of a project that do not count are told, with the command that makes them count."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    before = await program("run", "--cwd", str(folder), "count to 1")
    await program("trust", "--yes", str(folder))
    after = await program("run", "--cwd", str(folder), "count to 1")

    assert "● this folder is not trusted" in before.err
    assert "(to trust it: session-core trust)" in before.err
    assert "not trusted" not in after.err


@pytest.mark.slow
async def test_a_session_whose_model_is_gone(home: Path) -> None:
    """A session of a model that nobody knows any more is not answered by another one unasked."""
    (session_id,) = await keep_sessions(home, "count to 1")
    config = sc.ServiceConfig(
        store=sc.SqliteStore(home), models={"gone/model-1": sc.DemoProvider(pace_ms=0)}, tools=(), wakeups=False
    )
    async with sc.open_session_service(config) as service:
        await service.switch_model(session_id, "gone/model-1")
    refused = await program("run", "--session", session_id, "count to 2", env={"SESSION_CORE_MODEL": ""})
    helped = await program("run", "--session", session_id, "--model", "demo", "count to 2")

    assert (2, "") == (refused.code, refused.out)
    assert "session-core: the model of this session cannot be used now: there is no model called" in refused.err
    assert (0, "1 2 Done.\n") == (helped.code, helped.out)
