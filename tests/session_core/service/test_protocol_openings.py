"""How protocols come into memory: the calls of each opening, and what their bundles bring along."""

from pathlib import Path

import trio

from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text
from tests.session_core.service._helpers import new_session, say, scripted
from tests.session_core.service._protocols import Watched, decided, serving

BUILT = ("build", dict(decided()), True)


async def test_the_calls_of_each_opening(tmp_path: Path) -> None:
    """Create, child, fork and resume: each is built, initialized and restored once, with the conversation by then."""
    factory = Watched()
    async with serving(SqliteStore(tmp_path), factory) as service:
        parent = await new_session(service)
        assert factory.calls == [BUILT]
        await say(service, parent, "one")
        await say(service, parent, "two")
        assert factory.calls[1:] == [
            ("initialize",),
            ("restore", ("one",)),
            ("before_model_call", "initial"),
            ("before_model_call", "initial"),
        ]
        factory.calls.clear()
        child = await new_session(service, parent_id=parent)
        await say(service, child, "help")
        fork = (await service.fork_session(parent)).session_id
        await say(service, fork, "else")
        assert factory.calls == [
            ("build", dict(decided(dialect="child")), False),
            ("initialize",),
            ("restore", ("help",)),
            ("before_model_call", "initial"),
            BUILT,
            ("initialize",),
            ("restore", ("one", "fine", "two", "fine", "else")),
            ("before_model_call", "initial"),
        ]
        factory.calls.clear()
    assert factory.calls == [("aclose",)]
    again = Watched()
    async with serving(SqliteStore(tmp_path), again) as service:
        await say(service, parent, "three")
    assert again.calls == [
        BUILT,
        ("initialize",),
        ("restore", ("one", "fine", "two", "fine", "three")),
        ("before_model_call", "initial"),
        ("aclose",),
    ]


async def test_a_session_that_leaves_memory(autojump_clock: trio.abc.Clock) -> None:
    """A session that leaves memory and comes back has its protocol built, initialized and restored anew."""
    factory = Watched()
    async with open_checked_service(scripted(text("a"), **factory.settings(), session_stay_ms=1_000)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        await trio.sleep(5)
        factory.calls.clear()
        await say(service, session_id, "two")
        assert factory.names() == ["build", "initialize", "restore", "before_model_call"]
        assert factory.calls[2] == ("restore", ("one", "a", "two"))


async def test_a_conversation_that_goes_another_way() -> None:
    """A plugin is restored when people have gone back in the conversation, switched branches or cleared the context."""
    factory = Watched()
    async with open_checked_service(scripted(*[text("ok")] * 4, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        first = (await service.load_session(session_id)).transcript[0]
        factory.calls.clear()
        await service.edit_message(session_id, first.message_id, "other")
        await service.wait_for_turn(session_id)
        await service.switch_branch(session_id, first.message_id)
        await say(service, session_id, "more")
        await service.clear_context(session_id)
        await say(service, session_id, "new")
        assert [call for call in factory.calls if call[0] == "restore"] == [
            ("restore", ("other",)),
            ("restore", ("one", "ok", "more")),
            ("restore", ("new",)),
        ]


async def test_a_bundle_brings_tools_and_instructions() -> None:
    """A protocol's tools and instructions are for its own sessions; a tool of the service goes before its namesake."""
    provider = ScriptedProvider(text("a"), text("b"))
    own, mine, theirs = ScriptedTool("own"), ScriptedTool("shared"), ScriptedTool("shared", effects=())
    factory = Watched(tools=(own, theirs), instructions=lambda tools: "Tools: " + " ".join(each.name for each in tools))
    config = scripted(provider, tools=(mine,), protocols=(factory,), system_prompt="Be good.")
    async with open_checked_service(config) as service:
        await say(service, await new_session(service, protocol="watched"))
        await say(service, await new_session(service))
    asked, plain = provider.requests
    assert (asked.tools, plain.tools) == ((mine.spec, own.spec), (mine.spec,))
    assert (asked.system, plain.system) == ("Be good.\n\nTools: shared own", "Be good.")
