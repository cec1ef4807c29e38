"""What an answer is worth: passed, warned or failed, with a sentence that tells the author what to change."""

import json
from typing import Any, Final

import attrs

from session_core.rpc.messages import Failure, Success
from session_core.sep.conformance.frames import Answer, Silence, judge_result
from session_core.sep.conformance.report import StepOutcome
from session_core.sep.host.calls.hooks import Failure as HookFailure
from session_core.sep.host.calls.hooks import read_outcome
from session_core.sep.host.registrations import Registrations, RegistrationsInvalid, read_registrations
from session_core.sep.protocol.names import CANCELLED, METHOD_NOT_FOUND
from session_core.wire.error_text import kind_of, quoted

_SHOWN: Final = 400
_NO_SDK: Final = "No module named 'session_core'"


@attrs.frozen(kw_only=True)
class Verdict:
    """How a step ended, and what was seen."""

    outcome: StepOutcome
    seen: str


def passed(seen: str) -> Verdict:
    """All is well."""
    return Verdict(outcome="passed", seen=seen)


def warned(seen: str) -> Verdict:
    """It works, and should be different."""
    return Verdict(outcome="warned", seen=seen)


def failed(seen: str) -> Verdict:
    """It has to be changed."""
    return Verdict(outcome="failed", seen=seen)


def skipped(why: str) -> Verdict:
    """It could not be tried, or there was nothing to try."""
    return Verdict(outcome="skipped", seen=why)


def shown_error(failure: Failure) -> str:
    """Return an error reply for people."""
    return f"{whole(failure.message)} ({failure.code})"


def whole(text: str) -> str:
    """Quote what an extension says so that its author finds it: not cut before it is long, and not escaped."""
    return json.dumps(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…", ensure_ascii=False)


def judge_answer(method: str, answer: Answer) -> Verdict:
    """Judge an answer that should be a result."""
    match answer:
        case Silence(gone=True):
            return failed(f"{answer.why}: nothing that it is asked may end it")
        case Silence():
            return failed(f"{answer.why}: every request must be answered")
        case Failure():
            return failed(f"it answered {method} with the error {shown_error(answer)}, where a result is expected")
        case Success():
            fault, _ = judge_result(method, answer.result)
            if fault is not None:
                return failed(f"its answer to {method} does not fit the protocol: {fault}")
            return passed(f"it answered {method}")


def judge_greeting(answer: Answer, *, offered: int, spoken: int, name: str | None) -> tuple[Verdict, Registrations]:
    """Judge the answer to `initialize`; `name` is that of the manifest, if there is one."""
    if isinstance(answer, Silence):
        hint = "; does the program call ext.serve()?" if answer.gone and "exit status 0" in answer.why else ""
        return failed(f"{answer.why}: hosts give up on it{hint}"), Registrations()
    verdict = judge_answer("initialize", answer)
    if not isinstance(answer, Success) or verdict.outcome == "failed":
        return _with_hint(verdict, answer), Registrations()
    result: dict[str, Any] = answer.result
    version, called = result["protocol_version"], result["extension"]["name"]
    about_version = judge_version(answer, offered=offered, spoken=spoken)
    if about_version.outcome == "failed":
        return about_version, Registrations()
    try:
        registrations = read_registrations(result.get("registrations"))
    except RegistrationsInvalid as error:
        return failed(f"what it registers cannot be used, at {error.field}: {error.message}"), Registrations()
    if name is not None and called != name:
        said = f"it calls itself {quoted(called)}, and its manifest calls it {quoted(name)}: use one name"
        return failed(said), registrations
    return passed(f"{called} {result['extension']['version']} speaks version {version}"), registrations


def judge_version(answer: Answer, *, offered: int, spoken: int) -> Verdict:
    """Judge nothing but the version in an answer to `initialize`; what else is wrong with it is judged elsewhere."""
    if not isinstance(answer, Success):
        return judge_answer("initialize", answer)
    version = answer.result.get("protocol_version") if isinstance(answer.result, dict) else None
    if not isinstance(version, int):
        return skipped("its answer to initialize names no version")
    if version > min(offered, spoken):
        said = f"it answered with protocol_version {version} where the host offered {offered}"
        return failed(f"{said}: answer with the lower one of the host's version and your own, {spoken}")
    return passed(f"it speaks version {version}")


def with_last_words(verdict: Verdict, said: str) -> Verdict:
    """Add what a process said before it ended, which often tells why, and what to do about that."""
    hint = ""
    if _NO_SDK in said:
        hint = "; the Python that run.command names does not have session-core: write the path of one that has it"
    return failed(f"{verdict.seen}; it said: {said}{hint}")


def _with_hint(verdict: Verdict, answer: Answer) -> Verdict:
    """Name the slip that is made most often."""
    if not isinstance(answer, Success) or not isinstance(answer.result, dict):
        return verdict
    astray = sorted({"tools", "commands", "hooks", "subscriptions", "providers"} & answer.result.keys())
    if not astray:
        return verdict
    return failed(f"{verdict.seen}; {', '.join(astray)} belong into registrations")


def judge_tool(answer: Answer) -> Verdict:
    """Judge a call with arguments that fit: it may fail, but as a tool does."""
    if isinstance(answer, Failure):
        said = f"it answered tool/execute with the error {shown_error(answer)}"
        return warned(f"{said}: a tool that fails should say so to the model, in content with is_error: true")
    verdict = judge_answer("tool/execute", answer)
    if verdict.outcome == "passed" and isinstance(answer, Success) and answer.result.get("is_error"):
        return passed(f"it refused the made-up arguments: {whole(answer.result['content'])}")
    return verdict


def judge_wrong_arguments(answer: Answer, what: str) -> Verdict:
    """Judge a call that no tool can carry out."""
    if isinstance(answer, Failure):
        return passed(f"it answered with the error {shown_error(answer)}")
    verdict = judge_answer("tool/execute", answer)
    if verdict.outcome != "passed" or not isinstance(answer, Success):
        return verdict
    if answer.result.get("is_error"):
        return passed("it answered with is_error: true")
    return warned(f"it took a call {what} for a good one: check arguments, and answer with is_error: true")


def judge_unknown_tool(answer: Answer) -> Verdict:
    """Judge a call of a tool that is not there."""
    verdict = judge_wrong_arguments(answer, "")
    if verdict.outcome == "warned":
        return failed("it carried out a tool that it never registered: answer with is_error: true")
    return verdict


def judge_command(answer: Answer) -> Verdict:
    """Judge a command; one that fails may say so by an error."""
    if isinstance(answer, Failure):
        return warned(f"it answered command/execute with the error {shown_error(answer)}")
    return judge_answer("command/execute", answer)


def judge_unknown(answer: Answer, method: str) -> Verdict:
    """Judge the answer to something of a name that is not there: an error will do, and a result too."""
    if isinstance(answer, Failure):
        return passed(f"it answered with the error {shown_error(answer)}")
    return judge_answer(method, answer)


def judge_completion(answer: Answer) -> Verdict:
    """Judge completions; hosts take an error for none."""
    if isinstance(answer, Failure):
        return passed(f"it completes nothing: {shown_error(answer)}")
    return judge_answer("command/complete", answer)


def judge_hook(answer: Answer, *, declared: bool) -> Verdict:
    """Judge a decision; who never said which hooks it handles may know none at all."""
    if isinstance(answer, Failure):
        if answer.code == METHOD_NOT_FOUND and not declared:
            return passed("it handles no hooks, and says so")
        said = f"it answered the hook with the error {shown_error(answer)}, which hosts take for a no where it guards"
        return failed(f"{said} something: answer with an action")
    verdict = judge_answer("hook", answer)
    if verdict.outcome == "failed" or not isinstance(answer, Success):
        return verdict
    outcome = read_outcome(answer.result)
    if isinstance(outcome, HookFailure):
        return failed(f"the extension {outcome.why}")
    return passed(f"it decided: {answer.result['action']}")


def judge_unknown_method(answer: Answer) -> Verdict:
    """Judge the answer to a request that nobody knows."""
    match answer:
        case Failure(code=code) if code == METHOD_NOT_FOUND:
            return passed(f"it answered with {METHOD_NOT_FOUND}")
        case Failure():
            return failed(f"it answered an unknown method with {shown_error(answer)}: the code is {METHOD_NOT_FOUND}")
        case Success():
            said = f"it answered an unknown method with {kind_of(answer.result)} as its result"
            return failed(f"{said}: answer with the error {METHOD_NOT_FOUND}, or hosts take it for done")
        case Silence():
            return failed(f"{answer.why}: answer an unknown method with the error {METHOD_NOT_FOUND}")


def judge_cancelled(answer: Answer, usual: Answer | None) -> Verdict:
    """Judge the answer to a request that was cancelled; `usual` is the one to the same request when it is not."""
    match answer:
        case Silence(gone=True):
            return failed(answer.why)
        case Silence():
            said = "it never answered a request that was cancelled"
            return failed(f"{said}: $/cancel asks for an end, and the answer is still due, with the error {CANCELLED}")
        case Failure(code=code) if code == CANCELLED:
            return passed(f"it answered with {CANCELLED}")
        case Failure(code=code) if isinstance(usual, Failure) and usual.code == code:
            return passed("it had answered before it was cancelled")
        case Failure():
            return failed(f"it answered a cancelled request with {shown_error(answer)}: the code is {CANCELLED}")
        case Success():
            return passed("it had answered before it was cancelled")
