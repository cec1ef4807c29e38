"""`Extension`, the class that authors use. Decorators register functions, and `serve` talks to the host.

Decorated functions may be async or plain. A plain function runs in a thread, so it may block. Every function gets a
context as its first argument, which describes the call and gives access to the host. A tool gets one only if its first
parameter is called `ctx` or has the type of a context.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import trio

from session_core.sep.protocol.names import EVENTS, HOOKS, HookName
from session_core.sep.sdk.registry import (
    Handler,
    Model,
    Observer,
    RegisteredCommand,
    RegisteredProvider,
    RegisteredTool,
    Registry,
    models_from,
    read_description,
    shape_of_function,
    shape_of_parameters,
    takes_context,
)
from session_core.sep.sdk.render import RenderBlock
from session_core.sep.sdk.signatures import (
    check_called_with,
    check_extension_name,
    check_function_given,
    check_name_given,
    check_new,
    describe_unknown,
    name_of,
)

KNOWN_EVENTS = (*EVENTS, "events_lost")
"""The events that a host sends; `events_lost` says that it had to drop some."""


class Extension:
    """An extension: create one, register functions with its decorators, then call `serve`.

    Args:
        name: Its name, as in `extension.toml`.
        version: Its version.

    Raises:
        ValueError: The name is not a valid extension name.
    """

    def __init__(self, name: str, version: str = "0.1.0") -> None:
        check_extension_name(name)
        self.name = name
        self.version = version
        self.registry = Registry()
        self.cleanups: list[Callable[[], Any]] = []

    # --- for models ---------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: Handler, /) -> RegisteredTool: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | type | None = None,
        deferred: bool = False,
    ) -> Callable[[Handler], RegisteredTool]: ...

    def tool(
        self,
        function: Handler | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | type | None = None,
        deferred: bool = False,
    ) -> RegisteredTool | Callable[[Handler], RegisteredTool]:
        """Register a tool, which models know as `<extension>.<name>`.

        The docstring becomes the description. The parameters and their type hints become the JSON schema;
        `Annotated[str, "..."]` describes a parameter. With `parameters`, an attrs class or a JSON schema, the function
        gets one object instead: an instance of the class, or a dict. It returns text, a `ToolResult` or any JSON value,
        and raises `ToolError` to tell the model what went wrong.

        Args:
            function: The function, when the decorator is used without parentheses.
            name: The tool's name, instead of the function's.
            description: The description, instead of the docstring.
            parameters: The parameters, where type hints cannot describe them.
            deferred: Whether models see the tool only after they search for it.

        Raises:
            TypeError: This is not a function, or it cannot be called as a tool.
            ValueError: There is already a tool with this name.
        """

        def register(function: Handler) -> RegisteredTool:
            check_function_given(function, "tool")
            with_context = takes_context(function)
            if parameters is None:
                shape = shape_of_function(function, skip_first=with_context)
            else:
                shape = shape_of_parameters(parameters)
            known_as = name_of(function, name, "tool")
            check_new("tool", known_as, self.registry.tools)
            if parameters is not None:
                takes = "ctx, arguments" if with_context else "arguments"
                hint = ": with parameters= all arguments come as one object"
                check_called_with(function, f"the tool {known_as}", takes, hint)
            made = RegisteredTool(
                name=known_as,
                description=read_description(function, description),
                function=function,
                shape=shape,
                takes_context=with_context,
                by_name=parameters is None,
                deferred=deferred,
            )
            self.registry.tools[made.name] = made
            return made

        return register if function is None else register(function)

    def provider(
        self,
        name: str,
        *,
        models: Sequence[str | Model] | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
    ) -> Callable[[Handler], RegisteredProvider]:
        """Register a provider of models: `(ctx, request) -> text or Answer`, or an async generator of pieces.

        A generator yields text, `Reasoning`, `ToolCall` and `TokenUsage`; each piece is shown at once. The returned
        object has the decorators `.login` and `.refresh`, for providers that need a login.

        Raises:
            TypeError: The name or the models are missing, or the function cannot be called this way.
            ValueError: There is already a provider with this name.
        """
        check_name_given(name, "provider", '"name", models=["model"]')
        if models is None or isinstance(models, str):
            raise TypeError(f'a provider needs a list of models: write @ext.provider({name!r}, models=["model"])')

        def register(function: Handler) -> RegisteredProvider:
            check_new("provider", name, self.registry.providers)
            check_called_with(function, f"the provider {name}", "ctx, request")
            made = self.registry.providers[name] = RegisteredProvider(
                name=name,
                models=models_from(models),
                function=function,
                base_url=base_url,
                api_key_env=api_key_env,
            )
            return made

        return register

    # --- for people ---------------------------------------------------------------------------------------------------

    @overload
    def command(self, function: Handler, /) -> RegisteredCommand: ...

    @overload
    def command(
        self, /, *, name: str | None = None, description: str | None = None
    ) -> Callable[[Handler], RegisteredCommand]: ...

    def command(
        self, function: Handler | None = None, /, *, name: str | None = None, description: str | None = None
    ) -> RegisteredCommand | Callable[[Handler], RegisteredCommand]:
        """Register a slash command: `(ctx) -> text or None`. The returned object has a decorator `.complete`.

        The name is that of the function, with `-` for `_`: people type `/run-git` to call `run_git`.

        Raises:
            TypeError: This is not a function, or it cannot be called as a command.
            ValueError: There is already a command with this name.
        """

        def register(function: Handler) -> RegisteredCommand:
            check_function_given(function, "command")
            known_as = name if name is not None else name_of(function, None, "command").replace("_", "-")
            check_new("command", known_as, self.registry.commands)
            check_called_with(
                function, f"the command {known_as}", "ctx", "; what was typed is in ctx.text and ctx.words"
            )
            made = RegisteredCommand(
                name=known_as,
                description=read_description(function, description),
                function=function,
            )
            self.registry.commands[made.name] = made
            return made

        return register if function is None else register(function)

    def shortcut(self, key: str, command: str | RegisteredCommand, *, description: str = "") -> None:
        """Bind a key such as `ctrl+p` to a command."""
        name = command.name if isinstance(command, RegisteredCommand) else command
        self.registry.shortcuts[key] = {"key": key, "command": name, "description": description}

    def flag(self, name: str, *, default: Any = False) -> None:
        """Declare a flag that people can set; handlers read it with `ctx.flag(name)`."""
        self.registry.flags[name] = default

    def renderer(self, tag: str, template: RenderBlock) -> None:
        """Define how entries with this tag are shown; `{{path}}` in a string of the template stands for a value."""
        self.registry.renderers[tag] = template

    # --- for turns ----------------------------------------------------------------------------------------------------

    def hook(self, hook: HookName) -> Callable[[Handler], Handler]:
        """Register a function for a hook in each turn; it returns None, `block(...)` or `patch(...)`.

        Raises:
            ValueError: There is no such hook.
            TypeError: The name is missing, or the function cannot be called this way.
        """
        check_name_given(hook, "hook", '"tool_call"')
        if hook not in HOOKS:
            if hook in KNOWN_EVENTS:
                raise ValueError(f"{hook!r} is an event, not a hook: use @ext.on({hook!r})")
            raise ValueError(describe_unknown("hook", hook, HOOKS))

        def register(function: Handler) -> Handler:
            check_called_with(function, f"a function for the hook {hook}", "ctx")
            self.registry.hooks.setdefault(hook, []).append(function)
            return function

        return register

    def on(self, event: str) -> Callable[[Handler], Handler]:
        """Register a function for an event. It handles one event at a time; an error in it is logged and ends nothing.

        Raises:
            ValueError: There is no such event.
            TypeError: The name is missing, or the function cannot be called this way.
        """
        check_name_given(event, "on", '"turn_end"')
        if event not in KNOWN_EVENTS:
            if event in HOOKS:
                raise ValueError(f"{event!r} is a hook, not an event: use @ext.hook({event!r})")
            raise ValueError(describe_unknown("event", event, KNOWN_EVENTS))
        return self._observer(event, {})

    def on_topic(self, topic: str) -> Callable[[Handler], Handler]:
        """Register a function for what other extensions publish on a topic: `ctx.payload["payload"]`."""
        check_name_given(topic, "on_topic", '"topic"')
        return self._observer("bus/event", {"topic": topic})

    def on_widget_key(self, widget_id: str) -> Callable[[Handler], Handler]:
        """Register a function for keys that people press in a widget: `ctx.payload["key"]`."""
        check_name_given(widget_id, "on_widget_key", '"widget"')
        return self._observer("widget/key", {"widget_id": widget_id})

    def _observer(self, event: str, payload: Mapping[str, Any]) -> Callable[[Handler], Handler]:
        def register(function: Handler) -> Handler:
            check_called_with(function, f"a function for the event {event}", "ctx")
            self.registry.observers.append(Observer(event=event, function=function, payload=payload))
            return function

        return register

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def on_shutdown(self, cleanup: Callable[[], Any]) -> Callable[[], Any]:
        """Call a function, async or not, before the extension ends. Functions run in reverse order of registration."""
        self.cleanups.append(cleanup)
        return cleanup

    def serve(self) -> None:
        """Talk to the host over stdin and stdout until it shuts the extension down or disconnects.

        Meanwhile, whatever the program prints goes to stderr, which the host keeps as the extension's log.
        """
        from session_core.sep.sdk.stdio import serve

        serve(self)

    async def run(  # noqa: ASYNC128 - the runtime reports
        self,
        source: int | trio.abc.ReceiveStream,
        sink: int | trio.abc.SendStream,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Talk to a host over a pair of descriptors or streams until it shuts the extension down or disconnects."""
        from session_core.sep.sdk.runtime import Runtime

        await Runtime(self).run(source, sink, task_status=task_status)
