"""A host for tests: `async with TestHost(ext) as host:` talks to an extension in memory, as a real host would.

Requests of the extension go through the real checks, so it gets the real errors. Its actions are recorded in
`session_calls`, `ui_requests`, `programs`, `bus`, `logs`, `progress` and `registry`; `kv` is a dict to fill and read.

Plain handlers run in threads. With `autojump_clock`, the clock may jump while one runs, so set no time limits of your
own in such a test; the host itself has none.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from session_core.errors import NotFound
from session_core.ids import new_id
from session_core.sep.host.calls import hooks
from session_core.sep.host.calls.commands import as_arguments
from session_core.sep.host.calls.events import bus_event, widget_key
from session_core.sep.host.registrations import handled_hooks
from session_core.sep.protocol.names import HOOKS, HookName
from session_core.sep.sdk.answers import CommandCompletion, Credentials, ToolResult
from session_core.sep.sdk.extension import KNOWN_EVENTS, Extension
from session_core.sep.sdk.failures import HostError as HostError
from session_core.sep.sdk.signatures import describe_unknown
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
    """A host with one extension and one session, open for the length of the block; the extension ends with it.

    Args:
        extension: The extension, a folder with its `extension.toml`, or the command line that starts it. The last two
            run in their own process.
        initialize: Whether the block starts with the handshake.
        flags: Values of flags, by name.
        ui: The answers of people, by kind: a bool, a string, None for a dismissed dialog, a dict in wire form, an
            exception, or a function of the request. A list of kinds means that all those dialogs are dismissed. Other
            kinds are answered with `NoUi`. `host.ui` may be changed later.
        capabilities: What the manifest enables; by default everything, or what the manifest in the folder says.
        events: The events to which the manifest narrows subscriptions.
        workspace: The folder that people work in.
        session_id: The session of all calls and events.
        state: What `ctx.state()` returns.
        kv: Values that are already stored.
        exec: How programs end: an `ExecResult`, a string as their output, or a function of command, args and folder. By
            default all programs are refused.
        tools: The tools that the model could see, for `ctx.set_active`; by default whatever the extension asks for.
        observers_may_fail: Whether an error in an `@ext.on` handler is only logged, as in a real host. Otherwise it
            fails the test, at the next `settled` or at the end of the block.

    Raises:
        ValueError: `ui` names an unknown kind.
    """

    __test__ = False  # not a test, despite its name

    # --- requests -----------------------------------------------------------------------------------------------------

    async def call_tool(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool by its bare name. As in every host, arguments that do not fit the schema never reach the tool.

        Raises:
            NotFound: There is no such tool.
            HostError: The extension answered with an error.
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
        """Run a hook, and apply its answer as a host would.

        Raises:
            ValueError: There is no such hook.
            NotFound: The extension does not handle this hook.
            HostError: The extension answered with an error; where a hook protects something, a host treats that as a
                veto.
            UnusableAnswer: The answer is not a hook outcome.
        """
        if hook not in HOOKS:
            raise ValueError(describe_unknown("hook", hook, HOOKS))
        handled = handled_hooks(self.registrations)
        if handled is not None and hook not in handled:
            raise NotFound(f"the extension does not handle the hook {hook}; it handles: {', '.join(handled) or 'none'}")
        name, value = self._subject.name, {**(input or {}), **named}
        answer = await self._dispatch("hook", hook=hook, input={**value, "session_id": self.session_id})
        wanted = hooks.read_outcome(answer)
        allowed = hooks.restrict_outcome(name, hook, value, wanted)
        if isinstance(wanted, hooks.ModifyOutcome) and allowed is hooks.GO_ON:
            self._world.log(name, "warn", f"its change of a call of {value.get('tool')!r} was ignored", None)
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
        """Run a command with typed arguments, or with an object; returns its text.

        Raises:
            NotFound: There is no such command.
            HostError: The extension answered with an error.
        """
        found = _known("command", command, self.registrations.commands)
        arguments = as_arguments(typed, found.description) if isinstance(typed, str) else dict(typed)
        answer = require_object(command, await self._dispatch("command/execute", command=command, arguments=arguments))
        content = answer.get("content")
        if not isinstance(content, str | None):
            raise UnusableAnswer(f"{command} was answered with {content!r} as its content, which must be text")
        return content

    async def complete_command(self, command: str, partial: str = "", /) -> list[CommandCompletion]:
        """Return completions for the arguments of a command.

        Raises:
            NotFound: There is no such command.
            HostError: The extension answered with an error; a host treats that as no completions.
        """
        _known("command", command, self.registrations.commands)
        return parse_completions(await self._dispatch("command/complete", command=command, partial=partial))

    async def complete(
        self, provider: str, model: str, messages: str | Sequence[Mapping[str, Any]], /, **more: Any
    ) -> ModelCompletion:
        """Call a model; a string counts as one user message. `more` holds `tools`, `thinking`, `max_tokens` and so on.

        Raises:
            NotFound: There is no such provider.
            HostError: The extension answered with an error.
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
        """Log in to a provider; `ui` answers its questions."""
        return parse_credentials(await self._dispatch("provider/oauth_login", provider=provider))

    async def refresh(self, provider: str, refresh_token: str) -> Credentials:
        """Renew a login."""
        params = {"provider": provider, "refresh_token": refresh_token}
        return parse_credentials(await self._dispatch("provider/oauth_refresh", **params))

    # --- events -------------------------------------------------------------------------------------------------------

    async def send_event(self, event: str, payload: Mapping[str, Any] | None = None) -> bool:
        """Send an event if the extension has subscribed to it, and return whether it has. See `settled`.

        Raises:
            ValueError: Hosts send no such event.
        """
        if event not in KNOWN_EVENTS:
            raise ValueError(describe_unknown("event", event, KNOWN_EVENTS))
        return await self._tell(event, {"session_id": self.session_id, **(payload or {})})

    async def publish(self, topic: str, payload: Mapping[str, Any] | None = None, *, sender: str = "other") -> bool:
        """Publish a message on the bus as another extension; returns whether this one has subscribed."""
        event = bus_event(sender, topic, payload or {})
        return await self._tell(event.name, event.payload)

    async def press_key(self, widget_id: str, key: str) -> bool:
        """Press a key in a widget; returns whether the extension has subscribed."""
        event = widget_key(self.session_id, widget_id, key)
        return await self._tell(event.name, event.payload)


def host_fixture(extension: Extension | Callable[[], Extension] | Path | Sequence[str], **options: Any) -> Any:
    """Make a pytest-trio fixture that gives each test its own host: `host = host_fixture(ext, ui=["notify"])`.

    Args:
        extension: As for `TestHost`, or a function that makes a new one for each test.
        options: As for `TestHost`.
    """
    from pytest_trio import trio_fixture

    async def host() -> AsyncGenerator[TestHost]:
        made = extension() if callable(extension) else extension
        async with TestHost(made, **options) as host:
            yield host  # noqa: ASYNC119 - pytest-trio closes it

    return trio_fixture(host)


def _known(kind: str, name: str, there: Iterable[N]) -> N:
    names = {each.name: each for each in there}
    if name not in names:
        raise NotFound(f"the extension has no {kind} {name!r}; it has: {', '.join(names) or 'none'}", field="name")
    return names[name]
