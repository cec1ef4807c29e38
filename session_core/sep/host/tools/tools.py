"""Tools of extensions as tools of the agent, and which of them a session has.

A model knows them as `<extension>.<tool>`; providers adapt names that their APIs do not accept. Nothing is known about
the effects of such a tool, so it counts as able to do anything. Models see deferred tools only after searching for
them: a hundred rarely used tools then cost as much as one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.ids import SessionId
from session_core.rpc.failures import RpcFailed, RpcTimedOut
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.hooks import to_single_line
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.registrations import ToolRegistration
from session_core.sep.host.tools.tool_calls import ToolCalls
from session_core.sep.host.tools.tool_search import ToolSearch
from session_core.sep.protocol.fields import InvalidDocumentField, frozen_object
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec
from session_core.wire.error_text import describe_json
from session_core.wire.strict_json import find_excess, is_encodable

_EFFECTS: Final[frozenset[Effect]] = frozenset({"read", "write", "execute", "network"})
_VALUES_AT_ONCE: Final = 1_000
"""Values in the details of a result that are read at once, in about two milliseconds."""
_MOST_SESSIONS: Final = 4_096
"""Sessions whose found tools are remembered; the longest unchanged are dropped first, and can search again."""


@attrs.frozen(kw_only=True, eq=False)
class ExtensionTool:
    """A tool that an extension runs."""

    extension: HostedExtension
    registration: ToolRegistration
    contexts: Contexts
    calls: ToolCalls
    spec: ToolSpec = attrs.field(init=False)
    effects: frozenset[Effect] = _EFFECTS

    def __attrs_post_init__(self) -> None:
        spec = ToolSpec(
            name=tool_name(self.extension.name, self.registration.name),
            description=self.registration.description,
            parameters=self.registration.parameters,
        )
        object.__setattr__(self, "spec", spec)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Let the extension run it; on cancellation it is told that the request was cancelled."""
        extension = self.extension
        name = extension.name
        if not extension.running:
            why = f": {to_single_line(extension.problem)}" if extension.problem else ""
            raise ToolFailed(f"The extension {name} is not running{why}")
        with (
            self.contexts.dispatch(name, extension.generation, context.session_id or None) as dispatch,
            self.calls.open(name, context.progress) as call,
        ):
            params = {
                "call_id": call.call_id,
                "tool": self.registration.name,
                "arguments": arguments,
                "context": dispatch.wire,
            }
            try:
                answer = await extension.request("tool/execute", params, timeout=call)
            except RpcTimedOut as error:
                raise ToolFailed(f"{self.spec.name} was given up: {call.why_given_up}") from error
            except (RpcFailed, InvalidInput) as error:
                raise self._failure(error) from error
        return await self._output(answer)

    def _failure(self, error: RpcFailed | InvalidInput) -> ToolFailed:
        name = self.spec.name
        if isinstance(error, InvalidInput):
            return ToolFailed(f"{name} could not be called: {error.message}")
        return ToolFailed(to_single_line(error.message) or f"{name} failed and did not say why")

    async def _output(self, answer: Any) -> ToolOutput:
        name = self.spec.name
        if not isinstance(answer, dict):
            raise ToolFailed(f"{name} answered with {describe_json(answer)} where an object is needed")
        content, failed = answer.get("content"), answer.get("is_error")
        details = answer.get("details")
        if details is not None:
            details = await self._details(details)
        if not isinstance(content, str) or not is_encodable(content):
            got = "an unpaired surrogate" if isinstance(content, str) else describe_json(content)
            raise ToolFailed(f"{name} answered with {got} as its content, which must be text", details=details)
        if failed is not None and not isinstance(failed, bool):
            raise ToolFailed(f"{name} did not say whether it failed, but {describe_json(failed)}", details=details)
        if failed:
            raise ToolFailed(content or f"{name} failed and did not say why", details=details)
        return ToolOutput(text=content, details=details)

    async def _details(self, details: Any) -> JsonObject | None:
        """Return the details of a result as an object; any other value is wrapped in one. Large ones are read aside."""
        freeze = partial(
            frozen_object,
            details if isinstance(details, dict) else {"value": details},
            "details",
            most=limits.MAX_SHOWN_CHARS,
        )
        try:
            if find_excess(details, chars=limits.MAX_SHOWN_CHARS, values=_VALUES_AT_ONCE):
                return await trio.to_thread.run_sync(freeze, abandon_on_cancel=True)
            return freeze()
        except InvalidDocumentField as wrong:
            self.extension.log.note("host", f"the details of a result of {self.registration.name} are lost: {wrong}")
            return None


def tool_name(extension: str, tool: str) -> str:
    """Return the agent's name for a tool; the part before the first dot is always the extension's name."""
    return f"{extension}.{tool}"


class ExtensionToolSource:
    """The tools of all extensions, as each session has them.

    Args:
        extensions: Returns those of a session, in load order.
        contexts: The tokens with which tools may act in sessions.
    """

    def __init__(self, extensions: Callable[[SessionId], Iterable[HostedExtension]], contexts: Contexts) -> None:
        self.calls = ToolCalls()
        self._extensions = extensions
        self._contexts = contexts
        self._found: dict[SessionId, dict[str, None]] = {}

    def promoted_names(self, session_id: SessionId) -> Collection[str]:
        """Return the names of the deferred tools that a session has found."""
        return self._found.get(session_id, {})

    def promote(self, session_id: SessionId, names: Iterable[str]) -> None:
        """Show these tools to a session's model, from its next call on."""
        found = self._found.pop(session_id, {})
        found.update(dict.fromkeys(names))
        self._found[session_id] = found
        if len(self._found) > _MOST_SESSIONS:
            del self._found[next(iter(self._found))]

    def forget(self, session_id: SessionId) -> None:
        """Drop what a session has found, because the session is gone."""
        self._found.pop(session_id, None)

    def tools(self, session_id: SessionId) -> Sequence[Tool]:
        """Return the tools that a session's model sees: all except deferred ones it has not found yet."""
        return visible_tools((self,), session_id)

    def all_tools(self, session_id: SessionId) -> Iterator[ExtensionTool]:
        """Iterate over all tools of a session, visible or not."""
        for extension in self._extensions(session_id):
            # An extension that is coming back keeps its tools: tools that come and go confuse models.
            if extension.running or extension.state in {"restarting", "reloading"}:
                for registration in extension.registrations.tools:
                    yield ExtensionTool(
                        extension=extension, registration=registration, contexts=self._contexts, calls=self.calls
                    )


def visible_tools(sources: Sequence[ExtensionToolSource], session_id: SessionId) -> list[Tool]:
    """Return the tools of several sources that a session's model sees, with one search for all deferred ones."""
    visible: list[Tool] = []
    hidden: list[ExtensionTool] = []
    source_of: dict[str, ExtensionToolSource] = {}
    for source in sources:
        found = source.promoted_names(session_id)
        for tool in source.all_tools(session_id):
            if not tool.registration.deferred or tool.spec.name in found:
                visible.append(tool)
            if tool.registration.deferred:
                hidden.append(tool)
                source_of.setdefault(tool.spec.name, source)
    if not any(tool.spec.name not in source_of[tool.spec.name].promoted_names(session_id) for tool in hidden):
        return visible

    def promote(session_id: SessionId, names: Iterable[str]) -> None:
        for name in names:
            source_of[name].promote(session_id, (name,))

    visible.append(ToolSearch([tool.spec for tool in hidden], promote))
    return visible
