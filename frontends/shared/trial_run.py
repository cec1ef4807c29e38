"""One extension from start to end, for real: what it registers, what goes wrong, how long each step takes.

There is no session behind it: its requests are answered as by a host without sessions, and counted.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

import session_core as sc
from frontends.shared.figures import format_count
from frontends.shared.sanitise import dump_json

PING_SECONDS = 5.0
TRIAL_SECONDS = 30.0
STOP_SECONDS = 5.0
"""The time the protocol gives an extension to answer `shutdown` and exit; then it is killed."""
_PROTOCOL_VERSION = 1
_MOST_LINES = 10
_GROUPS = ("tools", "commands", "ui", "exec", "kv", "bus", "session", "providers")
_MAX_KEPT = 100
_MAX_KEY_CHARS = 1_000
_MAX_VALUE_CHARS = 1_000_000
_METHOD_CHARS = 60
_OURS = "host"
_MOST_REMARKS = 20
_LAST_WORDS = "; it said: "
_NO_VERSION = "it speaks no version of the protocol"
_VERSION_MISSING = f"is missing in its answer to initialize, or is not a whole number; {_PROTOCOL_VERSION} is right"

_NO_UI = -32001
_NOT_TRUSTED = -32002
_NO_CONTEXT = -32003
_SWITCHED_OFF = -32004
_UNKNOWN_METHOD = -32601
_INVALID_PARAMS = -32602
_REFUSALS = {
    "ui": (_NO_UI, "there is no user to ask"),
    "exec": (_NOT_TRUSTED, "no programs are run while an extension is checked"),
    "session": (_NO_CONTEXT, "there is no session while an extension is checked"),
    "tools": (_NO_CONTEXT, "there is no session while an extension is checked"),
}


@attrs.frozen(kw_only=True)
class ExtensionCheckStep:
    """One step of the check: its result in one sentence, and how long it took."""

    what: str
    good: bool
    sentence: str
    milliseconds: int


@attrs.frozen(kw_only=True)
class ExtensionCheckReport:
    """The results; `said` holds the last lines it printed outside the protocol."""

    name: str
    version: str
    steps: tuple[ExtensionCheckStep, ...]
    offers: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    remarks: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether every step went well."""
        return all(step.good for step in self.steps)


class _SessionlessHost:
    """A host without sessions."""

    def __init__(self, workspace: Path, *, trusted: bool) -> None:
        self.asked: Counter[str] = Counter()
        self._workspace = workspace
        self._trusted = trusted
        self._stored: dict[str, Any] = {}

    def initialize_params(self, found: sc.extensions.DiscoveredExtension) -> dict[str, Any]:
        enabled = found.manifest.capabilities.enabled
        return {
            "protocol_version": _PROTOCOL_VERSION,
            "host": {"name": "session-core", "version": sc.__version__},
            "workspace": {"root": str(self._workspace), "trusted": self._trusted},
            "mode": "headless",
            "ui_capabilities": [],
            "flags": {},
            "capabilities_enabled": {group: group in enabled for group in _GROUPS},
        }

    async def on_request(
        self, extension: sc.extensions.HostedExtension, generation: int, request: sc.wire.Request
    ) -> Any:
        await trio.lowlevel.checkpoint()
        method = request.method[:_METHOD_CHARS]
        self._count(method)
        group = method.partition("/")[0]
        if method in {"ping", "bus/publish"}:
            return {}
        if group in _GROUPS and group not in extension.manifest.capabilities.enabled:
            raise sc.wire.RpcFailed(_SWITCHED_OFF, f"the manifest does not allow {group}")
        if group in _REFUSALS:
            raise sc.wire.RpcFailed(*_REFUSALS[group])
        if group == "kv":
            return self._keep(method, request.params)
        raise sc.wire.RpcFailed(_UNKNOWN_METHOD, f"there is no method {method!r}")

    def on_notification(
        self, extension: sc.extensions.HostedExtension, generation: int, notification: sc.wire.Notification
    ) -> None:
        self._count(notification.method[:_METHOD_CHARS])
        if notification.method == "log":
            extension.log.note("info", str(notification.params.get("message", "")))

    def on_changed(self, extension: sc.extensions.HostedExtension) -> None:
        pass

    def _count(self, method: str) -> None:
        if method in self.asked or len(self.asked) < _MAX_KEPT:
            self.asked[method] += 1

    def _keep(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Serve `kv` from memory: a check stores nothing."""
        key = params.get("prefix", "") if method == "kv/list" else params.get("key")
        if not isinstance(key, str) or len(key) > _MAX_KEY_CHARS:
            raise sc.wire.RpcFailed(_INVALID_PARAMS, "key: must be a string that is not too long")
        match method:
            case "kv/get":
                return {"value": self._stored.get(key)}
            case "kv/set":
                if len(self._stored) >= _MAX_KEPT or len(json.dumps(params.get("value"))) > _MAX_VALUE_CHARS:
                    raise sc.wire.RpcFailed(_INVALID_PARAMS, "value: too much is stored")
                self._stored[key] = params.get("value")
                return {}
            case "kv/delete":
                self._stored.pop(key, None)
                return {}
            case "kv/list":
                return {"keys": sorted(each for each in self._stored if each.startswith(key))}
            case _:
                raise sc.wire.RpcFailed(_UNKNOWN_METHOD, f"there is no method {method!r}")


async def check(
    found: sc.extensions.DiscoveredExtension,
    home: Path,
    workspace: Path,
    *,
    trusted: bool,
    trial: sc.extensions.ExtensionTrial | None = None,
) -> ExtensionCheckReport:
    """Start an extension as a service of this home would, greet it, ping it, perhaps try it, and shut it down.

    Cancellation: its process is killed, with its process group.
    """
    host = _SessionlessHost(workspace, trusted=trusted)
    extension = _host_extension(found, host, home, workspace)
    steps: list[ExtensionCheckStep] = []
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        await nursery.start(extension.run)
        steps.append(_describe_start(extension, _milliseconds_since(began)))
        if steps[-1].good:
            steps.append(await _check_ping(extension))
            if trial is not None:
                steps.append(await _try_out(extension, trial))
            steps.append(await _check_stop(extension))
        else:
            await extension.stop()
    return ExtensionCheckReport(
        name=found.name,
        version=found.manifest.version,
        steps=tuple(steps),
        offers=_offers(extension),
        remarks=tuple(_remarks(extension, host.asked, steps[0])),
        said=_output(extension),
    )


async def start_briefly(
    found: sc.extensions.DiscoveredExtension, home: Path, workspace: Path, *, trusted: bool
) -> tuple[sc.extensions.HostedExtension, str | None]:
    """Start an extension and end it; returns it with what it registered, and why it did not start if it did not.

    Cancellation: its process is killed, with its process group.
    """
    extension = _host_extension(found, _SessionlessHost(workspace, trusted=trusted), home, workspace)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        problem = extension.problem
        await extension.stop()
    return extension, problem


def _host_extension(
    found: sc.extensions.DiscoveredExtension, host: _SessionlessHost, home: Path, workspace: Path
) -> sc.extensions.HostedExtension:
    prepare = partial(
        sc.extensions.prepare_launch,
        environ=os.environ,
        workspace=str(workspace),
        hidden=(str(home),),
        copies=sc.extensions.AgreedCopies.in_home(home),
    )
    return sc.extensions.HostedExtension(found, host, sc.extensions.ExtensionLog(), prepare=prepare)


def _output(extension: sc.extensions.HostedExtension) -> tuple[str, ...]:
    """Return the last lines it wrote outside the protocol."""
    lines = [f"{line.source}: {line.text}" for line in extension.log.lines() if line.source != _OURS]
    return tuple(lines[-_MOST_LINES:])


def _milliseconds_since(began: float) -> int:
    return round((trio.current_time() - began) * 1000)


def _describe_start(extension: sc.extensions.HostedExtension, milliseconds: int) -> ExtensionCheckStep:
    good = extension.state == "ready"
    sentence = (
        "it started and answered initialize"
        if good
        else f"it did not start: {_why(extension.problem or '', _output(extension))}"
    )
    return ExtensionCheckStep(what="initialize", good=good, sentence=sentence, milliseconds=milliseconds)


def _why(problem: str, said: tuple[str, ...]) -> str:
    """Describe why it did not start; if its own reason is the end of its output, printed below, it is not repeated."""
    reason, _, words = problem.partition(_LAST_WORDS)
    if _NO_VERSION in reason:
        return f"{reason}; protocol_version: {_VERSION_MISSING}"
    return reason if not words or (said and said[-1].endswith(words)) else problem


async def _check_ping(extension: sc.extensions.HostedExtension) -> ExtensionCheckStep:
    began = trio.current_time()
    good, sentence = True, "it answered a ping"
    try:
        await extension.request("ping", {}, timeout=PING_SECONDS)
    except sc.wire.RpcFailed as error:
        good, sentence = False, f"it did not answer a ping: {error}"
    return ExtensionCheckStep(what="ping", good=good, sentence=sentence, milliseconds=_milliseconds_since(began))


async def _try_out(extension: sc.extensions.HostedExtension, trial: sc.extensions.ExtensionTrial) -> ExtensionCheckStep:
    began = trio.current_time()
    context = {"token": "trial", "tier": "command"}
    try:
        answer = await extension.request(trial.method, {**trial.params, "context": context}, timeout=TRIAL_SECONDS)
    except sc.wire.RpcFailed as error:
        good, said = False, str(error)
    else:
        good, said = _read_answer(answer)
    sentence = f"{trial.what}: {said}"
    return ExtensionCheckStep(what="trial", good=good, sentence=sentence, milliseconds=_milliseconds_since(began))


def _read_answer(answer: object) -> tuple[bool, str]:
    """Return whether an answer tells of no failure, and what people should read of it."""
    if not isinstance(answer, dict):
        return False, f"its answer is not an object: {dump_json(answer)}"
    said = answer.get("content") or answer.get("reason") or dump_json(answer)
    action = f"{answer['action']}, because " if isinstance(answer.get("action"), str) and answer.get("reason") else ""
    return not answer.get("is_error"), f"{action}{said}"


async def _check_stop(extension: sc.extensions.HostedExtension) -> ExtensionCheckStep:
    crashed = not extension.running
    began = trio.current_time()
    await extension.stop()
    took = _milliseconds_since(began)
    if crashed:
        good, sentence = False, "it had already ended before it was asked to shut down"
    elif took >= STOP_SECONDS * 1000:
        good, sentence = False, f"it did not exit within {STOP_SECONDS:g} s of shutdown, and was killed"
    elif took >= STOP_SECONDS * 500:
        good, sentence = True, "it shut down, but exited only when its input was closed"
    else:
        good, sentence = True, "it shut down and exited"
    return ExtensionCheckStep(what="shutdown", good=good, sentence=sentence, milliseconds=took)


def _offers(extension: sc.extensions.HostedExtension) -> dict[str, tuple[str, ...]]:
    brought = extension.registrations
    hooks = extension.hooks
    offers = {
        "tools": tuple(f"{extension.name}.{tool.name}" for tool in brought.tools),
        "commands": tuple(f"/{each.name}" for each in brought.commands),
        "shortcuts": tuple(f"{each.key} for /{each.command}" for each in brought.shortcuts),
        "flags": brought.flags,
        "providers": tuple(each.name for each in brought.providers),
        "renderers": tuple(each.tag for each in brought.message_renderers),
        "events": tuple(sorted(extension.subscriptions)),
        "hooks": tuple(sorted(hooks or ())),
    }
    return {kind: names for kind, names in offers.items() if names}


def _remarks(extension: sc.extensions.HostedExtension, asked: Counter[str], first: ExtensionCheckStep) -> list[str]:
    """Return notable facts, except those that the `first` step, its start, already reports."""
    remarks = [*extension.manifest.remarks]
    for line in extension.log.lines():
        if (
            line.source == _OURS
            and line.text not in remarks
            and line.text.partition(_LAST_WORDS)[0] not in first.sentence
        ):
            remarks.append(line.text)
    del remarks[_MOST_REMARKS:]
    if first.good and extension.hooks is None:
        remarks.append("it does not list its hooks, so it is called for every hook, which takes time")
    noise = sum(line.source == "stdout" for line in extension.log.lines())
    if noise:
        remarks.append(
            f"it wrote lines to stdout that are not messages ({format_count(noise, 'line')}); that belongs on stderr"
        )
    remarks += [
        f"it asked for {method}, {format_count(count, 'time')}" for method, count in asked.most_common(_MOST_LINES)
    ]
    return remarks
