"""Requests of an extension: every method it may call, checked in one fixed order.

1. The method exists, else -32601.
2. An action in a session names the context of an open dispatch of the command tier, else -32003. What the extension
   claims about its tier can only lower what it was given.
3. Its manifest has the capability, and the dispatch belongs to a session, else -32004. A kind of dialog that nobody
   watching can handle is -32001.
4. The params are valid, else -32602, which names the field.
5. An action already carried out in the same dispatch is not repeated when it comes again under the same id.
6. The extension stays within its publishing limit, else -32603, which names the limit.
7. Only then does the delegate see it. If the service refuses, the error carries the service's own message.

`ui/request` and `tools/set_active` carry no context in the published protocol, so the session is derived from what the
process is busy with; if it names a context, that counts. `bus/publish` always succeeds, whatever it holds, because
extensions do not wait for that answer and die of an error.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, cast, get_args

import attrs
import msgspec
import trio

from session_core import limits
from session_core.errors import Forbidden, InvalidInput, ProtocolError, SessionCoreError
from session_core.ids import SessionId
from session_core.limits import MAX_OPEN_REQUESTS, MAX_SHOWN_CHARS
from session_core.rpc.failures import RpcFailed, method_not_found
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.notifications import NOTES, dispatch_notification, has_capability
from session_core.sep.host.calls.notifications import ExtensionSender as ExtensionSender
from session_core.sep.host.calls.notifications import HostView as HostView
from session_core.sep.host.calls.notifications import LogLevel as LogLevel
from session_core.sep.host.calls.rate_limit import PublishingLimits
from session_core.sep.host.registrations import RegistrationsInvalid
from session_core.sep.host.registry_updates import REGISTER, RegistryUpdater
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, check_object
from session_core.sep.protocol.names import (
    BLOCKED,
    CAPABILITY_DISABLED,
    CONTEXT_VIOLATION,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NO_UI,
    QUESTIONS,
    Capability,
    UiKind,
)
from session_core.sep.protocol.render_blocks import read_render_block
from session_core.sep.protocol.service_api import Delegate, DeliverAs, ExtensionCaller, Role
from session_core.vocabulary.extensions import NoticeLevel
from session_core.wire.error_text import quote_text
from session_core.wire.strict_json import find_excess

# --- reading a `ui/request`: the fields of each kind of dialog or display ---------------------------------------------
MAX_PROMPT_CHARS: Final = 16_000
"""The longest text that people are asked or shown at once; nobody reads more in a dialog."""
MAX_OPTIONS: Final = MAX_OPEN_REQUESTS
"""The most options to choose from; a longer list needs a search, not a dialog."""
MAX_LINE_CHARS: Final = 1_000
"""One option, a title, a status."""


def read_ui_request(kind: UiKind, params: DocumentFields) -> dict[str, Any]:
    """Return the fields that belong to a request of this kind, and no others.

    Raises:
        InvalidDocumentField: Something is missing or cannot be shown.
    """
    match kind:
        case "select":
            options = params.texts("options", most=MAX_OPTIONS, chars=MAX_LINE_CHARS, empty=True)
            if not options:
                raise InvalidDocumentField("options", "must be a non-empty list of strings")
            return {"prompt": _prompt(params), "options": list(options)}
        case "confirm":
            return {"prompt": _prompt(params)}
        case "input":
            default = params.text_or_none("default", most=MAX_PROMPT_CHARS, empty=True)
            return {"prompt": _prompt(params)} | ({} if default is None else {"default": default})
        case "notify":
            message = params.text("message", most=MAX_PROMPT_CHARS, empty=True)
            return {"message": message, "level": read_choice(params, "level", get_args(NoticeLevel), "info")}
        case "set_status":
            return {"status": params.text("status", most=MAX_LINE_CHARS, empty=True)}
        case "set_widget":
            widget = params.require("widget")
            check_object(widget, "widget", most=MAX_SHOWN_CHARS)
            read_render_block(widget, "widget")
            return {"widget": widget}
        case "set_title":
            return {"title": params.text("title", most=MAX_LINE_CHARS, empty=True)}


def _prompt(params: DocumentFields) -> str:
    return params.text("prompt", most=MAX_PROMPT_CHARS, empty=True)


def read_choice(params: DocumentFields, key: str, words: tuple[str, ...], default: str) -> str:
    """Return a field that must be one of a few words.

    Raises:
        InvalidDocumentField: It is something else.
    """
    word = params.text_or_none(key) or default
    if word not in words:
        known = ", ".join(words)
        raise InvalidDocumentField(params.field_path(key), f"must be one of {known}, got {quote_text(word)}")
    return word


# --- requests ---------------------------------------------------------------------------------------------------------

PROGRAMS_AT_ONCE: Final = 8
"""Programs of one extension that run in parallel; further ones wait for their turn."""
_MAX_ARGUMENTS: Final = 1_024
_MAX_TOOLS: Final = 1_024
_NO_SESSION = "there is no session that this could be about"

SessionLookup = Literal["nothing", "acting", "known", "guessed", "only"]
"""How a method finds its session: not at all; by the context of an open dispatch; by any context that is still known;
by a context or the likeliest session; by a context or the only session there is."""


@attrs.frozen(kw_only=True)
class _InboundCall:
    """A request that may be carried out; without a caller it belongs to no session."""

    extension: ExtensionSender
    generation: int
    params: DocumentFields
    caller: ExtensionCaller | None

    @property
    def name(self) -> str:
        return self.extension.name

    @property
    def session_caller(self) -> ExtensionCaller:
        assert self.caller is not None
        return self.caller


class InboundRequests:
    """Answers the requests of extensions.

    Args:
        contexts: The tokens given to extensions.
        delegate: The service.
        host: Handles their notifications.
    """

    def __init__(self, contexts: Contexts, delegate: Delegate, host: HostView) -> None:
        self._contexts = contexts
        self._delegate = delegate
        self._host = host
        self._programs: dict[str, trio.CapacityLimiter] = {}
        self._publishing = PublishingLimits(lambda name, text: host.log(name, "warn", text, None))
        self.registry_updater = RegistryUpdater(host)

    async def handle_request(self, extension: ExtensionSender, generation: int, request: Request) -> Any:
        """Answer a request.

        Raises:
            RpcFailed: The request was refused, or failed.

        Cancellation: whatever the service does for it is cancelled too.
        """
        if request.method in NOTES or request.method == REGISTER:
            return await self._note_request(extension, generation, request)
        await self.registry_updater.wait_settled(extension.name)  # or it could not use what it just registered
        method = _METHODS.get(request.method)
        if method is None:
            raise method_not_found(request.method)
        session_id = self._session(method.need, extension, generation, request.params)
        if method.capability is not None and not has_capability(extension, generation, method.capability):
            raise RpcFailed(CAPABILITY_DISABLED, f"the manifest does not enable {method.capability}")
        if session_id is None and method.need != "nothing":
            raise RpcFailed(NO_UI if method.need == "guessed" else CAPABILITY_DISABLED, _NO_SESSION)
        caller: ExtensionCaller | None = None
        if session_id is not None:
            turn_id = self._contexts.turn_of(extension.name, generation, session_id, request.params.get("context"))
            caller = ExtensionCaller(extension=extension.name, session_id=session_id, turn_id=turn_id)
        retried = _action(request) if method.need == "acting" and request.method != "session/state" else None
        token = request.params["context"]["token"] if retried is not None else ""
        if retried is not None and self._contexts.is_done(token, retried):
            return {}
        try:
            result = await method.carry_out(
                self,
                _InboundCall(
                    extension=extension, generation=generation, params=DocumentFields(request.params), caller=caller
                ),
            )
            if retried is not None:
                self._contexts.note_done(token, retried)
            return result
        except (InvalidDocumentField, SessionCoreError) as error:
            raise _failure(error) from error

    def handle_notification(self, extension: ExtensionSender, generation: int, notification: Notification) -> None:
        """Handle a notification; never raises for what an extension sends."""
        if notification.method == REGISTER:
            self.registry_updater.submit(extension, generation, notification.params)
            return
        dispatch_notification(self._host, extension, generation, notification.method, notification.params)

    async def _note_request(self, extension: ExtensionSender, generation: int, request: Request) -> dict[str, Any]:
        """Answer a notification that was sent as a request, so that its author learns what is wrong with it."""
        if request.method == "bus/publish":
            dispatch_notification(self._host, extension, generation, request.method, request.params)
            return {}
        try:
            if request.method == REGISTER:
                await self.registry_updater.submit_and_wait(extension, generation, request.params)
            else:
                NOTES[request.method](self._host, extension, generation, DocumentFields(request.params))
        except (InvalidDocumentField, RegistrationsInvalid) as error:
            raise _failure(error) from error
        return {}

    # --- the caller and its session -----------------------------------------------------------------------------------

    def _session(
        self, need: SessionLookup, extension: ExtensionSender, generation: int, params: Mapping[str, Any]
    ) -> SessionId | None:
        claimed = params.get("context")
        if need == "nothing":
            return None
        if need == "acting":
            if not isinstance(claimed, dict) or claimed.get("tier") != "command":
                raise RpcFailed(CONTEXT_VIOLATION, "this requires a command-tier context")
            return self._contexts.require_dispatch(extension.name, generation, claimed).session_id
        context = self._contexts.find(extension.name, generation, claimed)
        if context is not None and (context.session_id is not None or need != "guessed"):
            return context.session_id
        if need == "known" or (need == "only" and claimed is not None):
            raise RpcFailed(CONTEXT_VIOLATION, "stale or unknown context: the dispatch it belonged to is over")
        sessions = self._contexts.sessions_of(extension.name, generation)
        if need == "only" and len(sessions) > 1:
            raise RpcFailed(CONTEXT_VIOLATION, "this requires a context: the extension serves several sessions now")
        return sessions[0] if sessions else None

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def send_message(self, call: _InboundCall) -> dict[str, Any]:
        text = call.params.text("text", most=limits.MAX_TEXT_CHARS)
        role = read_choice(call.params, "role", get_args(Role), "assistant")
        self._publishing.spend(call.name, "session/send_message")
        await self._delegate.send_message(call.session_caller, text, cast(Role, role))
        return {}

    async def send_user_message(self, call: _InboundCall) -> dict[str, Any]:
        text = call.params.text("text", most=limits.MAX_TEXT_CHARS)
        deliver_as = read_choice(call.params, "deliver_as", get_args(DeliverAs), "follow_up")
        self._publishing.spend(call.name, "session/send_user_message")
        await self._delegate.send_user_message(call.session_caller, text, cast(DeliverAs, deliver_as))
        return {}

    async def append_entry(self, call: _InboundCall) -> dict[str, Any]:
        entry = call.params.require("entry")
        check_object(entry, "entry", most=limits.MAX_SHOWN_CHARS)
        self._publishing.spend(call.name, "session/append_entry")
        await self._delegate.append_entry(call.session_caller, entry)
        return {}

    async def set_model(self, call: _InboundCall) -> dict[str, Any]:
        model = call.params.text("model")
        provider, thinking = call.params.text_or_none("provider"), call.params.text_or_none("thinking")
        self._publishing.spend(call.name, "session/set_model")
        await self._delegate.set_model(call.session_caller, model, provider, thinking)
        return {}

    async def state(self, call: _InboundCall) -> dict[str, Any]:
        return {"state": dict(await self._delegate.state(call.session_caller))}

    async def set_active(self, call: _InboundCall) -> dict[str, Any]:
        call.params.require("tools")
        wanted = call.params.texts("tools", most=_MAX_TOOLS)
        return {"active": list(self._delegate.active_tools(call.session_caller, wanted))}

    # --- people and programs ------------------------------------------------------------------------------------------

    async def ask(self, call: _InboundCall) -> dict[str, Any]:
        kind = call.params.text("kind")
        if kind not in self._delegate.ui_kinds():
            raise RpcFailed(NO_UI, f"nobody who is watching can deal with {quote_text(kind)}")
        params = read_ui_request(kind, call.params)
        if kind in QUESTIONS:
            return await self._ask_people(call, kind, params)
        self._publishing.spend(call.name, f"ui/request {kind}")  # nothing else slows the others down
        return dict(await self._delegate.ask(call.session_caller, kind, params))

    async def _ask_people(self, call: _InboundCall, kind: UiKind, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a question, until the dispatch that asks it is over: then nobody waits for an answer."""
        claimed, session_id = call.params.plain.get("context"), call.session_caller.session_id
        answer: Mapping[str, Any] = {"cancelled": True}
        with self._contexts.asking(call.name, call.generation, session_id, claimed):
            answer = await self._delegate.ask(call.session_caller, kind, params)
        return dict(answer)

    async def run_program(self, call: _InboundCall) -> dict[str, Any]:
        command = call.params.text("command", most=limits.MAX_TOOL_OUTPUT_CHARS)
        args = call.params.texts("args", most=_MAX_ARGUMENTS, chars=limits.MAX_TOOL_OUTPUT_CHARS, empty=True)
        cwd = call.params.text_or_none("cwd", most=limits.MAX_PATH_CHARS)
        async with self._programs.setdefault(call.name, trio.CapacityLimiter(PROGRAMS_AT_ONCE)):
            ran = await self._delegate.run_program(call.session_caller, command, args, cwd)
        return {"stdout": ran.stdout, "stderr": ran.stderr, "exit_code": ran.exit_code}

    # --- stored values ------------------------------------------------------------------------------------------------

    async def kv_get(self, call: _InboundCall) -> dict[str, Any]:
        return {"value": await self._delegate.kv_get(call.extension.found.owner, _key_of(call))}

    async def kv_set(self, call: _InboundCall) -> dict[str, Any]:
        key = _key_of(call)
        if "value" not in call.params.plain:
            raise InvalidDocumentField("value", "is missing")
        value = call.params.plain["value"]
        if excess := find_excess(value, chars=limits.MAX_RPC_LINE, values=limits.MAX_KV_VALUES):
            raise InvalidDocumentField("value", excess)
        await self._delegate.kv_set(call.extension.found.owner, key, value)
        return {}

    async def kv_delete(self, call: _InboundCall) -> dict[str, Any]:
        await self._delegate.kv_delete(call.extension.found.owner, _key_of(call))
        return {}

    async def kv_list(self, call: _InboundCall) -> dict[str, Any]:
        prefix = call.params.text_or_none("prefix", most=limits.MAX_KV_KEY_CHARS, empty=True) or ""
        return {"keys": list(await self._delegate.kv_list(call.extension.found.owner, prefix))}


def _action(request: Request) -> bytes:
    """Identify an action, to recognize a repetition within its dispatch."""
    said = msgspec.json.encode([request.id, request.method, request.params])
    return hashlib.blake2b(said, digest_size=16).digest()


def _key_of(call: _InboundCall) -> str:
    return call.params.text("key", most=limits.MAX_KV_KEY_CHARS)


async def _pong(_: InboundRequests, __: _InboundCall) -> dict[str, Any]:
    return {}


def _failure(error: InvalidDocumentField | SessionCoreError) -> RpcFailed:
    if isinstance(error, InvalidDocumentField):
        return RpcFailed(INVALID_PARAMS, str(error), {"field": error.path} if error.path else None)
    data = {"code": error.code} | ({"field": error.field} if error.field else {})
    if isinstance(error, InvalidInput | ProtocolError):
        return RpcFailed(INVALID_PARAMS, error.message, data)
    return RpcFailed(BLOCKED if isinstance(error, Forbidden) else INTERNAL_ERROR, error.message, data)


@attrs.frozen
class _Method:
    need: SessionLookup
    capability: Capability | None
    carry_out: Callable[[InboundRequests, _InboundCall], Awaitable[dict[str, Any]]]


_METHODS: Final[Mapping[str, _Method]] = {
    "ping": _Method("nothing", None, _pong),
    "session/send_message": _Method("acting", "session", InboundRequests.send_message),
    "session/send_user_message": _Method("acting", "session", InboundRequests.send_user_message),
    "session/append_entry": _Method("acting", "session", InboundRequests.append_entry),
    "session/set_model": _Method("acting", "session", InboundRequests.set_model),
    "session/state": _Method("acting", "session", InboundRequests.state),
    "tools/set_active": _Method("only", "tools", InboundRequests.set_active),
    "ui/request": _Method("guessed", "ui", InboundRequests.ask),
    "exec/run": _Method("known", "exec", InboundRequests.run_program),
    "kv/get": _Method("nothing", "kv", InboundRequests.kv_get),
    "kv/set": _Method("nothing", "kv", InboundRequests.kv_set),
    "kv/delete": _Method("nothing", "kv", InboundRequests.kv_delete),
    "kv/list": _Method("nothing", "kv", InboundRequests.kv_list),
}
