"""What authors and users of protocols do wrong, and what they are told."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from session_core.errors import InvalidInput
from session_core.protocols import registry
from session_core.protocols.api import ProtocolBundle, ProtocolSession
from session_core.protocols.contexts import FinishNow
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CheckpointKind,
    DriverView,
    Finish,
    Remember,
    SwitchFrame,
    Tell,
)
from session_core.protocols.faults import DuplicatePlugin, OptionsInvalid
from session_core.protocols.options import PluginOptions
from session_core.protocols.standard import NativeToolDriver
from session_core.service.protocols import ProtocolUnusable
from session_core.service.service import open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import open_checked_service
from session_core.testing.driver_protocol import driver_settings
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary import commands as c
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.service._protocols import Watched, serving, stated

SCHEMA = JsonObject({"type": "object", "required": ("n",)})


# --- what a driver tells the model ------------------------------------------------------------------------------------


class Insisting(NativeToolDriver):
    """Asks once more before it ends."""

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        if view.memory is None:
            return (Remember(memory=1), Tell(text="Sure?"), AskModel())
        return (Finish(),)


async def test_an_undo_goes_back_to_the_user() -> None:
    """What a driver has told the model is no message of the user: an undo goes back beyond it."""
    provider = ScriptedProvider(*map(text, "abcd"))
    async with open_checked_service(scripted(provider, **driver_settings(Insisting()))) as service:
        session_id = await new_session(service)
        for said in ("first", "second"):
            await say(service, session_id, said)
        told = [each.source for each in (await service.load_session(session_id)).transcript if each.role == "user"]
        assert told == [None, "tried", None, "tried"]
        reply: Any = await service.execute(c.RestoreToMessage(session_id=session_id, files=False))
        assert reply.text == "second"
        assert [said for _, said in await transcript(service, session_id)] == ["first", "a", "Sure?", "b"]


class Repeating(NativeToolDriver):
    """Ends with what it was asked, as far as it knows."""

    def __init__(self) -> None:
        self.prompts: list[str | None] = []

    def on_start(self, view: DriverView) -> Actions:
        self.prompts.append(None if view.prompt is None else view.prompt.text)
        return (Tell(text="not by people"), AskModel())

    def on_answer(self, view: DriverView) -> Actions:
        self.prompts.append(None if view.prompt is None else view.prompt.text)
        return (Checkpoint(kind="before_completion"),)


async def test_the_view_has_the_prompt() -> None:
    """A driver finds what people have said, and not what it has told the model itself."""
    driver = Repeating()
    async with open_checked_service(scripted(text("a"), text("b"), **driver_settings(driver))) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        await say(service, session_id, "two")
    assert driver.prompts == ["one", "one", "two", "two"]


class Switching(NativeToolDriver):
    """Remembers something, and goes on in another frame."""

    def on_start(self, view: DriverView) -> Actions:
        if view.memory is None:
            return (Remember(memory="kept"), SwitchFrame(key="next", task="Go on."))
        assert view.prompt is not None
        return (Finish(status="failed", error=f"{view.frame}: {view.memory}, {view.prompt.text}"),)


async def test_memory_outlives_a_switch_of_frames() -> None:
    """What a driver remembers, and what it was asked, is there in the next frame of the turn; not in the next turn."""
    async with open_checked_service(scripted(**driver_settings(Switching()))) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id, "go")).error == "next: kept, go"
        assert (await say(service, session_id, "more")).error == "next: kept, more"


class Ending(NativeToolDriver):
    """Ends with what a test says."""

    def __init__(self, finish: Finish) -> None:
        self._finish = finish

    def on_answer(self, view: DriverView) -> Actions:
        return (self._finish,)


@pytest.mark.parametrize(
    ("finish", "said", "output", "error"),
    [
        (Finish(output=JsonObject({"n": 1})), "x", JsonObject({"n": 1}), None),
        (Finish(output=JsonObject({"m": 1})), "x", None, "not JSON of the shape that was asked for"),
        (Finish(), '{"n": 2}', JsonObject({"n": 2}), None),
        (Finish(), "two", None, "not JSON of the shape that was asked for"),
    ],
)
async def test_an_end_of_the_wrong_shape(finish: Finish, said: str, output: Any, error: str | None) -> None:
    """A turn that was asked for JSON is completed with JSON of that shape, whatever its driver says."""
    async with open_checked_service(scripted(text(said), **driver_settings(Ending(finish)))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go", output_schema=SCHEMA)
        outcome = (await service.wait_for_turn(session_id)).outcome
    assert (outcome.output, outcome.status) == (output, "completed" if error is None else "failed")
    assert (error or "") in (outcome.error or "")


@pytest.mark.parametrize(("said", "status"), [('{"n": 3}', "completed"), ("three", "failed")])
async def test_finishing_instead_of_a_model(said: str, status: str) -> None:
    """What a protocol answers in the place of a model is held to the shape as well."""
    factory = Watched(before_model_call=lambda *_: FinishNow(text=said))
    async with open_checked_service(scripted(**factory.settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go", output_schema=SCHEMA)
        outcome = (await service.wait_for_turn(session_id)).outcome
    assert (outcome.status, outcome.output) == (status, JsonObject({"n": 3}) if status == "completed" else None)


# --- what is refused --------------------------------------------------------------------------------------------------


class Plain(ProtocolSession):
    """Has a callback that is not async."""

    def restore(self, *_: Any) -> None:  # type: ignore[override]
        """Do nothing."""


class Late(NativeToolDriver):
    """Has a callback that is async."""

    async def on_start(self, view: DriverView) -> Any:  # type: ignore[override]
        return (AskModel(),)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"instructions": "Be kind."}, "its instructions must be a function of the session's tools, not a str"),
        ({"session": Plain()}, "its session's restore is a plain function and must be async"),
        ({"driver": Late()}, "its driver's on_start is async"),
        ({"tools": [1]}, "its tools must be a tuple of tools, not a list"),
        ({"executor": 3}, "its executor is an int, which is not a CodeExecutor"),
    ],
)
async def test_a_bundle_of_wrong_parts(parts: dict[str, Any], reason: str) -> None:
    """A part of the wrong kind refuses the session, naming the protocol and the part, and is no internal error."""
    bundle: Any = {"driver": NativeToolDriver(), **parts}
    factory = Watched(build=lambda _: ProtocolBundle(**bundle))
    async with open_checked_service(scripted(**factory.settings())) as service:
        with pytest.raises(ProtocolUnusable) as caught:
            await service.create_session()
    assert caught.value.message.startswith("the protocol watched failed in build: ")
    assert reason in caught.value.message


class Unnamed(Watched):
    """Says nothing of its name."""

    id: Any = None


class Versioned(Watched):
    """Has a version of the wrong form."""

    version: Any = "1.0"


@pytest.mark.parametrize(
    ("settings", "field", "reason"),
    [
        ({"protocols": [Watched()]}, "protocols", "must be a tuple"),
        ({"protocols": (Watched,)}, "protocols", "Watched is a class"),
        ({"protocols": ("watched",)}, "protocols", "'watched' is not a ProtocolFactory"),
        ({"protocols": (Unnamed(),)}, "protocols", "Unnamed has the id None"),
        ({"protocols": (Versioned(),)}, "protocols", "Versioned has the version '1.0'"),
        ({"protocol_options": {"code": {}}}, "protocol_options", "must be a PluginOptions, not a dict"),
        ({"protocol_options": PluginOptions({"code": {}})}, "protocol_options", "'code' must be a JsonObject"),  # type: ignore[dict-item]
        ({"protocol": None}, "protocol", "not a NoneType"),
    ],
)
async def test_settings_of_the_wrong_form(settings: dict[str, Any], field: str, reason: str) -> None:
    """A service that is set up with the wrong kind of thing does not open, and says which setting it was."""
    with pytest.raises(InvalidInput, match=reason) as caught:
        async with open_session_service(scripted(**settings)):
            pass
    assert caught.value.field == field


async def test_an_option_that_there_is_not() -> None:
    """An unknown option is refused with those that there are."""
    async with open_checked_service(scripted(**Watched().settings())) as service:
        with pytest.raises(OptionsInvalid, match="'shade' is not one of its options: dialect, shape, budget"):
            await service.create_session(options=stated(shade=1))
        with pytest.raises(OptionsInvalid, match="'shade' cannot be stated: it has no options"):
            await service.create_session(protocol="standard", options=JsonObject({"standard": {"shade": 1}}))


async def test_two_packages_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that two packages bring is refused with what to do, and every other protocol works."""
    twice = [EntryPoint(name="twin", value=value, group=registry.GROUP) for value in ("a:A", "b:B")]
    monkeypatch.setattr(registry, "entry_points", lambda **_: twice)
    async with open_checked_service(scripted(text("fine"))) as service:
        with pytest.raises(DuplicatePlugin, match="uninstall one of these packages"):
            await service.create_session(protocol="twin")
        assert (await say(service, await new_session(service))).status == "completed"


async def test_a_protocol_that_is_gone() -> None:
    """A session whose protocol is gone says what to do; it can be shown, renamed and gone back in."""
    store = MemoryStore()
    async with serving(store, Watched()) as service:
        session_id = await new_session(service)
        await say(service, session_id, "first")
    async with open_session_service(scripted(store=store)) as service:
        with pytest.raises(ProtocolUnusable, match="install the package that provides it"):
            await service.send_user_message(session_id, "more")
        await service.execute(c.RenameSession(session_id=session_id, name="old"))
        await service.execute(c.RestoreToMessage(session_id=session_id, files=False))
        snapshot = await service.load_session(session_id)
    assert (snapshot.name, snapshot.transcript) == ("old", ())
