"""Names of tools that interfaces do not take: made to fit, never the same for two, and led back."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId
from session_core.providers import anthropic, openai_chat, openai_responses
from session_core.providers.anthropic_stream import AnthropicDecoder
from session_core.providers.base import ModelRequest, ToolCallOpened
from session_core.providers.http import Decoder
from session_core.providers.openai_chat_stream import ChatDecoder
from session_core.providers.openai_responses import ResponsesDecoder
from session_core.providers.tool_names import MAX_TOOL_NAME_CHARS, ToolNames
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.providers._contract import message
from tests.session_core.providers._openai import decode
from tests.session_core.providers._recordings import recording

_FITS = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_TOOL_NAME_CHARS}}}")
_names = st.text("ab._-é ", max_size=4) | st.sampled_from(
    ["a." + "b" * 80, "a_" + "b" * 80, "a_b", "a.b", "unnamed", ""]
)


@given(st.lists(_names, max_size=8), st.lists(_names, max_size=8))
def test_every_tool_has_a_name_of_its_own(offered: list[str], called: list[str]) -> None:
    """Whatever tools are called, their names fit, differ, lead back, and those that fit already stay as they are."""
    names = ToolNames(offered)
    fitted = {name: names.fit(name) for name in [*called, *offered]}
    assert all(_FITS.fullmatch(each) for each in fitted.values())
    assert len(set(fitted.values())) == len(fitted)
    assert {names.ours[fitted[name]] for name in offered} == set(offered)
    assert set(names.ours.values()) == set(offered)
    assert all(fitted[name] == name for name in offered if _FITS.fullmatch(name))


def test_names_stay_the_same_from_request_to_request() -> None:
    """A name does not depend on the order of the tools, nor on other tools that do not want it."""
    long = "srv." + "x" * 80
    assert ToolNames(["srv.find", "other", long]).fit("srv.find") == "srv_find" == ToolNames([]).fit("srv.find")
    assert ToolNames([long]).fit(long) == ToolNames([long[:-1], "srv.find", long]).fit(long)
    first, second = ToolNames(["a.b", "a_b"]), ToolNames(["a_b", "a.b"])
    assert first.ours == second.ours
    assert first.fit("a_b") == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", first.fit("a.b"))


TOOLS = tuple(
    ToolSpec(name=name, description="", parameters=JsonObject()) for name in ("mail.send", "mail_send", "mail.list")
)
CALLED = ("mail.send", "mail_send", "gone.tool")
PAST = [
    part
    for name in CALLED
    for part in (
        message("assistant", ToolCallPart(call_id=CallId(f"call_{name}"), name=name, arguments=JsonObject())),
        message("tool", ToolResultPart(call_id=CallId(f"call_{name}"), name=name, status="success", text=f"by {name}")),
    )
]
ASKED = ModelRequest(model="m", messages=(message("user", "go"), *PAST), tools=TOOLS)


def _of_anthropic() -> tuple[list[str], list[str]]:
    body = anthropic.build_request(ASKED, "m")
    blocks = [block for each in body["messages"] for block in each["content"]]
    return [tool["name"] for tool in body["tools"]], [each["name"] for each in blocks if each["type"] == "tool_use"]


def _of_chat() -> tuple[list[str], list[str]]:
    body = openai_chat.build_request(ASKED, "m", openai_chat.ChatOptions())
    calls = [call for each in body["messages"] for call in each.get("tool_calls", [])]
    return [tool["function"]["name"] for tool in body["tools"]], [call["function"]["name"] for call in calls]


def _of_responses() -> tuple[list[str], list[str]]:
    body = openai_responses.build_request(ASKED, "m", openai_responses.ResponsesOptions())
    calls = [each["name"] for each in body["input"] if each["type"] == "function_call"]
    return [tool["name"] for tool in body["tools"]], calls


@pytest.mark.parametrize("names_in", [_of_anthropic, _of_chat, _of_responses])
def test_a_request_calls_each_tool_the_same_throughout(names_in: Callable[[], tuple[list[str], list[str]]]) -> None:
    """Every interface is told names that it takes, all different, for tools on offer and for earlier calls of them."""
    names = ToolNames(tool.name for tool in TOOLS)
    offered, called = names_in()
    assert offered == [names.fit(tool.name) for tool in TOOLS]
    assert called == [names.fit(name) for name in CALLED]
    assert len({*offered, *called}) == 4
    assert all(_FITS.fullmatch(each) for each in (*offered, *called))


RENAMED = {"read_file": "files.read"}


@pytest.mark.parametrize(
    ("kind", "name", "make"),
    [
        ("anthropic", "parallel_tools", lambda: AnthropicDecoder(names=RENAMED)),
        ("openai_chat", "tools_parallel", lambda: ChatDecoder(names=RENAMED)),
        ("openai_responses", "reasoning_tools", lambda: ResponsesDecoder(names=RENAMED)),
    ],
)
def test_answers_call_tools_by_our_names(kind: str, name: str, make: Callable[[], Decoder]) -> None:
    """What a model calls by the name it was told arrives under ours; other names stay as they are."""
    opened = {each.name for each in decode(make, recording(kind, name)) if isinstance(each, ToolCallOpened)}
    assert opened == {"files.read", "list_files"}
