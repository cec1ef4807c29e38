"""A turn in which a model calls tools and people are asked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from session_core.ids import SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptItem, text
from session_core.tools.base import Tool
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import Approval, Decision
from tests.session_core.service._helpers import new_session, of_type, scripted


class Talk:
    """A turn in which a model calls tools and people are asked."""

    def __init__(self, service: SessionService, session_id: SessionId, provider: ScriptedProvider) -> None:
        self.service = service
        self.session_id = session_id
        self.provider = provider

    async def approval(self) -> Approval:
        """The only open question."""
        await wait_all_tasks_blocked()
        (approval,) = (await self.service.load_session(self.session_id)).approvals
        return approval

    async def answer(self, decision: Decision, message: str = "") -> Approval:
        """Answer the only open question as it was shown."""
        approval = await self.approval()
        reply = await self.service.answer_approval(
            self.session_id, approval.request_id, decision, fingerprint=approval.fingerprint, message=message
        )
        assert reply.accepted
        return approval

    async def results(self) -> list[ToolResultPart]:
        """All results, once the turn has ended."""
        with trio.fail_after(60):  # a question that nobody expects would be waited for much longer
            await self.service.wait_for_turn(self.session_id)
        return self.results_so_far()

    def results_so_far(self) -> list[ToolResultPart]:
        """The results that were recorded, in the order of their ends."""
        return [event.result for event in of_type(self.service, self.session_id, ev.ToolCallFinished)]


@asynccontextmanager
async def talk(*answers: tuple[ScriptItem, ...], tools: tuple[Tool, ...], **settings: Any) -> AsyncGenerator[Talk]:
    """Start a turn whose model plays these answers."""
    provider = ScriptedProvider(*answers, text("done"))
    async with open_checked_service(scripted(provider, tools=tools, **settings)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        yield Talk(service, session_id, provider)
