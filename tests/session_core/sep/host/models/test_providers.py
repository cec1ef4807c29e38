"""Which models extensions offer, and a whole answer from a real process."""

from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.errors import NotFound
from session_core.providers.base import ModelFinished, ModelRequest, TextChunk, ToolCallChunk, ToolCallOpened
from session_core.providers.catalogue import ModelInfo, built_in_models
from session_core.rpc.messages import Notification
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.models.logins import LoginFailed
from session_core.sep.host.models.providers import ExtensionProviders
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import collect, request
from tests.session_core.sep._children import running, script
from tests.session_core.sep._models import ACME, PlayedExtension, registering


def offering(**extensions: list[dict[str, Any]]) -> ExtensionProviders:
    providers = ExtensionProviders(Contexts(), reserved=["mine"])
    providers.update([PlayedExtension(name, None, registering(*each)) for name, each in extensions.items()])
    return providers


def test_models_are_listed() -> None:
    """Models are called by their provider and their id, in order, and what nobody wrote down is guessed."""
    providers = offering(acme=[ACME])
    assert [info.name for info in providers.infos.values()] == ["acme/large", "acme/small"]
    assert providers.infos["acme/large"] == ModelInfo(
        name="acme/large", provider="acme", api_id="large", structured_output=False, described=False
    )
    assert list(providers.providers) == list(providers.infos) == ["acme/large", "acme/small"]
    assert len(providers.providers) == 2
    assert providers.remarks == ()


def test_a_well_known_model_keeps_its_size() -> None:
    """A model that somebody resells reads as much as the original; what it costs there is not known."""
    known = built_in_models()[0]
    info = offering(acme=[{"name": "acme", "models": [{"id": known.api_id}]}]).infos[f"acme/{known.api_id}"]
    assert info.name == f"acme/{known.api_id}"
    assert info.context_tokens == known.context_tokens
    assert info.prices is None


def test_models_that_are_not_listed_can_be_asked_for() -> None:
    """A provider may know more models than it lists; names that cannot be one are unknown."""
    providers = offering(acme=[{"name": "acme"}])
    assert "acme/open/next" in providers.providers
    assert providers.infos["acme/open/next"].api_id == "open/next"
    for name in ("acme", "acme/", "other/large", "acme/a b", f"acme/{'x' * 200}"):
        assert name not in providers.providers
        assert name not in providers.infos


def test_names_that_are_taken() -> None:
    """The first extension has a provider; nobody gets the name of one that people have configured, in any case."""
    rival = {"name": "acme", "models": [{"id": "rival"}]}
    providers = offering(
        first=[ACME],
        second=[rival, {"name": "Anthropic"}, {"name": "mine"}, {"name": "demo"}, {"name": "a/b"}, {"name": "own"}],
    )
    offers = [providers.find_offer(name) for name in ("acme", "Anthropic", "mine", "demo", "a/b", "own")]
    assert [(each.extension.name, each.registration.name) for each in offers if each is not None] == [
        ("first", "acme"),
        ("second", "own"),
    ]
    assert "acme/rival" not in [info.name for info in providers.infos.values()]
    assert [remark.partition(": ")[2] for remark in providers.remarks] == [
        "the extension first has one of that name",
        "there is one of that name already",
        "there is one of that name already",
        "there is one of that name already",
        "the name of a provider cannot contain a slash",
    ]


def test_names_that_are_too_long() -> None:
    """A model whose name nobody could store is left out with a remark, the others are offered."""
    providers = offering(acme=[{"name": "acme", "models": [{"id": "x" * 199}, {"id": "fine"}]}])
    assert [info.name for info in providers.infos.values()] == ["acme/fine"]
    assert len(providers.remarks) == 1


def test_offers_follow_the_extensions() -> None:
    """What is registered later is there, and what is gone is gone, in views that were taken before."""
    providers = offering()
    views = providers.providers, providers.infos
    extension = PlayedExtension("acme", None, registering(ACME))
    providers.update([extension])
    assert all("acme/large" in view for view in views)
    extension.registrations = registering({"name": "later", "models": [{"id": "one"}]})
    providers.update([extension])
    assert [list(view) for view in views] == [["later/one"], ["later/one"]]
    assert all("acme/large" not in view for view in views)
    providers.update([])
    assert [len(view) for view in views] == [0, 0]


async def test_logins_of_providers_that_have_none() -> None:
    """Logging in to what does not exist, or has no login, is a typed error."""
    providers = offering(acme=[{"name": "plain"}])
    with pytest.raises(NotFound):
        await providers.log_in("nobody")
    with pytest.raises(LoginFailed, match="has no login"):
        await providers.log_in("plain")


async def test_a_real_process_answers(tmp_path: Path) -> None:
    """A program that streams, repeats itself and is asked by two sessions at once gives each its own answer."""
    contexts = Contexts()
    providers = ExtensionProviders(contexts)
    async with running(script(tmp_path, "models")) as (extension, host):

        def note(extension: HostedExtension, generation: int, notification: Notification) -> None:
            if notification.method == "provider/delta":
                providers.streams.delta(extension.name, notification.params["request_id"], notification.params["event"])

        host.on_notification = note  # type: ignore[method-assign]
        providers.update([extension])
        got: dict[str, list[object]] = {}

        async def ask(text: str) -> None:
            question = ModelRequest(model="words/echo", messages=request(text).messages, cache_key=f"ses_{text}")
            got[text] = list(await collect(providers.providers["words/echo"], question))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "one two")
            nursery.start_soon(ask, "three")
        usage = Usage(input_tokens=1, output_tokens=1)
        call = [ToolCallOpened(name="count"), ToolCallChunk(text='{"words": 2}')]
        assert got == {
            "one two": [
                TextChunk(text="one "),
                TextChunk(text="two "),
                *call,
                ModelFinished(usage=usage, stop_reason="tool_calls"),
            ],
            "three": [
                TextChunk(text="three "),
                ToolCallOpened(name="count"),
                ToolCallChunk(text='{"words": 1}'),
                ModelFinished(usage=usage, stop_reason="tool_calls"),
            ],
        }
