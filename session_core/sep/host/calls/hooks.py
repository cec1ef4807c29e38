"""Asks extensions in order, and interprets their answers.

1. Only extensions that handle a hook are asked, one after the other in load order. Each sees the value as the previous
   ones left it. The first veto ends it. Example: if A patches `content` and B blocks, B has seen the patch and C is not
   asked.
2. A patch is laid over the value key by key: omitted keys stay. Keys that identify the subject of the value stay too.
3. Only the extension that owns a tool can change the arguments of its calls.
4. A patch has a bound, which is looked at first; a large one is read in a thread.
5. A timeout, an error, a patch above its bound and an unreadable answer are failures. Where a hook protects something
   (`FAIL_CLOSED`), a failure is a veto; elsewhere it is ignored.
6. An extension that is not running is skipped, unless its silence may hide a veto: see
   `HostedExtension.can_veto_when_dead`. One that never declared its hooks, and answers that it knows no hooks at all,
   does not count as failed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.ids import SessionId
from session_core.rpc.failures import METHOD_NOT_FOUND, RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.protocol.names import FAIL_CLOSED, HookName
from session_core.vocabulary.frozen import JsonObject, freeze_json
from session_core.wire.error_text import describe_json, quote_text
from session_core.wire.strict_json import find_excess, find_fault, is_encodable

_IDENTITY_KEYS: Final = frozenset({"session_id", "tool", "call_id", "message_id"})
"""Keys that identify the subject of a value."""
_MOST_CHARS: Final[Mapping[HookName, int]] = {
    "context": limits.CONVERSATION_CHARS,
    "tool_call": limits.MAX_STEP_ARGUMENTS_BYTES,
}
"""The size of a patch, where it may be more than the longest text."""
_VALUES_AT_ONCE: Final = 1_000
_FIXED: Final[Mapping[HookName, frozenset[str]]] = {"tool_result": _IDENTITY_KEYS | {"arguments"}}


@attrs.frozen(kw_only=True)
class ContinueOutcome:
    """Continue with the value unchanged."""


@attrs.frozen(kw_only=True)
class BlockOutcome:
    """Do not continue."""

    reason: str | None = None


@attrs.frozen(kw_only=True)
class ModifyOutcome:
    """Continue with a changed value: the keys of the patch replace those of the value."""

    patch: Mapping[str, Any] = attrs.field(hash=False)


@attrs.frozen(kw_only=True)
class FailureOutcome:
    """There was no usable answer."""

    why: str


HookOutcome = ContinueOutcome | BlockOutcome | ModifyOutcome | FailureOutcome
GO_ON: Final = ContinueOutcome()


@attrs.frozen(kw_only=True)
class HookBlocked:
    """An extension vetoed, or failed where that counts as a veto."""

    reason: str
    extension: str


# --- pure -------------------------------------------------------------------------------------------------------------


def find_excess_in_patch(hook: HookName, value: Mapping[str, Any], patch: Mapping[str, Any]) -> str | None:
    """Return how a patch of this value is larger than allowed, or None."""
    values = limits.MAX_OPEN_JSON_VALUES
    if hook == "tool_call":  # a model may have written arguments of any shape
        values = limits.MAX_EXTENSION_VALUES
    elif hook == "context":
        before, after = (len(each) for each in map(_listed_messages, (value, patch)))
        if after > before + limits.MAX_ADDED_MESSAGES:
            return f"it has {after:,} messages, and at most {limits.MAX_ADDED_MESSAGES:,} may be added to {before:,}"
        values = limits.MAX_EXTENSION_VALUES
    elif hook == "tool_result" and (excess := find_excess(patch.get("details"), chars=limits.MAX_SHOWN_CHARS)):
        return f"its details: it {excess}"
    excess = find_excess(patch, chars=_MOST_CHARS.get(hook, limits.MAX_TEXT_CHARS), values=values)
    return None if excess is None else f"it {excess}"


def _listed_messages(value: Mapping[str, Any]) -> Sequence[object]:
    messages = value.get("messages")
    return messages if isinstance(messages, list | tuple) else ()


def read_outcome(answer: object) -> HookOutcome:
    """Interpret an answer to a hook; never raises."""
    if not isinstance(answer, dict):
        return FailureOutcome(why=f"answered with {describe_json(answer)} where an object is needed")
    match answer.get("action"):
        case "continue":
            return GO_ON
        case "block":  # a veto, whatever else is wrong with it
            reason = answer.get("reason")
            if not isinstance(reason, str) or not reason.strip() or not is_encodable(reason):
                return BlockOutcome()
            return BlockOutcome(reason=reason[: limits.MAX_ERROR_CHARS])
        case "modify":
            patch = answer.get("patch")
            if not isinstance(patch, dict):
                return FailureOutcome(why=f"wants to modify something, with {describe_json(patch)} as its patch")
            if fault := find_fault(patch, limits.MAX_OPEN_JSON_DEPTH):
                return FailureOutcome(
                    why=f"sent a patch that cannot be used, at {fault.path or 'its top'}: {fault.reason}"
                )
            return ModifyOutcome(patch=patch)
        case str(action):
            return FailureOutcome(why=f"answered with the unknown action {quote_text(action)}")
        case action:
            return FailureOutcome(why=f"answered with {describe_json(action)} as its action")


def owns(extension: str, tool: object) -> bool:
    """Return whether a tool belongs to an extension; names of extensions contain no dots."""
    return isinstance(tool, str) and tool.partition(".")[0] == extension and "." in tool


def restrict_outcome(extension: str, hook: HookName, value: Mapping[str, Any], outcome: HookOutcome) -> HookOutcome:
    """Limit an outcome to what this extension may do: it can block another extension's tool call, but not change it.

    Patched values must keep their type; otherwise the next extension would judge something other than the result.
    """
    if not isinstance(outcome, ModifyOutcome):
        return outcome
    patch, fixed = outcome.patch, _FIXED.get(hook, _IDENTITY_KEYS)
    if hook == "tool_call":
        tool, meant = value.get("tool"), patch.get("tool")
        if not owns(extension, tool) or (isinstance(meant, str) and meant != tool):
            return GO_ON
    for key in sorted(patch.keys() - fixed):
        if value.get(key) is not None and _kind(patch[key]) != _kind(value[key]):
            return FailureOutcome(why=f"sent a patch with {describe_json(patch[key])} as {quote_text(key)}")
    return ModifyOutcome(patch={key: each for key, each in patch.items() if key not in fixed})


def _kind(plain: object) -> type:
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return float
    if isinstance(plain, JsonObject):
        return dict
    return list if isinstance(plain, tuple) else type(plain)


def apply_outcome(
    hook: HookName, value: Mapping[str, Any], extension: str, outcome: HookOutcome
) -> dict[str, Any] | HookBlocked:
    """Return the value as one extension leaves it; its outcome has already been through `restrict_outcome`."""
    match outcome:
        case BlockOutcome():
            return HookBlocked(reason=outcome.reason or f"blocked by {hook} hook", extension=extension)
        case FailureOutcome() if hook in FAIL_CLOSED:
            why = f"{hook} hook failed (fail-closed): the extension {extension} {outcome.why}"
            return HookBlocked(reason=why[: limits.MAX_ERROR_CHARS], extension=extension)
        case ModifyOutcome():
            return {**value, **outcome.patch}
        case _:
            return dict(value)


# --- asking -----------------------------------------------------------------------------------------------------------


def has_say(extension: HostedExtension, hook: HookName) -> bool:
    """Return whether an extension has a say in a hook: it handles it, and runs or its silence may hide a veto."""
    if extension.hooks is not None and hook not in extension.hooks:
        return False
    return extension.running or (hook in FAIL_CLOSED and extension.can_veto_when_dead)


def has_participant(extensions: Iterable[HostedExtension], hook: HookName) -> bool:
    """Return whether any extension has a say in a hook."""
    return any(has_say(extension, hook) for extension in extensions)


def hook_seconds(extension: HostedExtension, hook: HookName) -> float:
    """Return the timeout for an extension: the one in its manifest, or longer where a person may be asked."""
    own = extension.manifest.hook_timeout_ms
    usual = limits.EXTENSION_GUARD_MS if hook in FAIL_CLOSED else limits.EXTENSION_HOOK_MS
    return (usual if own is None else own) / 1000


async def run_hook(
    extensions: Iterable[HostedExtension],
    hook: HookName,
    session_id: SessionId,
    value: Mapping[str, Any],
    *,
    contexts: Contexts,
) -> dict[str, Any] | HookBlocked:
    """Ask all extensions that have a say, in order, and return the resulting value; its contents may be frozen.

    Cancellation: the extension that is being asked is told that the request was cancelled.
    """
    now: dict[str, Any] = dict(JsonObject(value).as_dict())
    for extension in tuple(extensions):
        if not has_say(extension, hook):
            continue
        outcome: HookOutcome = FailureOutcome(why="is not running")
        if extension.running:
            outcome = await _ask(extension, hook, session_id, now, contexts)
        if outcome is GO_ON:
            continue
        if isinstance(outcome, BlockOutcome | ModifyOutcome):
            extension.remember_veto()
        allowed = restrict_outcome(extension.name, hook, now, outcome)
        if isinstance(allowed, FailureOutcome):
            extension.log.note("host", f"its {hook} hook failed: it {allowed.why}")
        elif isinstance(outcome, ModifyOutcome) and allowed is GO_ON:
            extension.log.note("host", f"its change of a call of {quote_text(str(now.get('tool')))} was ignored")
        result = apply_outcome(hook, now, extension.name, allowed)
        if isinstance(result, HookBlocked):
            return result
        now = result
    return now


async def _ask(
    extension: HostedExtension, hook: HookName, session_id: SessionId, value: Mapping[str, Any], contexts: Contexts
) -> HookOutcome:
    with contexts.dispatch(extension.name, extension.generation, session_id) as context:
        params = {"hook": hook, "context": context.wire, "input": {**value, "session_id": session_id}}
        try:
            answer = await extension.request("hook", params, timeout=hook_seconds(extension, hook))
        except RpcFailed as error:
            if error.code == METHOD_NOT_FOUND and extension.hooks is None:
                return GO_ON
            return FailureOutcome(why=f"did not answer: {to_single_line(error.message)}")
        except InvalidInput as error:
            return FailureOutcome(why=f"could not be asked: {error.message}")
    return await _read_answer(hook, value, answer)


async def _read_answer(hook: HookName, value: Mapping[str, Any], answer: object) -> HookOutcome:
    patch = answer.get("patch") if isinstance(answer, dict) else None
    if not isinstance(patch, dict):
        return read_outcome(answer)
    if find_excess(patch, chars=limits.MAX_TEXT_CHARS, values=_VALUES_AT_ONCE):
        return await trio.to_thread.run_sync(_read_large, hook, value, answer, patch, abandon_on_cancel=True)
    excess = find_excess_in_patch(hook, value, patch)
    return read_outcome(answer) if excess is None else _refuse_patch(excess)


def _read_large(hook: HookName, value: Mapping[str, Any], answer: object, patch: Mapping[str, Any]) -> HookOutcome:
    """Read an answer with a large patch; what can be used of it is frozen."""
    if excess := find_excess_in_patch(hook, value, patch):
        return _refuse_patch(excess)
    outcome = read_outcome(answer)
    if not isinstance(outcome, ModifyOutcome):
        return outcome
    return ModifyOutcome(patch={key: freeze_json(each) for key, each in outcome.patch.items()})


def _refuse_patch(excess: str) -> FailureOutcome:
    return FailureOutcome(why=f"sent a patch that is too large: {excess}")


def to_single_line(text: str) -> str:
    """Reduce foreign text to one line that fits into our messages."""
    return " ".join("".join(each if each.isprintable() else " " for each in text[: limits.MAX_ERROR_CHARS]).split())
