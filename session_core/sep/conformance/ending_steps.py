"""How an extension starts and ends: an early request, a version too high, `shutdown`, the end of its input."""

from typing import Final, get_args

import attrs

from session_core.processes.child import describe_exit
from session_core.rpc.messages import FailureReply, SuccessReply
from session_core.sep.conformance.driver import STOP_SECONDS, ConformanceDriver
from session_core.sep.conformance.frames import Complaint, ComplaintTopic
from session_core.sep.conformance.host_messages import HIGHER_VERSION
from session_core.sep.conformance.peer import Peer
from session_core.sep.conformance.verdicts import (
    StepVerdict,
    failed,
    format_error_reply,
    judge_answer,
    judge_greeting,
    judge_version,
    passed,
    skipped,
    warned,
)
from session_core.sep.host.registrations import Registrations, filter_permitted
from session_core.sep.protocol.names import PROTOCOL_VERSION

_FEW: Final = 3
_EXPECTED: Final[dict[ComplaintTopic, tuple[str, str]]] = {
    "stdout": ("nothing but messages on stdout", "it wrote nothing else there"),
    "messages": ("every message it sends fits the protocol", "every message fits"),
    "replies": ("one reply to each request, with its id", "every request got exactly one reply"),
    "contexts": ("contexts are used unchanged, and while they are valid", "all of them were used that way"),
}


async def try_greeting(driver: ConformanceDriver) -> None:
    """Greet it for the first time; without its answer there is nothing else to try."""

    async def greet(peer: Peer) -> StepVerdict:
        answer = await driver.greet(peer)
        verdict, driver.registrations = judge_greeting(answer, name=driver.target.name)
        if not isinstance(answer, SuccessReply):
            driver.broken = "it did not answer initialize"
            return verdict
        extension = answer.result.get("extension") if isinstance(answer.result, dict) else None
        if isinstance(extension, dict):
            driver.reported_identity = str(extension.get("name", "")), str(extension.get("version", ""))
        return _judge_permitted(driver) if verdict.outcome == "passed" and driver.target.declared else verdict

    expected = f"protocol_version {PROTOCOL_VERSION}, its own name and version, and what it registers"
    await driver.step("handshake", expected, greet, probe=False, fresh=True)


def _judge_permitted(driver: ConformanceDriver) -> StepVerdict:
    """Warn about registrations that hosts leave out because the manifest does not enable them."""
    registered, permitted_registrations = (
        driver.registrations,
        filter_permitted(driver.registrations, driver.target.manifest),
    )
    kinds = [field.name for field in attrs.fields(Registrations)]
    out = [kind for kind in kinds if getattr(registered, kind) != getattr(permitted_registrations, kind)]
    if not out:
        return passed(f"{driver.reported_identity[0]} {driver.reported_identity[1]} speaks version {PROTOCOL_VERSION}")
    return warned(f"it registers {', '.join(out)}, which its manifest does not enable: add them to [capabilities]")


async def try_beginnings(driver: ConformanceDriver) -> None:
    """Send a new process a request before its greeting, and offer it a version too high; then end its input."""

    async def early(peer: Peer) -> StepVerdict:
        answer = await peer.ask("ping", seconds=driver.seconds / 4)
        if peer.over.is_set():
            return failed(f"it ended when it was asked something before initialize: {await peer.describe_end()}")
        if isinstance(answer, SuccessReply):
            return passed("it answered")
        if isinstance(answer, FailureReply):
            return passed(f"it answered with the error {format_error_reply(answer)}")
        return passed("it waited for initialize")

    async def later_version(peer: Peer) -> StepVerdict:
        answer = await driver.greet(peer, offered=HIGHER_VERSION)
        return judge_version(answer, offered=HIGHER_VERSION)

    async def end_of_input(peer: Peer) -> StepVerdict:
        await peer.close_stdin()
        return _judge_exit(await peer.wait_exit(STOP_SECONDS), "the end of its input")

    verdict = await driver.step(
        "request before initialize", "any answer or none, but no crash", early, probe=False, fresh=True
    )
    expected = f"protocol_version {PROTOCOL_VERSION} when the host offers {HIGHER_VERSION}"
    await driver.step("later version", expected, later_version, probe=False, fresh=verdict.outcome == "failed")
    await driver.step("end of input", f"it exits with code 0 within {STOP_SECONDS:g} s", end_of_input, probe=False)
    await driver.end_process()


async def try_shutdown(driver: ConformanceDriver) -> None:
    """Ask it to shut down."""

    async def shut_down(peer: Peer) -> StepVerdict:
        verdict = judge_answer("shutdown", await peer.ask("shutdown", seconds=STOP_SECONDS))
        if verdict.outcome == "failed":
            return verdict
        return _judge_exit(await peer.wait_exit(STOP_SECONDS), "its answer to shutdown")

    await driver.step("shutdown", f"an answer, and exit code 0 within {STOP_SECONDS:g} s", shut_down, probe=False)
    await driver.end_process()


def _judge_exit(status: int | None, after: str) -> StepVerdict:
    if status is None:
        return failed(f"it still ran {STOP_SECONDS:g} s after {after}: clean up and exit")
    if status != 0:
        return failed(
            f"{describe_exit(status)} after {after}: exit with code 0, because hosts treat any other code as a crash"
        )
    return passed("it exited")


def judge_meanwhile(driver: ConformanceDriver) -> None:
    """Judge whether it responded while it waited for an answer of the host."""
    verdicts = {
        "unasked": skipped("it asked the host nothing"),
        "at once": passed("it answered a ping while it waited"),
        "late": warned(
            "it answered a ping only after its own request had been answered: keep reading while you wait, or one open "
            "dialog holds up everything else"
        ),
        "never": failed(
            "a ping that came while it waited for the host was never answered: keep reading while you wait, and answer "
            "what comes meanwhile"
        ),
    }
    driver.record(
        "while it waits", "requests are answered also while it waits for the host", verdicts[driver.responsiveness]
    )


def judge_complaints(driver: ConformanceDriver) -> None:
    """Summarize the complaints about single lines, from all steps."""
    for about in get_args(ComplaintTopic):
        expected, seen = _EXPECTED[about]
        found = driver.complaints.complaints_about(about)
        if not found:
            driver.record(
                about, expected, passed(seen) if driver.reported_identity[0] else skipped("there was nothing to judge")
            )
            continue
        worst = found[0][0].weight
        said = "; ".join(_format_complaint(complaint, times) for complaint, times in found[:_FEW])
        if len(found) > _FEW:
            said += f"; and {len(found) - _FEW} more like it"
        driver.record(about, expected, failed(said) if worst == "failed" else warned(said))


def _format_complaint(complaint: Complaint, times: int) -> str:
    return complaint.sentence if times == 1 else f"{complaint.sentence} ({times} times)"
