"""What extensions tell without waiting: it reaches the host checked, or is passed over with a word in their log."""

from typing import Any

import pytest

from session_core import limits
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.registrations import CommandRegistration, Registrations
from tests.session_core.sep._inbound import World, speaking


@pytest.fixture
def world() -> World:
    return World()


NOTES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("tool/update", {"call_id": "c", "message": "half", "progress": 0.5}, ("tool", "ext", "c", "half", 0.5, None)),
    ("tool/update", {"call_id": "c", "details": [1, {}]}, ("tool", "ext", "c", None, None, [1, {}])),
    ("tool/update", {"call_id": "c", "progress": 1, "message": ""}, ("tool", "ext", "c", "", 1.0, None)),
    ("provider/delta", {"request_id": "r", "event": {"type": "Done"}}, ("delta", "ext", "r", {"type": "Done"})),
    ("bus/publish", {"topic": "t", "payload": {"a": [1]}}, ("publish", "ext", "t", {"a": [1]})),
    ("bus/publish", {"topic": "t"}, ("publish", "ext", "t", {})),
    ("bus/publish", {"topic": "t", "payload": None}, ("publish", "ext", "t", {})),
    (
        "registry/update",
        {"commands": [{"name": "new", "description": "d"}]},
        (
            "registry",
            "ext",
            Registrations(commands=(CommandRegistration(name="new", description="d"),), flags=("old",)),
        ),
    ),
]


@pytest.mark.parametrize(("method", "params", "told"), NOTES)
async def test_both_ways_of_telling(world: World, method: str, params: dict[str, Any], told: tuple[Any, ...]) -> None:
    """What is told as a notification may come as a request too, which is answered with an empty object."""
    extension = speaking(registrations=Registrations(flags=("old",)))
    world.tell(extension, method, params)
    assert {} == await world.ask(extension, method, params)
    assert [told, told] == world.host.told
    assert [] == world.host.logged


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("tool/update", {"message": "m"}, "call_id"),
    ("tool/update", {"call_id": "c", "progress": 1.1}, "progress"),
    ("tool/update", {"call_id": "c", "progress": "half"}, "progress"),
    ("tool/update", {"call_id": "c", "message": {}}, "message"),
    ("tool/update", {"call_id": "c", "details": "x" * limits.MAX_SHOWN_CHARS}, "larger"),
    ("provider/delta", {"request_id": "r"}, "event"),
    ("provider/delta", {"request_id": "r", "event": 5}, "event"),
    ("registry/update", {"tools": [{"name": "no schema"}]}, "tools[0]"),
    ("log", {"level": "info"}, "message"),
]


@pytest.mark.parametrize(("method", "params", "word"), WRONG)
async def test_wrong_notes_are_passed_over(world: World, method: str, params: dict[str, Any], word: str) -> None:
    """A notification that is wrong changes nothing and is explained in the log; as a request it is answered so."""
    world.tell(speaking(), method, params)
    ((name, level, message, _),) = world.host.logged
    assert ("ext", "warn") == (name, level)
    assert message.startswith(f"{method} was ignored: ")
    assert word in message
    with pytest.raises(RpcFailed) as failed:
        await world.ask(speaking(), method, params)
    assert -32602 == failed.value.code
    assert [] == world.host.told


@pytest.mark.parametrize(
    "params",
    [{}, {"topic": ""}, {"topic": 5}, {"topic": "t", "payload": [1]}, {"topic": "t", "payload": {"x": "y" * 10**6}}],
)
async def test_the_bus_never_answers_with_an_error(world: World, params: dict[str, Any]) -> None:
    """Extensions do not wait for the answer of the bus and die of an error, so even nonsense is answered well."""
    assert {} == await world.ask(speaking(), "bus/publish", params)
    assert [] == world.host.told
    assert 1 == len(world.host.logged)


async def test_the_bus_is_a_capability(world: World) -> None:
    """Who may not use the bus is answered well too, but heard by nobody."""
    assert {} == await world.ask(speaking(without=("bus",)), "bus/publish", {"topic": "t"})
    world.tell(speaking(without=("bus",)), "bus/publish", {"topic": "t"})
    assert [] == world.host.told
    assert 2 == len(world.host.logged)
    assert "does not enable bus" in world.host.logged[0][2]


async def test_a_process_that_was_replaced_registers_nothing(world: World) -> None:
    """Only the process that speaks for an extension may change what is registered."""
    extension = speaking()
    extension.generation = 2
    with pytest.raises(RpcFailed, match="only the running process"):
        await world.ask(extension, "registry/update", {"flags": ["f"]}, generation=1)
    assert [] == world.host.told
    assert {} == await world.ask(extension, "registry/update", {"flags": ["f"]})


@pytest.mark.parametrize(
    ("params", "logged"),
    [
        ({"level": "error", "message": "m", "fields": {"a": 1}}, ("ext", "error", "m", {"a": 1})),
        ({"level": "trace", "message": "m"}, ("ext", "trace", "m", None)),
        ({"level": ["odd"], "message": "m", "fields": 5}, ("ext", "info", "m", None)),
        ({"message": "x" * 5_000}, ("ext", "info", "x" * limits.EXTENSION_LOG_CHARS, None)),
    ],
)
def test_words_for_the_log(world: World, params: dict[str, Any], logged: tuple[Any, ...]) -> None:
    """Whatever an extension logs is written down, cut to one line's length, at the level it names if there is one."""
    world.tell(speaking(), "log", params)
    assert [logged] == world.host.logged


def test_unknown_notifications(world: World) -> None:
    """A notification that nobody knows, or a question that nobody could answer, is only mentioned in the log."""
    world.tell(speaking(), "kv/set", {"key": "k", "value": 1})
    world.tell(speaking(), "x" * 10_000)
    assert [] == world.service.calls
    assert ['"kv/set" is not a known notification, and was ignored'] == [
        message for _, _, message, _ in world.host.logged[:1]
    ]
    assert len(world.host.logged[1][2]) <= limits.EXTENSION_LOG_CHARS
