"""Extensions that fall over, fall silent or talk nonsense, each at every kind of message, in one running service."""

import pytest

from session_core.errors import ExtensionFailed
from tests._mostly_slow import mostly_slow
from tests.hostile._zoo import HEALTHY, SILENCES, Animal, open_zoo

MOMENTS = ("start", "initialize", "command", "tool", "event", "shutdown", "hook:before_agent_start")
ENDS = ("exit", "kill", "half_a_line", "no_stdout", "no_pipes", "grandchild", "daemon")
"""Ways of misbehaving after which there is nobody left to talk to."""
NONSENSE = ("garbage", "wrong_patch", "error_of_any_kind", "unreadable", "deep", "long_line", "twice", "for_others")
"""Ways that answer with what is no answer."""
ALL = (*ENDS, *SILENCES, *NONSENSE)


def animals(how: str) -> list[Animal]:
    """One animal for each moment; turns wait for those that are being started, so few are silent then."""
    moments = MOMENTS[2:] if how in SILENCES and how != "hang" else MOMENTS
    return [Animal(name=when.replace(":", "-"), when=when, how=how) for when in moments]


@pytest.mark.parametrize("how", mostly_slow(ALL, quick=2))
async def test_every_moment(how: str) -> None:
    """Whatever an extension does when it is asked something, turns come to their end and others feel nothing of it."""
    async with open_zoo(*animals(how)) as zoo:
        for animal in animals(how):
            await zoo.poke(animal.name, animal.when)
        await zoo.check_all_is_well()
        if how in ENDS:
            await zoo.until(lambda: all(zoo.extension(name).generation > 1 for name in ("command", "tool", "event")))
            await zoo.until(lambda: all(zoo.extension(name).state == "failed" for name in ("start", "initialize")))
            assert all(zoo.extension(name).problem for name in ("start", "initialize"))


@pytest.mark.parametrize("how", mostly_slow(["hang", "exit", "garbage", "wrong_patch", "long_line"], quick=2))
async def test_guard_that_fails(how: str) -> None:
    """A guard that fails means no to a tool call, the turn goes on, and without the guard all is well again."""
    async with open_zoo(Animal(name="guard", when="hook:tool_call", how=how)) as zoo:
        for _ in range(3):
            turn = await zoo.check_turn(f"{HEALTHY}.echo")
            [result] = turn.results
            # A patch for somebody else's call is passed over; everything else is no answer.
            assert result.status == ("success" if how == "wrong_patch" else "denied"), result
            assert "fail-closed" in result.text or how == "wrong_patch", result
        assert await zoo.do(HEALTHY) == "done"
        await zoo.service.disable_extension("guard")
        await zoo.check_all_is_well()


async def test_one_that_exits_again_and_again() -> None:
    """An extension that crashes each time it is used is given up with a reason, and can be reloaded."""
    async with open_zoo(Animal(name="weak", when="command", how="exit")) as zoo:
        weak = zoo.extension("weak")
        with pytest.raises(ExtensionFailed):
            await zoo.do("weak")
        await zoo.until(lambda: (weak.generation, weak.state) == (2, "ready"))
        with pytest.raises(ExtensionFailed):
            await zoo.do("weak")
        await zoo.until(lambda: weak.state == "failed")
        assert "exit status 3" in (weak.problem or "")
        await zoo.check_all_is_well()
        await zoo.service.reload_extension("weak")
        assert weak.state == "ready"
