"""A host for tests: `async with TestHost(ext) as host:` talks to an extension as a real one would, in memory.

What the extension asks goes through the real checks, so it gets the real errors. What it does is written down:
`session_calls`, `ui_requests`, `programs`, `bus`, `logs`, `progress`, `registry`; `kv` is a dict to fill and to read.

Handlers that are plain functions run in threads. With `autojump_clock` the clock may jump while one runs, so leave out
time limits of your own in such a test; the host itself has none.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from session_core.errors import NotFound
from session_core.ids import new_id
from session_core.sep.host.calls import hooks
from session_core.sep.host.calls.events import bus_event, widget_key
from session_core.sep.host.info import as_arguments
from session_core.sep.host.registrations import handled_hooks
from session_core.sep.protocol.names import HOOKS, HookName
from session_core.sep.sdk.answers import CommandCompletion, Credentials, ToolResult
from session_core.sep.sdk.extension import KNOWN_EVENTS, Extension
from session_core.sep.sdk.failures import HostError as HostError
from session_core.sep.sdk.signatures import suggest_name
from session_core.sep.sdk.testing_answers import HookResult as HookResult
from session_core.sep.sdk.testing_answers import ModelCompletion as ModelCompletion
from session_core.sep.sdk.testing_answers import UnusableAnswer as UnusableAnswer
from session_core.sep.sdk.testing_answers import (
    parse_completions,
    parse_credentials,
    parse_model_answer,
    parse_tool_result,
    require_object,
)
from session_core.sep.sdk.testing_life import HostLife
from session_core.sep.sdk.testing_link import StartedCall as StartedCall
from session_core.sep.sdk.testing_world import BusMessage as BusMessage
from session_core.sep.sdk.testing_world import LogLine as LogLine
from session_core.sep.sdk.testing_world import Program as Program
from session_core.sep.sdk.testing_world import ProgressReport as ProgressReport
from session_core.sep.sdk.testing_world import SessionCall as SessionCall
from session_core.sep.sdk.testing_world import UiRequest as UiRequest
from session_core.tools.arguments import check_arguments
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec


class _NamedItem(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_NamedItem)


class TestHost(HostLife):
    """A host with one extension and one session; everything is done in the block, and the extension ends with it.

    Args:
        extension: The extension, or a folder with its `extension.toml`, or the command line that starts it. The last
            two run in a process of their own.
        initialize: Whether the block begins with the handshake.
        flags: Values of flags, by name.
        ui: What people answer, by kind: true or false, a text, None for a dismissed dialog, a dict as it goes over the
            wire, an exception, or a function of the request. A list of kinds: all dialogs are dismissed. Whatever is
            not here is answered with NoUi. `host.ui` may be changed later.
        capabilities: What the manifest enables; all by default, or what the manifest in the folder says.
        events: Those that the manifest narrows its subscriptions to.
        workspace: The folder that people work in.
        session_id: The session that calls and events concern.
        state: What `ctx.state()` returns.
        kv: Values that are kept already.
        exec: How programs end: a `Ran`, a text for their output, or a function of command, args and folder. Without it
            all are refused.
        tools: The tools that the model could be shown, for `ctx.set_active`; by default whatever is asked for.
        observers_may_fail: Whether a fault of an `@ext.on` handler is only logged, as by a host. Otherwise it fails the
            test, at the next `settled` or at the end of the block.

    Raises:
        ValueError: `ui` names a kind that there is not.
    """

    __test__ = False  # it is no test, whatever its name

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def call_tool(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool by its bare name. Arguments that its schema refuses do not reach it, as with every host.

        Raises:
            NotFound: There is no such tool.
            HostError: It has answered with an error.
        """
        found = _known("tool", tool, self.registrations.tools)
        given = {**(arguments or {}), **named}
        spec = ToolSpec(name=f"{self._subject.name}.{tool}", description="", parameters=found.parameters)
        if (fault := check_arguments(spec, JsonObject(given))) is not None:
            return ToolResult(content=f"The call could not be made: {fault}.", is_error=True)
        call_id = new_id("call")
        self._world.tool_calls[call_id] = tool
        try:
            answer = await self._dispatch("tool/execute", call_id=call_id, tool=tool, arguments=given)
        finally:
            del self._world.tool_calls[call_id]
        return parse_tool_result(tool, answer)

    async def call_hook(self, hook: HookName, input: Mapping[str, Any] | None = None, /, **named: Any) -> HookResult:
        """Ask at a place of a turn, and take of the answer what a host takes.

        Raises:
            ValueError: There is no such hook.
            NotFound: The extension does not handle this hook.
            HostError: It has answered with an error; a host takes that for a no where a hook protects something.
            UnusableAnswer: Its answer is none.
        """
        if hook not in HOOKS:
            raise ValueError(f"there is no hook {hook!r}{suggest_name(hook, HOOKS)}; known are: {', '.join(HOOKS)}")
        handled = handled_hooks(self.registrations)
        if handled is not None and hook not in handled:
            raise NotFound(f"the extension does not handle the hook {hook}; it handles: {', '.join(handled) or 'none'}")
        name, value = self._subject.name, {**(input or {}), **named}
        answer = await self._dispatch("hook", hook=hook, input={**value, "session_id": self.session_id})
        wanted = hooks.read_outcome(answer)
        allowed = hooks.restrict_outcome(name, hook, value, wanted)
        if isinstance(wanted, hooks.ModifyOutcome) and allowed is hooks.GO_ON:
            self._world.log(name, "warn", f"its change of a call of {value.get('tool')!r} was passed over", None)
        match allowed:
            case hooks.FailureOutcome():
                raise UnusableAnswer(f"the extension {allowed.why}")
            case hooks.BlockOutcome():
                return HookResult(action="block", value=None, reason=allowed.reason)
            case hooks.ModifyOutcome():
                return HookResult(action="modify", value={**value, **allowed.patch})
            case _:
                return HookResult(action="continue", value=value)

    async def run_command(self, command: str, typed: str | Mapping[str, Any] = "", /) -> str | None:
        """Run a command with what was typed behind it, or with an object; returns what it has to say.

        Raises:
            NotFound: There is no such command.
            HostError: It has answered with an error.
        """
        _known("command", command, self.registrations.commands)
        arguments = as_arguments(typed) if isinstance(typed, str) else dict(typed)
        answer = require_object(command, await self._dispatch("command/execute", command=command, arguments=arguments))
        content = answer.get("content")
        if not isinstance(content, str | None):
            raise UnusableAnswer(f"{command} was answered with {content!r} as its content, which must be text")
        return content

    async def complete_command(self, command: str, partial: str = "", /) -> list[CommandCompletion]:
        """Ask how what was typed behind a command could go on.

        Raises:
            NotFound: There is no such command.
            HostError: It has answered with an error, which a host takes for nothing.
        """
        _known("command", command, self.registrations.commands)
        return parse_completions(await self._dispatch("command/complete", command=command, partial=partial))

    async def complete(
        self, provider: str, model: str, messages: str | Sequence[Mapping[str, Any]], /, **more: Any
    ) -> ModelCompletion:
        """Ask a model; a text is one message of a user. `more` are `tools`, `thinking`, `max_tokens` and so on.

        Raises:
            NotFound: There is no such provider.
            HostError: It has answered with an error.
        """
        _known("provider", provider, self.registrations.providers)
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(map(dict, messages))
        request_id = new_id("answer")
        deltas = self._world.answers[request_id] = []
        about = {"request_id": request_id, "provider": provider, "model": model, "messages": said, "stream": True}
        try:
            answer = await self._dispatch("provider/complete", **{**about, **more})
        finally:
            del self._world.answers[request_id]
        return ModelCompletion(answer=parse_model_answer(answer), deltas=tuple(deltas))

    async def login(self, provider: str) -> Credentials:
        """Have somebody log in to a provider; `ui` answers for them."""
        return parse_credentials(await self._dispatch("provider/oauth_login", provider=provider))

    async def refresh(self, provider: str, refresh_token: str) -> Credentials:
        """Renew a login."""
        params = {"provider": provider, "refresh_token": refresh_token}
        return parse_credentials(await self._dispatch("provider/oauth_refresh", **params))

    # --- what is told -------------------------------------------------------------------------------------------------

    async def send_event(self, event: str, payload: Mapping[str, Any] | None = None) -> bool:
        """Tell of an event, if the extension has subscribed to it; returns whether it has. See `settled`.

        Raises:
            ValueError: No host tells of such an event.
        """
        if event not in KNOWN_EVENTS:
            known = ", ".join(KNOWN_EVENTS)
            raise ValueError(f"there is no event {event!r}{suggest_name(event, KNOWN_EVENTS)}; known are: {known}")
        return await self._tell(event, {"session_id": self.session_id, **(payload or {})})

    async def publish(self, topic: str, payload: Mapping[str, Any] | None = None, *, sender: str = "other") -> bool:
        """Have another extension tell something."""
        event = bus_event(sender, topic, payload or {})
        return await self._tell(event.name, event.payload)

    async def press_key(self, widget_id: str, key: str) -> bool:
        """Have somebody press a key in a widget."""
        event = widget_key(self.session_id, widget_id, key)
        return await self._tell(event.name, event.payload)


def host_fixture(extension: Extension | Callable[[], Extension] | Path | Sequence[str], **options: Any) -> Any:
    """Make a fixture for pytest-trio that gives each test a host of its own: `host = host_fixture(ext, ui=["notify"])`.

    Args:
        extension: As for `TestHost`, or a function that makes a fresh one for each test.
        options: As for `TestHost`.
    """
    from pytest_trio import trio_fixture

    async def host() -> AsyncGenerator[TestHost]:
        made = extension() if callable(extension) else extension
        async with TestHost(made, **options) as host:
            yield host  # noqa: ASYNC119 - pytest-trio sees to its end

    return trio_fixture(host)


def _known(kind: str, name: str, there: Iterable[N]) -> N:
    names = {each.name: each for each in there}
    if name not in names:
        raise NotFound(f"the extension has no {kind} {name!r}; it has: {', '.join(names) or 'none'}", field="name")
    return names[name]
