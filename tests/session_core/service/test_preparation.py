"""Extensions and commands: they see what people say, may change it or say no, and hold nobody else up."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.agent.hooks import Blocked, HookName
from session_core.errors import Forbidden
from session_core.ids import SessionId
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Forever, ScriptedProvider, text
from session_core.vocabulary.commands import SendUserMessage
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.service._helpers import new_session, say, scripted, transcript, until


class Extension:
    """Counts what it is asked, changes texts, refuses what holds a word, and can be made to wait."""

    def __init__(self) -> None:
        self.asked: list[tuple[HookName, JsonObject]] = []
        self.go_on = trio.Event()
        self.go_on.set()
        self.refuses: set[HookName] = set()

    def handles(self, hook: HookName) -> bool:
        return hook in ("input", "session_before_tree")

    async def run(self, hook: HookName, _session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        self.asked.append((hook, value))
        await self.go_on.wait()
        if hook in self.refuses:
            return Blocked(reason="not on a Friday")
        return value if hook != "input" else JsonObject({"text": f"{value['text']} ({len(self.asked)})"})


async def test_texts_are_changed_on_their_way() -> None:
    """What an extension makes of a message is what is said; it sees nothing of commands that say nothing."""
    hooks = Extension()
    async with open_checked_service(scripted(text("ok"), hooks=hooks)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        await service.rename_session(session_id, "name")
        assert [("user", "hello (1)"), ("assistant", "ok")] == await transcript(service, session_id)
        assert [("input", JsonObject({"text": "hello"}))] == hooks.asked


async def test_a_refusal_is_a_typed_error_and_nothing_is_done() -> None:
    """A message, an edit, a branch, a fork and an undo that an extension does not want are refused with its reason."""
    hooks = Extension()
    async with open_checked_service(scripted(text("ok"), hooks=hooks)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        hooks.refuses |= {"session_before_tree"}
        before = await service.load_session(session_id)
        message_id = before.messages[0].message_id
        for attempt in (
            lambda: service.edit_message(session_id, message_id, "other"),
            lambda: service.switch_branch(session_id, message_id),
            lambda: service.fork_session(session_id),
            lambda: service.restore_to_message(session_id),
        ):
            with pytest.raises(Forbidden, match="an extension does not allow this: not on a Friday"):
                await attempt()
        hooks.refuses = {"input"}
        for saying in (
            lambda: service.send_user_message(session_id, "no"),
            lambda: service.start_turn_if_idle(session_id, "no"),
            lambda: service.edit_message(session_id, message_id, "no"),
        ):
            with pytest.raises(Forbidden, match="not on a Friday"):
                await saying()
        assert before == await service.load_session(session_id)
        assert 1 == service.statistics().sessions


async def test_a_retry_is_known_by_what_was_sent() -> None:
    """A command sent again with its key gets the first reply, however the extension changed it, unasked."""
    hooks = Extension()
    async with open_checked_service(scripted(text("ok"), hooks=hooks)) as service:
        session_id = await new_session(service)
        command = SendUserMessage(session_id=session_id, text="hello")
        first = await service.execute(command, idempotency_key="k")
        assert first == await service.execute(command, idempotency_key="k")
        assert 1 == len(hooks.asked)


async def test_a_stop_overtakes_a_message_that_an_extension_holds() -> None:
    """A message sent before a stop starts nothing after it, however long an extension has thought about it."""
    hooks = Extension()
    provider = ScriptedProvider(Forever("x"), text("again"))
    async with open_checked_service(scripted(provider, hooks=hooks)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        hooks.go_on = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.send_user_message, session_id, "more")
            await until(lambda: len(hooks.asked) == 2)
            assert "stopped" == (await service.request_stop(session_id)).result
            hooks.go_on.set()
        await wait_all_tasks_blocked()
        state = await service.load_session(session_id)
        assert ("stopped", 1) == (state.activity.name, len(state.queue))
        assert "started" == (await service.send_user_message(session_id, "now")).disposition


async def test_an_observer_bothers_nobody() -> None:
    """What an observer may not do is refused before any extension hears of it."""
    hooks = Extension()
    async with open_checked_service(scripted(hooks=hooks)) as service:
        session_id = await new_session(service)
        with service.attach("eve", role="observer") as eve, pytest.raises(Forbidden, match="observer"):
            await eve.send_user_message(session_id, "hello")
        assert [] == hooks.asked
