"""What an extension asks of us: every method it may call, checked in one fixed order.

1. There is such a method, else -32601.
2. An action in a session names the context of a dispatch of the command tier that is still open, else -32003. What it
   claims about its tier can only make it less than what it was given.
3. Its manifest has the capability, and the dispatch concerns a session, else -32004. A kind of dialog that nobody
   watching can deal with is -32001.
4. The params are right, else -32602, and the field is named.
5. An action that was carried out already within the same dispatch, sent again under the same id, is not done twice.
6. It does not publish more than an extension may, else -32603, and the message names the limit.
7. Only then the delegate sees it. What the service refuses is an error with the service's own sentence.

`ui/request` and `tools/set_active` carry no context in the published protocol, so the session is told by what this
process is busy with; one that names a context is believed. `bus/publish` is answered well whatever it holds, as
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
from session_core.rpc.failures import RpcFailed, method_not_found
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.notifications import NOTES, check_open_json, permits, take_note
from session_core.sep.host.calls.notifications import HostView as HostView
from session_core.sep.host.calls.notifications import LogLevel as LogLevel
from session_core.sep.host.calls.notifications import Speaker as Speaker
from session_core.sep.host.calls.rate_limit import SHOWING, PublishingLimits
from session_core.sep.host.calls.ui_requests import one_of, read_ui_request
from session_core.sep.host.registrations import RegistrationsInvalid
from session_core.sep.host.registry_updates import Registering
from session_core.sep.protocol.fields import Fields, WrongField
from session_core.sep.protocol.names import (
    BLOCKED,
    CAPABILITY_DISABLED,
    CONTEXT_VIOLATION,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NO_UI,
    Capability,
)
from session_core.sep.protocol.service_api import Asker, Delegate, DeliverAs, Role
from session_core.wire.error_text import quoted

PROGRAMS_AT_ONCE: Final = 8
"""Programs of one extension that run side by side; further ones wait for their turn."""
_MAX_ARGUMENTS: Final = 1_024
_MAX_TOOLS: Final = 1_024
_NO_SESSION = "there is no session that this could be about"

Need = Literal["nothing", "acting", "known", "guessed", "only"]
"""How a method finds its session: not at all; by the context of an open dispatch; by any context that is still known;
by a context or the likeliest session; by a context or the only session there is."""


@attrs.frozen(kw_only=True)
class _Call:
    """A request that may be carried out; without an asker it concerns no session."""

    extension: Speaker
    params: Fields
    asker: Asker | None

    @property
    def name(self) -> str:
        return self.extension.name

    @property
    def whom(self) -> Asker:
        assert self.asker is not None
        return self.asker


class Inbound:
    """Answers extensions.

    Args:
        contexts: The tokens that were given to them.
        delegate: The service.
        host: Takes what they tell.
    """

    def __init__(self, contexts: Contexts, delegate: Delegate, host: HostView) -> None:
        self._contexts = contexts
        self._delegate = delegate
        self._host = host
        self._programs: dict[str, trio.CapacityLimiter] = {}
        self._publishing = PublishingLimits(lambda name, text: host.log(name, "warn", text, None))
        self.registering = Registering(host)

    async def answer(self, extension: Speaker, generation: int, request: Request) -> Any:
        """Answer a request.

        Raises:
            RpcFailed: It was refused, or has failed.

        Cancellation: whatever the service does for it is cancelled too.
        """
        if request.method in NOTES:
            return await self._note_request(extension, generation, request)
        await self.registering.settled(extension.name)  # or it could not use what it has just registered
        method = _METHODS.get(request.method)
        if method is None:
            raise method_not_found(request.method)
        session_id = self._session(method.need, extension, generation, request.params)
        if method.capability is not None and not permits(extension, generation, method.capability):
            raise RpcFailed(CAPABILITY_DISABLED, f"the manifest does not enable {method.capability}")
        if session_id is None and method.need != "nothing":
            raise RpcFailed(NO_UI if method.need == "guessed" else CAPABILITY_DISABLED, _NO_SESSION)
        asker: Asker | None = None
        if session_id is not None:
            turn_id = self._contexts.turn_of(extension.name, generation, session_id, request.params.get("context"))
            asker = Asker(extension=extension.name, session_id=session_id, turn_id=turn_id)
        retried = _action(request) if method.need == "acting" and request.method != "session/state" else None
        token = request.params["context"]["token"] if retried is not None else ""
        if retried is not None and self._contexts.is_done(token, retried):
            return {}
        try:
            result = await method.carry_out(
                self, _Call(extension=extension, params=Fields(request.params), asker=asker)
            )
            if retried is not None:
                self._contexts.note_done(token, retried)
            return result
        except (WrongField, SessionCoreError) as error:
            raise _failure(error) from error

    def note(self, extension: Speaker, generation: int, notification: Notification) -> None:
        """Take a notification; never raises for what an extension says."""
        if notification.method == "registry/update":
            self.registering.tell(extension, generation, notification.params)
            return
        take_note(self._host, extension, generation, notification.method, notification.params)

    async def _note_request(self, extension: Speaker, generation: int, request: Request) -> dict[str, Any]:
        """Answer what others send as a notification, so that its author can learn what is wrong with it."""
        if request.method == "bus/publish":
            take_note(self._host, extension, generation, request.method, request.params)
            return {}
        try:
            if request.method == "registry/update":
                await self.registering.ask(extension, generation, request.params)
            else:
                NOTES[request.method](self._host, extension, generation, Fields(request.params))
        except (WrongField, RegistrationsInvalid) as error:
            raise _failure(error) from error
        return {}

    # --- who asks, and where ------------------------------------------------------------------------------------------

    def _session(self, need: Need, extension: Speaker, generation: int, params: Mapping[str, Any]) -> SessionId | None:
        claimed = params.get("context")
        if need == "nothing":
            return None
        if need == "acting":
            if not isinstance(claimed, dict) or claimed.get("tier") != "command":
                raise RpcFailed(CONTEXT_VIOLATION, "this requires a command-tier context")
            return self._contexts.acting(extension.name, generation, claimed).session_id
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

    async def send_message(self, call: _Call) -> dict[str, Any]:
        text = call.params.text("text", most=limits.MAX_TEXT_CHARS)
        role = one_of(call.params, "role", get_args(Role), "assistant")
        self._publishing.spend(call.name, "session/send_message")
        await self._delegate.send_message(call.whom, text, cast(Role, role))
        return {}

    async def send_user_message(self, call: _Call) -> dict[str, Any]:
        text = call.params.text("text", most=limits.MAX_TEXT_CHARS)
        deliver_as = one_of(call.params, "deliver_as", get_args(DeliverAs), "follow_up")
        self._publishing.spend(call.name, "session/send_user_message")
        await self._delegate.send_user_message(call.whom, text, cast(DeliverAs, deliver_as))
        return {}

    async def append_entry(self, call: _Call) -> dict[str, Any]:
        if "entry" not in call.params:
            raise WrongField("entry", "is missing")
        entry = call.params.plain["entry"]
        check_open_json(entry, "entry", most=limits.MAX_SHOWN_CHARS)
        self._publishing.spend(call.name, "session/append_entry")
        await self._delegate.append_entry(call.whom, entry)
        return {}

    async def set_model(self, call: _Call) -> dict[str, Any]:
        model = call.params.text("model")
        provider, thinking = call.params.text_or_none("provider"), call.params.text_or_none("thinking")
        self._publishing.spend(call.name, "session/set_model")
        await self._delegate.set_model(call.whom, model, provider, thinking)
        return {}

    async def state(self, call: _Call) -> dict[str, Any]:
        return {"state": dict(await self._delegate.state(call.whom))}

    async def set_active(self, call: _Call) -> dict[str, Any]:
        if "tools" not in call.params:
            raise WrongField("tools", "is missing")
        wanted = call.params.texts("tools", most=_MAX_TOOLS)
        return {"active": list(self._delegate.active_tools(call.whom, wanted))}

    # --- people and programs ------------------------------------------------------------------------------------------

    async def ask(self, call: _Call) -> dict[str, Any]:
        kind = call.params.text("kind")
        if kind not in self._delegate.ui_kinds():
            raise RpcFailed(NO_UI, f"nobody who is watching can deal with {quoted(kind)}")
        params = read_ui_request(kind, call.params)
        if kind in SHOWING:
            self._publishing.spend(call.name, f"ui/request {kind}")
        return dict(await self._delegate.ask(call.whom, kind, params))

    async def run_program(self, call: _Call) -> dict[str, Any]:
        command = call.params.text("command", most=limits.MAX_TOOL_OUTPUT_CHARS)
        args = call.params.texts("args", most=_MAX_ARGUMENTS, chars=limits.MAX_TOOL_OUTPUT_CHARS, empty=True)
        cwd = call.params.text_or_none("cwd", most=limits.MAX_PATH_CHARS)
        async with self._programs.setdefault(call.name, trio.CapacityLimiter(PROGRAMS_AT_ONCE)):
            ran = await self._delegate.run_program(call.whom, command, args, cwd)
        return {"stdout": ran.stdout, "stderr": ran.stderr, "exit_code": ran.exit_code}

    # --- what it keeps ------------------------------------------------------------------------------------------------

    async def kv_get(self, call: _Call) -> dict[str, Any]:
        return {"value": await self._delegate.kv_get(call.extension.found.owner, _key_of(call))}

    async def kv_set(self, call: _Call) -> dict[str, Any]:
        key = _key_of(call)
        if "value" not in call.params.plain:
            raise WrongField("value", "is missing")
        await self._delegate.kv_set(call.extension.found.owner, key, call.params.plain["value"])
        return {}

    async def kv_delete(self, call: _Call) -> dict[str, Any]:
        await self._delegate.kv_delete(call.extension.found.owner, _key_of(call))
        return {}

    async def kv_list(self, call: _Call) -> dict[str, Any]:
        prefix = call.params.text_or_none("prefix", most=limits.MAX_KV_KEY_CHARS, empty=True) or ""
        return {"keys": list(await self._delegate.kv_list(call.extension.found.owner, prefix))}


def _action(request: Request) -> bytes:
    """Name an action, so that the same one coming again within its dispatch is known."""
    said = msgspec.json.encode([request.id, request.method, request.params])
    return hashlib.blake2b(said, digest_size=16).digest()


def _key_of(call: _Call) -> str:
    return call.params.text("key", most=limits.MAX_KV_KEY_CHARS)


async def _pong(_: Inbound, __: _Call) -> dict[str, Any]:
    return {}


def _failure(error: WrongField | SessionCoreError) -> RpcFailed:
    if isinstance(error, WrongField):
        return RpcFailed(INVALID_PARAMS, str(error), {"field": error.path} if error.path else None)
    data = {"code": error.code} | ({"field": error.field} if error.field else {})
    if isinstance(error, InvalidInput | ProtocolError):
        return RpcFailed(INVALID_PARAMS, error.message, data)
    return RpcFailed(BLOCKED if isinstance(error, Forbidden) else INTERNAL_ERROR, error.message, data)


@attrs.frozen
class _Method:
    need: Need
    capability: Capability | None
    carry_out: Callable[[Inbound, _Call], Awaitable[dict[str, Any]]]


_METHODS: Final[Mapping[str, _Method]] = {
    "ping": _Method("nothing", None, _pong),
    "session/send_message": _Method("acting", "session", Inbound.send_message),
    "session/send_user_message": _Method("acting", "session", Inbound.send_user_message),
    "session/append_entry": _Method("acting", "session", Inbound.append_entry),
    "session/set_model": _Method("acting", "session", Inbound.set_model),
    "session/state": _Method("acting", "session", Inbound.state),
    "tools/set_active": _Method("only", "tools", Inbound.set_active),
    "ui/request": _Method("guessed", "ui", Inbound.ask),
    "exec/run": _Method("known", "exec", Inbound.run_program),
    "kv/get": _Method("nothing", "kv", Inbound.kv_get),
    "kv/set": _Method("nothing", "kv", Inbound.kv_set),
    "kv/delete": _Method("nothing", "kv", Inbound.kv_delete),
    "kv/list": _Method("nothing", "kv", Inbound.kv_list),
}
