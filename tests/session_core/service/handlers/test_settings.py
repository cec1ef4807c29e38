"""Settings: each change is checked, told, and shown in the state and the list."""

import attrs
import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import InvalidInput, NotFound
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import SandboxPolicy, Settings, TurnLimits
from tests.session_core.service._family import Scripts, by_name, hand_over, helped
from tests.session_core.service._helpers import new_session, recorded, scripted, trio_now


async def test_settings_change_with_an_event_each_time() -> None:
    """Every change of a setting is in the state at once and is told, even when the value was the same before."""
    policy = SandboxPolicy(mode="full_access", network=True, writable_roots=("/tmp",))
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        model = await service.switch_model(session_id, "m")
        replies = [
            await service.change_permission_mode(session_id, "ask_all"),
            await service.change_sandbox_policy(session_id, policy),
            await service.change_working_directory(session_id, "/tmp"),
            await service.change_turn_limits(session_id, TurnLimits(steps=3)),
        ]
        settings = Settings(
            model="m", cwd="/tmp", permission_mode="ask_all", sandbox=policy, limits=TurnLimits(steps=3)
        )
        assert settings == (await service.load_session(session_id)).settings
        events = recorded(service, session_id)[1:]
        assert [
            ev.ModelSwitched(model="m"),
            ev.PermissionModeChanged(mode="ask_all"),
            ev.SandboxPolicyChanged(policy=policy),
            ev.WorkingDirectoryChanged(cwd="/tmp"),
            ev.TurnLimitsChanged(limits=TurnLimits(steps=3)),
        ] == [event.event for event in events]
        assert "now" == model.effective
        cursors = [model.cursor.seq, *(reply.cursor.seq for reply in replies)]
        assert [event.seq for event in events] == cursors


async def test_settings_that_cannot_be() -> None:
    """An unknown model, relative folders and limits of nothing are refused by their field, and nothing changes."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        before = recorded(service)
        with pytest.raises(NotFound) as unknown:
            await service.switch_model(session_id, "gone")
        assert "model" == unknown.value.field
        with pytest.raises(InvalidInput) as relative:
            await service.change_working_directory(session_id, "here")
        assert "cwd" == relative.value.field
        with pytest.raises(InvalidInput) as root:
            await service.change_sandbox_policy(session_id, SandboxPolicy(writable_roots=("../up",)))
        assert "writable_roots" == root.value.field
        with pytest.raises(InvalidInput) as nothing:
            await service.change_turn_limits(session_id, TurnLimits(tokens=0))
        assert "limits" == nothing.value.field
        assert before == recorded(service)


async def test_a_new_mode_takes_grants_back() -> None:
    """Changing the permission mode forgets what was allowed for the session, so the same tool is asked for again."""
    tool = ScriptedTool("write", effects=("write",))
    provider = ScriptedProvider(tool_call("write"), text("a"), tool_call("write"), text("b"))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (first,) = (await service.load_session(session_id)).approvals
        await service.answer_approval(session_id, first.request_id, "allow_session")
        await service.wait_for_turn(session_id)
        assert ("write",) == (await service.load_session(session_id)).grants

        await service.change_permission_mode(session_id, "ask_all")

        assert () == (await service.load_session(session_id)).grants
        await service.send_user_message(session_id, "again")
        await wait_all_tasks_blocked()
        assert ["write"] == [each.tool_name for each in (await service.load_session(session_id)).approvals]
        assert 1 == len(tool.calls)


async def test_new_limits_hold_for_helpers_too(autojump_clock: MockClock) -> None:
    """Running helpers under the same limits get the new ones at once, also of time; one with its own keeps them."""
    scripts: Scripts = {
        "go": [hand_over("a", "own"), text("1")],
        "a": [hand_over("b"), text("2")],
        "b": [Hang()],
        "own": [Hang()],
    }
    config = attrs.evolve(helped(scripts), now=trio_now, store=MemoryStore())
    began, longer, own = TurnLimits(time_ms=60_000), TurnLimits(time_ms=600_000), TurnLimits(time_ms=90_000)
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go", limits=began)
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        ids = by_name(service)
        await service.change_turn_limits(ids["own"], own)

        await service.change_turn_limits(parent, longer)

        found = {name: (await service.load_session(each)).settings.limits for name, each in ids.items()}
        assert {"go": longer, "a": longer, "b": longer, "own": own} == found
        outcome = (await service.wait_for_turn(ids["own"])).outcome
        assert "stopped after 90 seconds, the time it had" == outcome.error
        ended = [(await service.load_session(ids[name])).last_outcome for name in ("go", "a", "b")]
        assert [None] * 3 == ended, "the time that they began with is over"
        await service.request_stop(parent)
