"""Ask a protocol before each model call; it may then ask models directly, run child sessions, and programs.

Neither built-in protocol does, so a turn imports and builds this only for a protocol that defines `before_model_call`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs

from session_core.agent.context import replace_images
from session_core.agent.model_call import AskBeforeCall, CallDiversion, Models
from session_core.agent.plugin_support.direct_model_call import DirectCompletions
from session_core.agent.plugin_support.turn_children import TurnChildren
from session_core.agent.plugin_support.turn_processes import TurnProcesses
from session_core.agent.protocol_work import current_frame
from session_core.agent.tool_runner import ToolConfig
from session_core.protocols.contexts import BeforeCallContext, Lease, Processes, ReplaceRequest
from session_core.protocols.faults import ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.providers.base import ModelRequest
from session_core.session.turn_handle import TurnHandle


@asynccontextmanager
async def open_before_call_hook(
    handle: TurnHandle, protocol: SessionProtocol, models: Models, config: ToolConfig
) -> AsyncGenerator[AskBeforeCall]:
    """Yield the function that asks the protocol before each model call; its programs end with the block."""
    async with TurnProcesses(handle, config) as processes:
        yield BeforeCallHook(
            handle=handle,
            models=models,
            protocol=protocol,
            direct=DirectCompletions(handle, models),
            children=TurnChildren(handle, config),
            processes=processes,
        ).ask


@attrs.frozen(kw_only=True)
class BeforeCallHook:
    """Asks a protocol before each model call of a turn."""

    handle: TurnHandle
    models: Models
    protocol: SessionProtocol
    direct: DirectCompletions
    children: TurnChildren
    processes: Processes

    async def ask(self, request: ModelRequest) -> ModelRequest | CallDiversion:
        """Return the request for the model, or what to do instead.

        Raises:
            ProtocolFault: The protocol failed, or asks for a model that does not exist.
        """
        state, turn = self.handle.state, self.handle.state.turn
        assert turn is not None

        def make_context(lease: Lease) -> BeforeCallContext:
            return BeforeCallContext(
                session_id=state.session_id,
                turn_id=turn.turn_id,
                frame=current_frame(state),
                is_root=self.protocol.is_root,
                step=turn.steps,
                usage=turn.usage,
                context_tokens=state.context_tokens,
                cwd=state.settings.cwd,
                sandbox=state.settings.sandbox,
                tools=request.tools,
                lease=lease,
                own=self.protocol.own,
                complete=self.direct.complete,
                processes=self.processes,
                take_view=self.handle.snapshot,
                load_conversation=self.handle.conversation,
                run_child=self.children.run,
            )

        decided = await self.protocol.before_model_call(make_context, request)
        if decided is None:
            return request
        if not isinstance(decided, ReplaceRequest):
            return CallDiversion(instead=decided)
        return self._restrict_request(request, decided.request)

    def _restrict_request(self, request: ModelRequest, wanted: ModelRequest) -> ModelRequest:
        """Keep a request within what the session has: known models, its own tools."""
        models = self.models.with_folder_models(self.handle.state.settings.cwd)
        if wanted.model not in models.providers:
            name = self.protocol.record.name
            raise ProtocolFault(name, "before_model_call", f"there is no model called {wanted.model!r} here")
        info = models.infos.get(wanted.model)
        offered = {tool.name for tool in request.tools} if info is None or info.tools else set()
        tools = tuple(tool for tool in wanted.tools if tool.name in offered)
        messages = wanted.messages if info is None or info.images else replace_images(wanted.messages)
        return attrs.evolve(wanted, messages=messages, tools=tools, cache_key=request.cache_key)
