"""Which models can be used, which one answers when nothing was chosen, and where keys go."""

import json
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.config.load import load_config
from session_core.config.values import Config
from session_core.errors import InvalidInput
from session_core.providers.anthropic import AnthropicProvider
from session_core.providers.base import ModelFailed, ModelRequest
from session_core.providers.catalogue import BUILT_IN_PROVIDERS, ProviderSettings, find_model
from session_core.providers.model_choice import (
    MAX_PROBE_BYTES,
    PickedModel,
    _parse_model_names,
    available_models,
    default_model,
    find_key,
    make_endpoint,
    make_provider,
    probe_ollama,
    resolve_model,
)
from session_core.providers.openai_chat import ChatCompletionsProvider
from session_core.providers.openai_responses import ResponsesProvider
from session_core.providers.secrets import Secret

KEY = "sk-ant-api03-Zq7Kp2Vx9Lm4Nt6Rw8Bc1Df3Gh5Jk0"
ANTHROPIC, OPENAI, OPENROUTER, OLLAMA = BUILT_IN_PROVIDERS
OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"


def config_of(tmp_path: Path, text: str = "") -> Config:
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    (tmp_path / "config.toml").chmod(0o600)
    return load_config(tmp_path, environ={})


async def nobody(_base_url: str) -> list[str]:
    return []


async def a_server(_base_url: str) -> list[str]:
    return ["qwen3:8b", "llama4"]


@asynccontextmanager
async def answering(answer: bytes | None, requests: list[bytes] | None = None) -> AsyncGenerator[str]:
    """A server on this machine that gives one answer to every request, or none at all."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                piece = await stream.receive_some()
                if not piece:
                    return
                received += piece
            if requests is not None:
                requests.append(received)
            if answer is None:
                await trio.sleep_forever()
            else:
                try:
                    await stream.send_all(answer)
                except trio.BrokenResourceError:  # the other side has heard enough
                    return

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
        nursery.cancel_scope.cancel()


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "environ", "expected"),
    [
        (ANTHROPIC, {}, (None, "set ANTHROPIC_API_KEY")),
        (ANTHROPIC, {"ANTHROPIC_API_KEY": "  "}, (None, "set ANTHROPIC_API_KEY")),
        (ANTHROPIC, {"ANTHROPIC_API_KEY": f" {KEY}\n"}, (Secret(KEY), None)),
        (OLLAMA, {}, (None, None)),
        (attrs.evolve(ANTHROPIC, key=Secret("mine")), {"ANTHROPIC_API_KEY": KEY}, (Secret("mine"), None)),
        (
            ANTHROPIC,
            {"ANTHROPIC_API_KEY": "a b"},
            (None, "ANTHROPIC_API_KEY does not hold a valid key: it contains blanks or odd characters"),
        ),
        (
            attrs.evolve(ANTHROPIC, base_url="https://evil.example.com"),
            {"ANTHROPIC_API_KEY": KEY},
            (None, "ANTHROPIC_API_KEY is for api.anthropic.com and is not sent to evil.example.com"),
        ),
        (
            attrs.evolve(OPENAI, base_url="https://api.anthropic.com", key_env="OPENAI_API_KEY"),
            {"OPENAI_API_KEY": KEY},
            (None, "OPENAI_API_KEY is for api.openai.com and is not sent to api.anthropic.com"),
        ),
        (
            attrs.evolve(ANTHROPIC, base_url="https://mine.example.com", chosen_by_user=True),
            {"ANTHROPIC_API_KEY": KEY},
            (Secret(KEY), None),
        ),
    ],
)
def test_keys(
    provider: ProviderSettings, environ: Mapping[str, str], expected: tuple[Secret | None, str | None]
) -> None:
    """A key comes from the file or the variable, and leaves for the host it was made for or the one the user named."""
    assert expected == find_key(provider, environ)


def test_no_endpoint_without_a_key() -> None:
    """A provider that needs a key cannot be reached without one, and the sentence says which variable to set."""
    with pytest.raises(InvalidInput, match="anthropic cannot be used: set ANTHROPIC_API_KEY"):
        make_endpoint(ANTHROPIC, {})


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        (ANTHROPIC, "set ANTHROPIC_API_KEY to one that it accepts"),
        (attrs.evolve(ANTHROPIC, key=Secret("x")), "it comes from providers.anthropic.key in the settings"),
        (OLLAMA, "no key was sent: name its variable in providers.ollama.key_env in the settings"),
    ],
)
def test_where_a_key_comes_from_is_known(provider: ProviderSettings, hint: str) -> None:
    """Should the key be refused, people can be told which one to change."""
    assert hint == make_endpoint(provider, {"ANTHROPIC_API_KEY": KEY}).key_hint


async def test_a_key_goes_where_the_user_says(tmp_path: Path) -> None:
    """With an address of the user's own, the key arrives there, together with the headers of the file."""
    requests: list[bytes] = []
    async with answering(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", requests) as url:
        config = config_of(tmp_path, f"[providers.anthropic]\nbase_url = '{url}'\nheaders = {{x-team = 'blue'}}\n")
        info = resolve_model(config, "haiku", {"ANTHROPIC_API_KEY": KEY})
        endpoint = make_endpoint(config.providers[0], {"ANTHROPIC_API_KEY": KEY})
        provider = make_provider(info, config, endpoint=endpoint)
        with trio.fail_after(300):
            async with provider.stream(ModelRequest(model=info.name, messages=())) as events:
                last = [event async for event in events][-1]
        await endpoint.aclose()

    [request] = requests
    assert f"x-api-key: {KEY}".encode() in request.lower().replace(KEY.lower().encode(), KEY.encode())
    assert b"x-team: blue" in request.lower()
    assert isinstance(last, ModelFailed)
    assert KEY not in repr(last) + repr(provider) + repr(endpoint)


# --- which models -----------------------------------------------------------------------------------------------------


def test_what_is_available(tmp_path: Path) -> None:
    """Models of a provider that has a key are available, the others say what they need."""
    choices = available_models(config_of(tmp_path), {"OPENAI_API_KEY": KEY})

    assert {"anthropic": "set ANTHROPIC_API_KEY", "openai": None} == {
        each.info.provider: each.why_not for each in choices
    }
    assert {"openai"} == {each.info.provider for each in choices if each.available}


async def test_the_configured_one_answers(tmp_path: Path) -> None:
    """What the user has chosen goes before everything else, by its name or an alias."""
    config = config_of(tmp_path, "model = 'luna'")
    picked = await default_model(config, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, probe=a_server)

    assert "openai/gpt-6-luna" == picked.name
    assert PickedModel(name="demo", info=None) == await default_model(
        config_of(tmp_path, "model = 'demo'"), {"OPENAI_API_KEY": KEY}, probe=a_server
    )


async def test_the_configured_one_without_a_key(tmp_path: Path) -> None:
    """A model that was chosen and cannot be used is an error that says what to do, never another model unasked."""
    with pytest.raises(InvalidInput, match="openai/gpt-6-luna cannot be used: set OPENAI_API_KEY") as refused:
        await default_model(config_of(tmp_path, "model = 'luna'"), {"ANTHROPIC_API_KEY": KEY}, probe=nobody)

    assert "model" == refused.value.field


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}, "anthropic/claude-sonnet-5-5"),
        ({"OPENAI_API_KEY": KEY}, "openai/gpt-6.1-sol"),
        ({}, "ollama/qwen3:8b"),
    ],
)
async def test_the_first_that_can(tmp_path: Path, environ: Mapping[str, str], name: str) -> None:
    """Without a choice the first model with a key answers, and without any key one of a server on this machine."""
    picked = await default_model(config_of(tmp_path), environ, probe=a_server)

    assert picked.info is not None
    assert (name, name) == (picked.name, picked.info.name)
    assert picked.remark


async def test_a_key_in_the_file_counts(tmp_path: Path) -> None:
    """A provider whose key stands in the file has a key."""
    config = config_of(tmp_path, f"[providers.openai]\nkey = '{KEY}'")

    assert "openai/gpt-6.1-sol" == (await default_model(config, {}, probe=nobody)).name


async def test_the_demo_is_the_last_resort(tmp_path: Path) -> None:
    """With no key and no server the demo answers, and says how to get a real model."""
    remark = (
        "no API key is configured, so the offline demo model is used: "
        "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama"
    )

    assert PickedModel(name="demo", info=None, remark=remark) == await default_model(
        config_of(tmp_path), {}, probe=nobody
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sonet", "there is no model called 'sonet'; did you mean sonnet?"),
        ("zzzzz", "there is no model called 'zzzzz'; see: session-core models --all"),
        ("sonnet", "anthropic/claude-sonnet-5-5 cannot be used: set ANTHROPIC_API_KEY"),
    ],
)
def test_a_wrong_choice(tmp_path: Path, name: str, sentence: str) -> None:
    """A name that nobody knows is answered with the one that was probably meant."""
    with pytest.raises(InvalidInput) as refused:
        resolve_model(config_of(tmp_path), name, {})

    assert sentence == refused.value.message


# --- a server on this machine -----------------------------------------------------------------------------------------


async def test_a_server_is_asked(tmp_path: Path) -> None:
    """A server on this machine tells its models; odd entries are left out."""
    body = b'{"data": [{"id": "qwen3:8b"}, {"id": 5}, {}, "x", {"id": "a b"}, {"id": "\\u001b[31m"}, {"id": "llama4"}]}'
    requests: list[bytes] = []
    async with answering(OK + body, requests) as url:
        found = await probe_ollama(url, timeout_s=30)

    assert ["qwen3:8b", "llama4"] == found
    assert requests[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"authorization" not in requests[0].lower()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n",
        b"not HTTP at all\r\n\r\n",
        b"",
        OK + b"not JSON",
        OK + b"[]",
        OK + b'{"data": 5}',
        OK + b"[" * 100_000,
        OK + b'{"data": [{"id": "x"}]}' + b" " * MAX_PROBE_BYTES,
    ],
)
async def test_a_server_of_another_kind(answer: bytes) -> None:
    """Whatever else may listen there, it has no models for us."""
    async with answering(answer) as url:
        assert [] == await probe_ollama(url, timeout_s=30)


async def test_a_silent_server() -> None:
    """A server that takes the question and never answers does not hold anybody up."""
    async with answering(None) as url:
        with trio.fail_after(300):
            assert [] == await probe_ollama(url, timeout_s=0.05)


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens there are no models, and no HTTP library is needed to learn that."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with socket.socket() as bound:  # taken, but nobody listens
        bound.bind(("127.0.0.1", 0))
        assert [] == await probe_ollama(f"http://127.0.0.1:{bound.getsockname()[1]}/v1", timeout_s=30)


@pytest.mark.parametrize("url", ["http://192.0.2.1:1/v1", "https://example.com/v1", "nonsense", ""])
async def test_other_machines_are_never_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is not on this machine is not even connected to."""

    async def refuse(*_: object, **__: object) -> None:
        pytest.fail("somebody was connected to")

    monkeypatch.setattr(trio, "open_tcp_stream", refuse)

    assert [] == await probe_ollama(url)


@given(
    body=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.text(max_size=5) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "id"]), inner),
    ).map(lambda document: json.dumps(document).encode())
)
def test_any_answer(body: bytes) -> None:
    """Whatever a server answers, there is a list of names that can be shown in one line."""
    assert all(name and name.isprintable() for name in _parse_model_names(body))


# --- providers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anthropic/claude-opus-5-5", AnthropicProvider),
        ("openai/gpt-6.1-sol", ResponsesProvider),
        ("openai/gpt-4.1", ResponsesProvider),
        ("openrouter/some/model", ChatCompletionsProvider),
        ("ollama/qwen3", ChatCompletionsProvider),
    ],
)
def test_the_provider_of_a_model(tmp_path: Path, name: str, kind: type) -> None:
    """Each kind of provider is made for its models, and shows no key."""
    config = config_of(tmp_path)
    environ = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "OPENROUTER_API_KEY": KEY}
    info = find_model(config.models, name, [each.name for each in config.providers])
    assert info is not None

    provider = make_provider(info, config, environ)

    assert isinstance(provider, kind)
    assert KEY not in repr(provider) + repr(vars(provider))


async def test_choosing_imports_nothing_heavy() -> None:
    """Learning which models there are needs no HTTP library."""
    script = (
        "import sys, session_core.providers.model_choice, session_core.config.load as load, pathlib\n"
        "config = load.load_config(pathlib.Path('/nonexistent'), environ={})\n"
        "session_core.providers.model_choice.available_models(config, {})\n"
        "sys.exit('httpx2' in sys.modules)"
    )
    done = await trio.run_process([sys.executable, "-c", script], check=False)

    assert 0 == done.returncode
