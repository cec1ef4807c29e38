"""What an extension has to cope with: events, cancellations, odd lines, large ones, and many requests at once."""

from collections.abc import Mapping
from typing import Any, Final

import trio

from session_core.rpc.fast_json import write_json
from session_core.rpc.messages import RpcId, SuccessReply, encode_notification, encode_request
from session_core.rpc.peer import CANCEL
from session_core.sep.conformance.call_steps import tool_call
from session_core.sep.conformance.driver import ConformanceDriver
from session_core.sep.conformance.frames import NoAnswer, PeerAnswer
from session_core.sep.conformance.host_messages import (
    LARGE_CHARS,
    MALFORMED_LINES,
    ODD_LINES,
    TYPED_ARGUMENTS,
    UNKNOWN_EVENT,
    UNKNOWN_METHOD,
    event_payload,
    hook_input,
)
from session_core.sep.conformance.peer import Peer
from session_core.sep.conformance.sample_arguments import sample_arguments
from session_core.sep.conformance.verdicts import (
    StepVerdict,
    failed,
    judge_answer,
    judge_cancelled,
    judge_unknown_method,
    passed,
    skipped,
)
from session_core.sep.host.registrations import clamp_subscriptions, handled_hooks
from session_core.vocabulary.frozen import thaw_json

_AT_ONCE: Final = 24
"""Requests open at the same time; a turn with several tools and hooks has about as many."""
_TEXT_ID: Final = "an id that is a string"

Call = tuple[str, dict[str, Any]]


async def try_ping(driver: ConformanceDriver) -> None:
    """Ping it, with ids of both types."""

    async def ping(peer: Peer) -> StepVerdict:
        return judge_answer("ping", await peer.ask("ping"))

    verdict = await driver.step("ping", "an empty result", ping, probe=False)
    driver.answers_pings = verdict.outcome == "passed"

    async def by_text(peer: Peer) -> StepVerdict:
        answer = await peer.ask("ping", id=_TEXT_ID)
        if isinstance(answer, NoAnswer):
            return failed(
                "it did not answer a request whose id is a string: repeat the id unchanged, whatever its type"
            )
        return judge_answer("ping", answer)

    await driver.step("id that is a string", "a reply with the same id", by_text)

    async def with_more(peer: Peer) -> StepVerdict:
        number = peer.expect_answer("ping")
        line = {"jsonrpc": "2.0", "id": number, "method": "ping", "params": {"later": 1}, "later": {"sample": True}}
        await peer.send(write_json(line) + b"\n")
        return judge_answer("ping", await peer.wait_answer(number))

    await driver.step("unknown keys", "the same as without them", with_more)


async def try_events(driver: ConformanceDriver) -> None:
    """Send each event that it subscribes to, and an unknown one."""
    wanted = sorted(clamp_subscriptions(driver.registrations, driver.target.manifest))
    events: list[dict[str, Any]] = [
        {"event": event, "seq": number, "payload": event_payload(event)}
        for number, event in enumerate([*wanted, UNKNOWN_EVENT])
    ]
    for event in [*events, {"event": "events_lost", "payload": {"lost": 3}}]:

        async def tell(peer: Peer, event: Mapping[str, Any] = event) -> StepVerdict:
            await peer.tell("event", {**event, "context": peer.fake_host.event_context()})
            return passed("it received it, and kept running")

        name = "unknown event" if event["event"] == UNKNOWN_EVENT else f"event {event['event']}"
        await driver.step(name, "nothing, and it keeps running", tell)


async def try_odd_lines(driver: ConformanceDriver) -> None:
    """Send messages that it cannot know, and lines that are no messages and that no host sends."""
    for about, line in {**ODD_LINES, **MALFORMED_LINES}.items():

        async def send(peer: Peer, line: bytes = line) -> StepVerdict:
            await peer.send(line + b"\n")
            return passed("it ignored it")

        expected, hardening = "it is ignored, or answered with an error", about in MALFORMED_LINES
        await driver.step(f"bad input: {about}", expected, send, hardening=hardening)

    async def unknown(peer: Peer) -> StepVerdict:
        return judge_unknown_method(await peer.ask(UNKNOWN_METHOD))

    await driver.step("unknown method", "the error -32601", unknown)


async def try_large(driver: ConformanceDriver) -> None:
    """Send a long line."""

    async def large(peer: Peer) -> StepVerdict:
        answer = await peer.ask("ping", {"padding": "x" * LARGE_CHARS})
        verdict = judge_answer("ping", answer)
        if verdict.outcome == "failed":
            return failed(f"it cannot read a line of {LARGE_CHARS:,} characters ({verdict.seen}): raise its limit")
        return verdict

    await driver.step("large message", "the same as to a small one", large)


async def try_cancellation(driver: ConformanceDriver) -> None:
    """Cancel requests that have just been sent."""
    calls = _calls(driver)
    if not calls:
        said = "it has no tools, commands or hooks whose call could be cancelled"
        driver.record("cancellation", "one answer: -32800, or a result that was on its way", skipped(said))
    for method, params in calls:

        async def cancel(peer: Peer, method: str = method, params: Mapping[str, Any] = params) -> StepVerdict:
            with peer.dispatch() as context:
                number = peer.expect_answer(method)
                cancellation = encode_notification(CANCEL, {"id": number})
                await peer.send(encode_request(number, method, {**params, "context": context}), cancellation)
                answer = await peer.wait_answer(number)
            verdict = judge_cancelled(answer, driver.usual_answers.get(params.get("tool", "")))
            if verdict.outcome == "failed":
                return verdict
            await peer.ask("ping")  # a second answer would come before this one's
            if peer.ledger.times_answered(number) > 1:
                return failed("it answered a cancelled request twice: send one reply, the error or the result")
            return verdict

        expected = "one answer: -32800, or a result that was on its way"
        await driver.step(f"cancellation of {method}", expected, cancel)


async def try_many(driver: ConformanceDriver) -> None:
    """Send many requests at once."""
    calls: list[Call] = [("ping", {}), *_calls(driver)]

    async def many(peer: Peer) -> StepVerdict:
        with peer.dispatch() as context:
            sent: list[tuple[str, RpcId]] = []
            lines: list[bytes] = []
            for place in range(_AT_ONCE):
                method, params = calls[place % len(calls)]
                number = peer.expect_answer(method)
                call_params = params if method == "ping" else {**params, "context": context}
                if method == "tool/execute":
                    call_params = {**call_params, "call_id": f"call_many_{place}"}
                sent.append((method, number))
                lines.append(encode_request(number, method, call_params))
            await peer.send(*lines)
            ends_at = trio.current_time() + peer.seconds
            answers: list[tuple[str, PeerAnswer]] = []
            for method, number in sent:
                remaining = max(0.0, ends_at - trio.current_time())
                answers.append((method, await peer.wait_answer(number, seconds=remaining)))
        if not any(isinstance(answer, NoAnswer) for _, answer in answers):
            await peer.ask("ping")  # second answers would come before this one's
        twice = [method for method, number in sent if peer.ledger.times_answered(number) > 1]
        return _judge_many(answers, twice)

    await driver.step(f"{_AT_ONCE} requests at once", "one reply to each", many)


def _judge_many(answers: list[tuple[str, PeerAnswer]], twice: list[str]) -> StepVerdict:
    silent = sorted({method for method, answer in answers if isinstance(answer, NoAnswer)})
    if silent:
        count = sum(isinstance(answer, NoAnswer) for _, answer in answers)
        said = f"{count} of {len(answers)} requests that were sent at once were not answered ({', '.join(silent)})"
        return failed(f"{said}: answer each, in any order, also while others are under way")
    if twice:
        return failed(f"it answered {len(twice)} of {len(answers)} requests twice ({', '.join(sorted(set(twice)))})")
    broken = [method for method, answer in answers if method == "ping" and not isinstance(answer, SuccessReply)]
    return failed("it answered a ping with an error") if broken else passed("it answered each of them once")


def _calls(driver: ConformanceDriver) -> list[Call]:
    """Return one call of each kind that it supports."""
    calls: list[Call] = []
    for tool in driver.registrations.tools:
        arguments = sample_arguments(thaw_json(tool.parameters))
        if arguments is not None:
            calls.append(("tool/execute", tool_call(tool.name, arguments)))
            break
    commands = driver.registrations.commands[:1]
    calls += [("command/execute", {"command": each.name, **TYPED_ARGUMENTS}) for each in commands]
    hooks = sorted(handled_hooks(driver.registrations) or ())[:1]
    calls += [("hook", {"hook": hook, "input": hook_input(hook, "read")}) for hook in hooks]
    return calls
