"""A model that says something else to each prompt, so that a session and its helpers each follow their own script."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from session_core.ids import SessionId
from session_core.providers.base import ModelRequest, ProviderEvent
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider, ScriptItem, tool_calls
from session_core.tools.task import TaskTool
from tests.session_core.service._helpers import scripted

Scripts = Mapping[str, Sequence[ScriptedAnswer]]
"""The answers that belong to each prompt."""


class PromptedProvider(ScriptedProvider):
    """Plays the answers that belong to the first thing said in a conversation; markers are shared by all."""

    def __init__(self, scripts: Scripts) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._by_prompt = {prompt: ScriptedProvider(*answers) for prompt, answers in scripts.items()}
        for each in self._by_prompt.values():
            each._reached, each._released = self._reached, self._released

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        self.requests.append(request)
        prompt = next(message.text for message in request.messages if message.role == "user")
        self.asked.append(prompt)
        async with self._by_prompt[prompt].stream(request) as events:
            yield events


def helped(scripts: Scripts, **settings: Any) -> ServiceConfig:
    """A config with the task tool and one script per prompt."""
    tools = (TaskTool(), *settings.pop("tools", ()))
    return scripted(PromptedProvider(scripts), tools=tools, **{"permission_mode": "full", **settings})


def hand_over(*prompts: str, **arguments: Any) -> tuple[ScriptItem, ...]:
    """An answer that starts a helper for each prompt."""
    return tool_calls(*(("task", {"title": prompt, "prompt": prompt, **arguments}) for prompt in prompts))


def by_name(service: SessionService) -> dict[str, SessionId]:
    """The ids of all sessions by their names."""
    return {each.name: session_id for session_id, each in service._core.recorder.session_list.sessions.items()}
