"""The host's side of a check, without a service: it answers everything an extension asks, and does nothing.

The order of checks is that of a real host: the method exists, the context allows it, the manifest enables it, the
params fit. The tokens are real, so made-up or expired ones are detected.
"""

from collections.abc import Mapping
from typing import Any, Final

from session_core import limits
from session_core.rpc.failures import RpcFailed, method_not_found
from session_core.rpc.messages import Request
from session_core.sep.conformance.catalogue import fault_of, methods
from session_core.sep.conformance.frames import Complaint, Complaints, Weight
from session_core.sep.conformance.host_messages import SESSION
from session_core.sep.host.calls.contexts import Contexts, HostContext
from session_core.sep.protocol.fields import size_of
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import (
    CAPABILITIES,
    CAPABILITY_DISABLED,
    CONTEXT_VIOLATION,
    INVALID_PARAMS,
    NOT_TRUSTED,
)
from session_core.wire.strict_json import find_fault

_MAX_STORED_VALUES: Final = 64
_MAX_VALUE_CHARS: Final = 1_000_000
_MAX_TOKENS: Final = 10_000
_NEVER_GIVEN: Final = "use the context of the request being handled, unchanged"


class FakeHost:
    """Answers one process of an extension."""

    def __init__(self, name: str, manifest: Manifest, complaints: Complaints) -> None:
        self.contexts = Contexts()
        self._name = name
        self._manifest = manifest
        self._complaints = complaints
        self._stored_values: dict[str, Any] = {}
        self._issued_tokens: dict[str, str] = {}

    def event_context(self) -> dict[str, str]:
        """Mint the context of an event."""
        return self.remember_context(self.contexts.for_event(self._name, 1, SESSION))

    def remember_context(self, context: HostContext) -> dict[str, str]:
        """Remember a context, and return its wire form."""
        if len(self._issued_tokens) < _MAX_TOKENS:
            self._issued_tokens[context.token] = context.tier
        return context.wire

    def answer(self, request: Request) -> dict[str, Any]:
        """Answer a request.

        Raises:
            RpcFailed: The host would refuse it.
        """
        method = request.method
        known = methods().get(method)
        if known is None or known.sent_by == "host":
            raise method_not_found(method)
        if method.startswith("session/"):
            self._guard(request)
        self._check_capability(method)
        if fault := fault_of(method, "params", request.params):
            raise RpcFailed(INVALID_PARAMS, fault)
        match method.partition("/")[0]:
            case "kv":
                return self._answer_kv(method, request.params)
            case "ui":
                return _dialog(request.params)
            case "exec":
                raise RpcFailed(NOT_TRUSTED, "no programs are run while an extension is checked")
            case "tools":
                return {"active": request.params["tools"]}
            case _ if method == "session/state":
                return {"state": {"session_id": SESSION, "model": "sample", "busy": False}}
            case _:
                return {}

    def _guard(self, request: Request) -> None:
        claimed = request.params.get("context")
        token = claimed.get("token") if isinstance(claimed, dict) else None
        given = self._issued_tokens.get(token) if isinstance(token, str) else None
        tier = claimed.get("tier") if isinstance(claimed, dict) else None
        if claimed is None:
            self._complain("failed", request, f"without a context, and every host refuses it: {_NEVER_GIVEN}")
        elif given is None:
            self._complain("failed", request, f"with a context that it was never given: {_NEVER_GIVEN}")
        elif tier != given:
            self._complain("failed", request, f"with a context whose tier was {given!r}: {_NEVER_GIVEN}")
        elif given == "event":
            said = "in the context of an event, which allows no actions in a session: do it in a command, tool or hook"
            self._complain("warned", request, said)
        if tier != "command":
            raise RpcFailed(CONTEXT_VIOLATION, "this requires a command-tier context")
        try:
            self.contexts.require_dispatch(self._name, 1, claimed)
        except RpcFailed:
            if given == tier:
                self._complain("warned", request, "after its request had been answered: act first, then answer")
            raise

    def _complain(self, weight: Weight, request: Request, what: str) -> None:
        self._complaints.add(Complaint(about="contexts", weight=weight, sentence=f"it sent {request.method} {what}"))

    def _check_capability(self, method: str) -> None:
        group = method.partition("/")[0]
        if group in CAPABILITIES and group not in self._manifest.capabilities.enabled:
            said = f"it sent {method}, and its manifest does not enable {group}: add {group} = true to [capabilities]"
            self._complaints.add(Complaint(weight="warned", sentence=said))
            raise RpcFailed(CAPABILITY_DISABLED, f"the manifest does not enable {group}")

    def _answer_kv(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        match method:
            case "kv/get":
                return {"value": self._stored_values.get(params["key"])}
            case "kv/list":
                return {"keys": sorted(key for key in self._stored_values if key.startswith(params.get("prefix", "")))}
            case "kv/delete":
                self._stored_values.pop(params["key"], None)
            case _:
                value = params["value"]
                if find_fault(value, limits.MAX_OPEN_JSON_DEPTH) or size_of(value) > _MAX_VALUE_CHARS:
                    raise RpcFailed(INVALID_PARAMS, "value: is too large, or nested too deeply")
                if len(self._stored_values) >= _MAX_STORED_VALUES:
                    raise RpcFailed(INVALID_PARAMS, f"no more than {_MAX_STORED_VALUES} values are kept during a check")
                self._stored_values[params["key"]] = value
        return {}


def _dialog(params: Mapping[str, Any]) -> dict[str, Any]:
    """Answer like a person who takes the first option, agrees, and types nothing."""
    match params["kind"]:
        case "select":
            return {"value": params["options"][0]}
        case "confirm":
            return {"confirmed": True}
        case "input":
            return {"cancelled": True}
        case _:
            return {}
