"""The protocol of the examples is a whole one: small, conforming, installable, and it does what it shows."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
import trio

from session_core.errors import SessionCoreError
from session_core.protocols.options import PluginOptions
from session_core.protocols.registry import GROUP, ProtocolRegistry
from session_core.service.config import ServiceConfig
from session_core.testing.check_protocol import PROTOCOL_CHECKS, check_protocol
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary.frozen import JsonObject
from tests.docs._documents import ROOT
from tests.session_core.service._helpers import new_session, say, scripted, transcript

PLACE = ROOT / "examples" / "protocols"


@pytest.fixture(name="review")
def load_review(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the example, as it is imported where it is installed."""
    spec = spec_from_file_location("review", PLACE / "review.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "review", module)
    spec.loader.exec_module(module)
    return module


def reviewing(review: ModuleType, provider: ScriptedProvider, **settings: object) -> ServiceConfig:
    """The config of a service whose sessions have the protocol."""
    return scripted(provider, protocols=(review.ReviewProtocol(),), protocol="review", **settings)


@pytest.mark.slow
async def test_it_conforms(review: ModuleType) -> None:
    """The example passes the conformance suite, with tools, with more rounds, and with none."""
    report = await check_protocol(review.ReviewProtocol, script=(tool_call("look"), text("4"), text("5")))
    assert ("review", len(PROTOCOL_CHECKS)) == (report.protocol, len(report.passed) + len(report.skipped))
    assert {"it hides nothing of an answer", "it has no executor"} == set(report.skipped.values())
    for rounds in (0, 2):
        await check_protocol(review.ReviewProtocol, options=JsonObject({"rounds": rounds}))


async def test_an_answer_is_reviewed(review: ModuleType) -> None:
    """The model works with its tools, is asked to check its answer, and what it says then is the answer."""
    provider = ScriptedProvider(tool_call("look"), text("41"), text("42"))
    config = reviewing(review, provider, tools=(ScriptedTool("look"),))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        said = await transcript(service, session_id)
    assert ("completed", "42", 3) == (outcome.status, outcome.final_text, outcome.steps)
    assert [("assistant", "41"), ("user", review.QUESTION), ("assistant", "42")] == said[-3:]


async def test_a_message_meanwhile_is_reviewed_too(review: ModuleType) -> None:
    """What people say while an answer is reviewed is answered, and that answer is reviewed in its turn."""
    provider = ScriptedProvider(text("41"), (Pause("review"), *text("42")), text("43"), text("44"))
    async with open_checked_service(reviewing(review, provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("review")
        await service.send_user_message(session_id, "and one more?")
        provider.release("review")
        outcome = (await service.wait_for_turn(session_id)).outcome
    assert ("completed", "44", 4) == (outcome.status, outcome.final_text, outcome.steps)


async def test_json_is_not_reviewed(review: ModuleType) -> None:
    """An answer that must be JSON is held to its schema, and not asked for again."""
    async with open_checked_service(reviewing(review, ScriptedProvider(text('{"n": 3}')))) as service:
        session_id = await new_session(service)
        schema = JsonObject({"type": "object", "required": ("n",)})
        await service.send_user_message(session_id, "go", output_schema=schema)
        outcome = (await service.wait_for_turn(session_id)).outcome
    assert ("completed", JsonObject({"n": 3}), 1) == (outcome.status, outcome.output, outcome.steps)


async def test_helpers_are_not_reviewed(review: ModuleType) -> None:
    """A child session has the protocol, without rounds of its own, and one can be asked for."""
    answers = [text("done")] * 9
    async with open_checked_service(reviewing(review, ScriptedProvider(*answers))) as service:
        parent = await new_session(service)
        stated = JsonObject({"review": {"rounds": 2}})
        plain, eager = [await new_session(service, parent_id=parent, **more) for more in ({}, {"options": stated})]
        assert [1, 3, 2] == [(await say(service, each)).steps for each in (plain, eager, parent)]


async def test_what_the_program_says_today(review: ModuleType) -> None:
    """The question is the program's own and may change between two openings; the rounds are the session's."""
    provider = ScriptedProvider(text("41"), text("42"))
    supplied = PluginOptions({"review": JsonObject({"question": "Sure?"})})
    async with open_checked_service(reviewing(review, provider, protocol_options=supplied)) as service:
        await say(service, await new_session(service))
        with pytest.raises(SessionCoreError, match="rounds must be from 0 to 5") as refused:
            await new_session(service, options=JsonObject({"review": {"rounds": 6}}))
    assert "options.review" == (refused.value.field or "")[:14]
    assert "Sure?" == provider.requests[1].messages[-1].text


def test_it_is_found_by_its_entry_point(review: ModuleType) -> None:
    """Installed as its pyproject says, it is listed by name, and loaded when it is wanted."""
    project = tomllib.loads((PLACE / "pyproject.toml").read_text(encoding="utf-8"))
    ((name, value),) = project["project"]["entry-points"][GROUP].items()
    registry = ProtocolRegistry(installed=[EntryPoint(name=name, value=value, group=GROUP)])
    assert "review" in registry.names()
    assert isinstance(registry.get("review"), review.ReviewProtocol)


@pytest.mark.slow
async def test_it_runs_as_it_stands() -> None:
    """The example prints what it is there to show, and has under 100 lines."""
    script = PLACE / "review.py"
    with trio.fail_after(120):
        done = await trio.run_process([sys.executable, "-W", "error", str(script)], capture_stdout=True)
    assert b"1 reviews, 2 steps: It is 42.\n0 reviews, 1 steps: It is 41.\n" == done.stdout
    assert len(script.read_text(encoding="utf-8").splitlines()) < 100
