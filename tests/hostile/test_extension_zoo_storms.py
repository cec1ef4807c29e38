"""Extensions that ask for too much at once, claim what is not theirs, and leave processes everywhere."""

import json
from typing import Any

import pytest
import trio

from session_core import limits
from session_core.sep.protocol.names import CONTEXT_VIOLATION, METHOD_NOT_FOUND
from session_core.vocabulary import events as ev
from tests._needs import needs_sandbox
from tests.hostile._zoo import HEALTHY, Animal, Zoo, open_zoo
from tests.hostile.test_extension_zoo_floods import meanwhile

ECHOES = {"REGISTRATIONS": json.dumps({"subscriptions": ["bus/event", "turn_start"]})}
MIMIC = {
    "REGISTRATIONS": json.dumps(
        {
            "names": ["read", "bash", "healthy.echo", "echo.echo"],
            "commands": [{"name": "do"}, {"name": "healthy"}],
            "providers": [{"name": "openai", "models": [{"id": "gpt"}]}, {"name": "scripted", "models": [{"id": "m"}]}],
        }
    )
}
FORBIDDEN = (
    "initialize", "shutdown", "hook", "tool/execute", "command/execute", "provider/complete", "event", "attach",
    "dialog/answer", "answer_dialog", "answer_approval", "session/answer_dialog", "ui/answer", "session/create",
    "session/delete", "__class__", "", "x" * 10_000,
)  # fmt: skip


async def storm(zoo: Zoo, animal: str, method: str, count: int, **params: Any) -> dict[str, int]:
    """Have an animal make many requests at once, and say how many were answered in which way."""
    said = await zoo.do(animal, do="storm", method=method, params=params, count=count)
    codes: dict[str, int] = json.loads(said)
    assert sum(codes.values()) == count, "each has exactly one answer"
    return codes


async def test_storms_of_requests() -> None:
    """However many requests come at once, each is answered, a bounded number is carried out, and others are served."""
    async with open_zoo(Animal(name="eager")) as zoo:
        pings = await meanwhile(zoo, lambda: storm(zoo, "eager", "ping", 2_000), megabytes=100)
        assert pings.get("ok", 0) >= limits.MAX_RPC_REQUESTS, pings
        kv = await meanwhile(
            zoo, lambda: storm(zoo, "eager", "kv/set", 1_500, key="k$n", value="v" * 1_000), megabytes=100
        )
        assert 0 < kv["ok"] <= limits.MAX_KV_KEYS, kv


@needs_sandbox
@pytest.mark.slow
async def test_storm_of_programs() -> None:
    """Sixty programs at once are answered one and all, and others are served meanwhile."""
    async with open_zoo(Animal(name="eager")) as zoo:
        runs = await meanwhile(
            zoo, lambda: storm(zoo, "eager", "exec/run", 60, command="true", context="$own"), megabytes=100
        )
        assert 0 < runs["ok"], runs


@pytest.mark.slow
async def test_storm_of_dialogs() -> None:
    """A thousand questions at once open a bounded number of dialogs, and none is left in the end."""
    async with open_zoo(Animal(name="asks")) as zoo:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer_everything, zoo)
            codes = await meanwhile(
                zoo, lambda: storm(zoo, "asks", "ui/request", 1_000, kind="confirm", prompt="really?"), megabytes=150
            )
            nursery.cancel_scope.cancel()
        assert codes["ok"] > 0, codes
        assert zoo.most_dialogs <= limits.MAX_OPEN_REQUESTS
        assert not (await zoo.service.load_session(zoo.session_id)).dialogs


async def _answer_everything(zoo: Zoo) -> None:
    while True:
        dialogs = zoo.service.core.session(zoo.session_id).state.dialogs
        zoo.most_dialogs = max(zoo.most_dialogs, len(dialogs))
        for dialog in list(dialogs):
            await zoo.me.answer_dialog(zoo.session_id, dialog.request_id, True)
        await trio.sleep(0.01)


@pytest.mark.slow
async def test_storm_on_the_bus() -> None:
    """Extensions that answer each word on the bus with another one keep nobody else from working."""
    echoes = [Animal(name=f"echo{n}", how="echoes", env=ECHOES) for n in range(3)]
    async with open_zoo(*echoes) as zoo:
        for _ in range(3):
            await zoo.check_all_is_well()
        await zoo.until(lambda: zoo.published > 1_000)
        await zoo.check_all_is_well()
        assert all(zoo.extension(each.name).state == "ready" for each in echoes)


async def test_contexts_that_are_not_theirs() -> None:
    """No token of another extension, of a dispatch that is over, of an event or of an earlier process lets one act."""
    says = {"method": "session/send_message", "text": "evil"}
    async with open_zoo(Animal(name="thief"), Animal(name="victim", when="event", how="ignore")) as zoo:
        assert await zoo.refusal("thief", **says, context="$own") == 0
        old = json.loads(await zoo.do("thief", do="contexts"))
        forged: list[Any] = [*old, None, 7, {}, {"tier": "command"}, {"token": "epoch-1", "tier": "command"}]
        forged += [{"token": {}, "tier": "command"}, {"token": "x" * 100_000, "tier": "command"}]
        for context in forged:
            assert await zoo.refusal("thief", **says, context=context) == CONTEXT_VIOLATION, context
            assert await zoo.refusal("thief", "exec/run", command="true", context=context) == CONTEXT_VIOLATION, context
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: zoo.do("victim", do="hold"))
            token = zoo.notes("victim") / "token"
            await zoo.until(token.exists)
            stolen = json.loads(token.read_text())
            assert await zoo.refusal("thief", **says, context=stolen) == CONTEXT_VIOLATION
            (zoo.notes("victim") / "go").touch()
        await zoo.check_turn()
        await zoo.until((zoo.notes("victim") / "deed").exists)
        events = [each for each in json.loads(await zoo.do("victim", do="contexts")) if each["tier"] == "event"]
        assert events
        for each in events:
            claimed = {**each, "tier": "command"}
            assert await zoo.refusal("victim", **says, context=claimed) == CONTEXT_VIOLATION
        await zoo.service.reload_extension("thief")
        assert await zoo.refusal("thief", **says, context=old[-1]) == CONTEXT_VIOLATION
        said = [each for each in zoo.events if isinstance(each.event, ev.MessageAdded) and "evil" in str(each.event)]
        assert len(said) == 1, "only the one that was allowed"


async def test_methods_that_are_not_theirs() -> None:
    """An extension cannot use what only the host or people may: it is told that there is no such method."""
    async with open_zoo(Animal(name="curious")) as zoo:
        for method in FORBIDDEN:
            assert await zoo.refusal("curious", method, context="$own") == METHOD_NOT_FOUND, method
        await zoo.check_all_is_well()


async def test_names_of_others() -> None:
    """Names that look like those of others take nothing from them."""
    async with open_zoo(Animal(name="a-mimic", env=MIMIC)) as zoo:
        (zoo.root / "notes.txt").write_text("mine")
        turn = await zoo.check_turn("read", f"{HEALTHY}.echo", f"a-mimic.{HEALTHY}.echo", "a-mimic.read")
        texts = [result.text for result in turn.results]
        assert sorted(texts[1:]) == ["from echo", f"from {HEALTHY}.echo", "from read"], texts
        assert "from read" not in texts[0], "our own tool answers, if only that its arguments are wrong"
        models = zoo.service.core.config.models
        assert models["scripted"] is zoo.provider
        await zoo.check_all_is_well()


async def test_processes_everywhere() -> None:
    """Fifty children, some of them in sessions of their own and deaf to signals, are gone with their extension."""
    async with open_zoo(Animal(name="breeds"), Animal(name="hides")) as zoo:
        await zoo.do("breeds", do="fork", count=50)
        await zoo.do("hides", do="fork", count=10, away=True)
        await zoo.until(lambda: len(zoo.processes()) == 63)
        await zoo.check_all_is_well()
        await zoo.service.reload_extension("breeds")
        await zoo.until(lambda: len(zoo.processes()) == 13)
        await zoo.check_all_is_well()
