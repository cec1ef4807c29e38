"""Judges answers: passed, warned or failed, with a sentence that tells the author what to change."""

import json
from typing import Any, Final

import attrs

from session_core.rpc.messages import FailureReply, SuccessReply
from session_core.sep.conformance.frames import NoAnswer, PeerAnswer, judge_result
from session_core.sep.conformance.report import StepOutcome
from session_core.sep.host.calls.hooks import FailureOutcome as HookFailure
from session_core.sep.host.calls.hooks import read_outcome
from session_core.sep.host.registrations import Registrations, RegistrationsInvalid, read_registrations
from session_core.sep.protocol.names import CANCELLED, METHOD_NOT_FOUND, PROTOCOL_VERSION
from session_core.wire.error_text import describe_json, quote_text

_LONGEST_QUOTE: Final = 400
_NO_SDK: Final = "No module named 'session_core'"


@attrs.frozen(kw_only=True)
class StepVerdict:
    """How a step ended, and what was seen."""

    outcome: StepOutcome
    seen: str


def passed(seen: str) -> StepVerdict:
    """Build the verdict that all is well."""
    return StepVerdict(outcome="passed", seen=seen)


def warned(seen: str) -> StepVerdict:
    """Build the verdict that it works, but should be different."""
    return StepVerdict(outcome="warned", seen=seen)


def failed(seen: str) -> StepVerdict:
    """Build the verdict that it has to be changed."""
    return StepVerdict(outcome="failed", seen=seen)


def skipped(why: str) -> StepVerdict:
    """Build the verdict that it could not be tried, or that there was nothing to try."""
    return StepVerdict(outcome="skipped", seen=why)


def format_error_reply(failure: FailureReply) -> str:
    """Format an error reply for people."""
    return f"{quote_in_full(failure.message)} ({failure.code})"


def quote_in_full(text: str) -> str:
    """Quote an extension's text so that its author can find it: hardly shortened, and not escaped."""
    return json.dumps(text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…", ensure_ascii=False)


def judge_answer(method: str, answer: PeerAnswer) -> StepVerdict:
    """Judge an answer that should be a result."""
    match answer:
        case NoAnswer(gone=True):
            return failed(f"{answer.why}: no request may end it")
        case NoAnswer():
            return failed(f"{answer.why}: every request must be answered")
        case FailureReply():
            return failed(
                f"it answered {method} with the error {format_error_reply(answer)}, where a result is expected"
            )
        case SuccessReply():
            fault, _ = judge_result(method, answer.result)
            if fault is not None:
                return failed(f"its answer to {method} does not fit the protocol: {fault}")
            return passed(f"it answered {method}")


def judge_greeting(answer: PeerAnswer, *, name: str | None) -> tuple[StepVerdict, Registrations]:
    """Judge the answer to `initialize`; `name` is that of the manifest, if there is one."""
    if isinstance(answer, NoAnswer):
        hint = "; does the program call ext.serve()?" if answer.gone and "exit status 0" in answer.why else ""
        return failed(f"{answer.why}: hosts give up on it{hint}"), Registrations()
    verdict = judge_answer("initialize", answer)
    if not isinstance(answer, SuccessReply) or verdict.outcome == "failed":
        return _with_hint(verdict, answer), Registrations()
    result: dict[str, Any] = answer.result
    version, called = result["protocol_version"], result["extension"]["name"]
    about_version = judge_version(answer, offered=PROTOCOL_VERSION)
    if about_version.outcome == "failed":
        return about_version, Registrations()
    try:
        registrations = read_registrations(result.get("registrations"))
    except RegistrationsInvalid as error:
        return failed(f"what it registers cannot be used, at {error.field}: {error.message}"), Registrations()
    if name is not None and called != name:
        said = f"it calls itself {quote_text(called)}, and its manifest calls it {quote_text(name)}: use one name"
        return failed(said), registrations
    return passed(f"{called} {result['extension']['version']} speaks version {version}"), registrations


def judge_version(answer: PeerAnswer, *, offered: int) -> StepVerdict:
    """Judge only the version in an answer to `initialize`, which offered this one; the rest is judged elsewhere."""
    if not isinstance(answer, SuccessReply):
        return judge_answer("initialize", answer)
    version = answer.result.get("protocol_version") if isinstance(answer.result, dict) else None
    if not isinstance(version, int):
        return skipped("its answer to initialize names no version")
    if version > min(offered, PROTOCOL_VERSION):
        said = f"it answered with protocol_version {version} where the host offered {offered}"
        return failed(f"{said}: answer with the lower one of the host's version and your own, {PROTOCOL_VERSION}")
    return passed(f"it speaks version {version}")


def with_last_words(verdict: StepVerdict, said: str) -> StepVerdict:
    """Add the last output of a process, which often says why it ended, and what to do about it."""
    hint = ""
    if _NO_SDK in said:
        hint = "; the Python that run.command names does not have session-core: write the path of one that has it"
    return failed(f"{verdict.seen}; it said: {said}{hint}")


def _with_hint(verdict: StepVerdict, answer: PeerAnswer) -> StepVerdict:
    """Add a hint about the most common mistake."""
    if not isinstance(answer, SuccessReply) or not isinstance(answer.result, dict):
        return verdict
    astray = sorted({"tools", "commands", "hooks", "subscriptions", "providers"} & answer.result.keys())
    if not astray:
        return verdict
    return failed(f"{verdict.seen}; {', '.join(astray)} belong in registrations")


def judge_tool(answer: PeerAnswer) -> StepVerdict:
    """Judge a call with valid arguments: it may fail, but only the way a tool does."""
    if isinstance(answer, FailureReply):
        said = f"it answered tool/execute with the error {format_error_reply(answer)}"
        return warned(f"{said}: a tool that fails should say so to the model, in content with is_error: true")
    verdict = judge_answer("tool/execute", answer)
    if verdict.outcome == "passed" and isinstance(answer, SuccessReply) and answer.result.get("is_error"):
        return passed(f"it refused the made-up arguments: {quote_in_full(answer.result['content'])}")
    return verdict


def judge_wrong_arguments(answer: PeerAnswer, what: str) -> StepVerdict:
    """Judge a call that no tool can carry out."""
    if isinstance(answer, FailureReply):
        return passed(f"it answered with the error {format_error_reply(answer)}")
    verdict = judge_answer("tool/execute", answer)
    if not isinstance(answer, SuccessReply):
        return verdict
    if verdict.outcome != "passed":
        return warned(f"{verdict.seen}: check arguments, and answer with is_error: true")
    if answer.result.get("is_error"):
        return passed("it answered with is_error: true")
    return warned(f"it took a call {what} for a good one: check arguments, and answer with is_error: true")


def judge_unknown_tool(answer: PeerAnswer) -> StepVerdict:
    """Judge a call of a tool that does not exist."""
    verdict = judge_wrong_arguments(answer, "")
    if verdict.outcome == "warned":
        return warned("it carried out a tool that it never registered: answer with is_error: true")
    return verdict


def judge_command(answer: PeerAnswer) -> StepVerdict:
    """Judge a command; one that fails may answer with an error."""
    if isinstance(answer, FailureReply):
        return warned(f"it answered command/execute with the error {format_error_reply(answer)}")
    return judge_answer("command/execute", answer)


def judge_unknown_command(answer: PeerAnswer) -> StepVerdict:
    """Judge a command that does not exist: an error is fine, and so is a result."""
    if isinstance(answer, FailureReply):
        return passed(f"it answered with the error {format_error_reply(answer)}")
    return judge_answer("command/execute", answer)


def judge_completion(answer: PeerAnswer) -> StepVerdict:
    """Judge completions; hosts treat an error as none."""
    if isinstance(answer, FailureReply):
        return passed(f"it completes nothing: {format_error_reply(answer)}")
    return judge_answer("command/complete", answer)


def judge_hook(answer: PeerAnswer, *, declared: bool) -> StepVerdict:
    """Judge a hook's outcome; an extension that never declared its hooks may know none at all."""
    if isinstance(answer, FailureReply):
        if answer.code == METHOD_NOT_FOUND and not declared:
            return passed("it handles no hooks, and says so")
        error = format_error_reply(answer)
        said = f"it answered the hook with the error {error}, which hosts take for a no where it protects"
        return failed(f"{said} something: answer with an action")
    verdict = judge_answer("hook", answer)
    if verdict.outcome == "failed" or not isinstance(answer, SuccessReply):
        return verdict
    outcome = read_outcome(answer.result)
    if isinstance(outcome, HookFailure):
        return failed(f"the extension {outcome.why}")
    return passed(f"it decided: {answer.result['action']}")


def judge_unknown_method(answer: PeerAnswer) -> StepVerdict:
    """Judge the answer to a request with an unknown method."""
    match answer:
        case FailureReply(code=code) if code == METHOD_NOT_FOUND:
            return passed(f"it answered with {METHOD_NOT_FOUND}")
        case FailureReply():
            return failed(
                f"it answered an unknown method with {format_error_reply(answer)}: the code is {METHOD_NOT_FOUND}"
            )
        case SuccessReply():
            said = f"it answered an unknown method with {describe_json(answer.result)} as its result"
            return failed(f"{said}: answer with the error {METHOD_NOT_FOUND}, or hosts assume that it was carried out")
        case NoAnswer():
            return failed(f"{answer.why}: answer an unknown method with the error {METHOD_NOT_FOUND}")


def judge_cancelled(answer: PeerAnswer, usual: PeerAnswer | None) -> StepVerdict:
    """Judge the answer to a cancelled request; `usual` is the answer to the same request when not cancelled."""
    match answer:
        case NoAnswer(gone=True):
            return failed(answer.why)
        case NoAnswer():
            said = "it never answered a request that was cancelled"
            return failed(f"{said}: $/cancel asks for an end, and the answer is still due, with the error {CANCELLED}")
        case FailureReply(code=code) if code == CANCELLED:
            return passed(f"it answered with {CANCELLED}")
        case FailureReply(code=code) if isinstance(usual, FailureReply) and usual.code == code:
            return passed("it had answered before it was cancelled")
        case FailureReply():
            return failed(f"it answered a cancelled request with {format_error_reply(answer)}: the code is {CANCELLED}")
        case SuccessReply():
            return passed("it had answered before it was cancelled")
