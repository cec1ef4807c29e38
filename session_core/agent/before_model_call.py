"""The word that a protocol has before a model is asked."""

from collections.abc import Callable

import attrs

from session_core.agent.context import without_images
from session_core.agent.direct_model_call import DirectCompletions
from session_core.agent.model_call import Diverted, Models
from session_core.agent.protocol_work import current_frame
from session_core.protocols.api import ProtocolSession
from session_core.protocols.contexts import BeforeCallContext, Lease, Processes, ReplaceRequest
from session_core.protocols.faults import ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.providers.base import ModelRequest
from session_core.session.turn_handle import TurnDesk


def has_a_word(protocol: SessionProtocol) -> bool:
    """Tell whether a protocol wants to be asked at all; most do not, and pay nothing for it."""
    return type(protocol.bundle.session).before_model_call is not ProtocolSession.before_model_call


@attrs.frozen(kw_only=True)
class BeforeCalls:
    """Asks a protocol before each model call of a turn."""

    desk: TurnDesk
    models: Models
    protocol: SessionProtocol
    direct: DirectCompletions
    processes: Callable[[], Processes]

    async def ask(self, request: ModelRequest) -> ModelRequest | Diverted:
        """Return what the model is to be asked, or what is to be done instead.

        Raises:
            ProtocolFault: The protocol failed, or asks for a model that there is not.
        """
        state, turn = self.desk.state, self.desk.state.turn
        assert turn is not None

        def context(lease: Lease) -> BeforeCallContext:
            return BeforeCallContext(
                session_id=state.session_id,
                turn_id=turn.turn_id,
                frame=current_frame(state),
                step=turn.steps,
                usage=turn.usage,
                context_tokens=state.context_tokens,
                cwd=state.settings.cwd,
                sandbox=state.settings.sandbox,
                tools=request.tools,
                lease=lease,
                complete=self.direct.complete,
                processes=self.processes(),
            )

        decided = await self.protocol.before_model_call(context, request)
        if decided is None:
            return request
        if not isinstance(decided, ReplaceRequest):
            return Diverted(instead=decided)
        return self._allowed(request, decided.request)

    def _allowed(self, request: ModelRequest, wanted: ModelRequest) -> ModelRequest:
        """Keep a request within what the session has: known models, its own tools."""
        models = self.models.at(self.desk.state.settings.cwd)
        if wanted.model not in models.providers:
            name = self.protocol.record.name
            raise ProtocolFault(name, "before_model_call", f"there is no model called {wanted.model!r} here")
        info = models.infos.get(wanted.model)
        offered = {tool.name for tool in request.tools} if info is None or info.tools else set()
        tools = tuple(tool for tool in wanted.tools if tool.name in offered)
        messages = wanted.messages if info is None or info.images else without_images(wanted.messages)
        return attrs.evolve(wanted, messages=messages, tools=tools, cache_key=request.cache_key)
