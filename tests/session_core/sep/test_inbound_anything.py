"""Nothing that an extension says, in whatever shape, is an accident here."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.notifications import NOTES
from session_core.sep.host.calls.requests import _METHODS
from session_core.sep.host.registry_updates import REGISTER
from tests.session_core.sep._inbound import SESSION, World, speaking

KEYS = [
    "text",
    "role",
    "deliver_as",
    "entry",
    "model",
    "thinking",
    "kind",
    "prompt",
    "options",
    "default",
    "widget",
    "status",
    "title",
    "key",
    "value",
    "prefix",
    "command",
    "args",
    "cwd",
    "tools",
    "topic",
    "payload",
    "call_id",
    "progress",
    "details",
    "request_id",
    "event",
    "message",
    "level",
    "fields",
    "name",
    "flags",
    "commands",
]
WORDS = st.sampled_from([*KEYS, "", "confirm", "select", "set_widget", "assistant", "steer", "markdown"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
GOOD = "a good one"


@given(
    method=st.sampled_from([*_METHODS, *NOTES, REGISTER, "unknown"]),
    params=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=8),
    claimed=ANYTHING | st.just(GOOD),
    random=st.random_module(),
)
async def test_an_answer_is_an_object_or_an_error_with_a_code(
    method: str, params: dict[str, Any], claimed: Any, random: object
) -> None:
    """Whatever params come with a method, the answer is an object or an error with a code, and telling never raises."""
    world = World()
    failed: RpcFailed | None = None
    answer: Any = {}
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        params["context"] = context.wire if claimed == GOOD else claimed
        world.tell(speaking(), method, params)
        try:
            answer = await world.ask(speaking(), method, params)
        except RpcFailed as error:
            failed = error
    assert isinstance(answer, dict)
    assert failed is None or (failed.code in {-32601, -32602, -32003, -32001} and failed.message)
