"""Calls to an extension: its tools, commands, hooks and models, with valid and invalid samples."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from session_core.rpc.messages import FailureReply, SuccessReply
from session_core.sep.conformance.catalogue import fault_of
from session_core.sep.conformance.driver import ConformanceDriver
from session_core.sep.conformance.frames import PeerAnswer
from session_core.sep.conformance.host_messages import TYPED_ARGUMENTS, UNKNOWN_NAME, completion_request, hook_input
from session_core.sep.conformance.peer import Peer
from session_core.sep.conformance.sample_arguments import sample_arguments, wrong_arguments
from session_core.sep.conformance.verdicts import (
    StepVerdict,
    failed,
    format_error_reply,
    judge_answer,
    judge_command,
    judge_completion,
    judge_hook,
    judge_tool,
    judge_unknown_command,
    judge_unknown_tool,
    judge_wrong_arguments,
    passed,
    skipped,
    warned,
)
from session_core.sep.host.registrations import ProviderRegistration, ToolRegistration, handled_hooks
from session_core.sep.protocol.names import HOOKS, HookName
from session_core.vocabulary.frozen import thaw_json

MOST_OF_A_KIND: Final = 32
"""The most tools, commands and providers that are tried; a check should end while its author waits."""


def tool_call(tool: str, arguments: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
    """Return the params of a tool call, without its context."""
    return {"call_id": f"call_{tool}_{number}"[:100], "tool": tool, "arguments": dict(arguments)}


async def try_tools(driver: ConformanceDriver) -> None:
    """Call each tool with valid and with invalid arguments, and call a tool that does not exist."""
    tools = driver.registrations.tools
    for tool in tools[:MOST_OF_A_KIND]:
        await _try_tool(driver, tool)
    _note_left_out(driver, "tools", len(tools))
    if not tools:
        driver.record("tools", "a result from each tool", skipped("it registers no tools"))
        return
    name, expected = "tool that does not exist", "is_error: true, or an error"
    await driver.call(name, expected, "tool/execute", tool_call(UNKNOWN_NAME, {}), judge_unknown_tool)


async def _try_tool(driver: ConformanceDriver, tool: ToolRegistration) -> None:
    schema: dict[str, Any] = thaw_json(tool.parameters)
    sample = sample_arguments(schema)
    name = f"tool {tool.name}"
    if not tool.description.strip():
        said = "it has none, so models have to guess what it does: give it a docstring, or description="
        driver.record(f"{name}: its description", "a sentence for models", warned(said))
    if sample is None:
        driver.record(name, "a result", skipped("no arguments could be made up that fit its schema"))
        return

    async def right(peer: Peer) -> StepVerdict:
        answer = await peer.ask_in_dispatch("tool/execute", tool_call(tool.name, sample))
        driver.usual_answers[tool.name] = answer
        return judge_tool(answer)

    await driver.step(name, "a result with its content as a string", right)
    for number, wrong in enumerate(wrong_arguments(schema), start=1):
        params = tool_call(tool.name, wrong.arguments, number)
        expected, judge = "is_error: true, or an error, and no crash", partial(judge_wrong_arguments, what=wrong.what)
        await driver.call(f"{name} {wrong.what}", expected, "tool/execute", params, judge)


async def try_commands(driver: ConformanceDriver) -> None:
    """Run each command, with and without arguments, and complete it; run one that does not exist."""
    commands = driver.registrations.commands
    for command in commands[:MOST_OF_A_KIND]:
        for what, more in (("", TYPED_ARGUMENTS), (" without arguments", {})):
            name, params = f"command {command.name}{what}", {"command": command.name, **more}
            expected = "a result, with what to show as a string"
            await driver.call(name, expected, "command/execute", params, judge_command)

        async def complete(peer: Peer, command: str = command.name) -> StepVerdict:
            verdict = judge_completion(
                await peer.ask_in_dispatch("command/complete", {"command": command, "partial": "s"})
            )
            if verdict.outcome == "failed":
                return verdict
            return judge_completion(await peer.ask_in_dispatch("command/complete", {"command": command}))

        await driver.step(f"completion of {command.name}", "a list of completions, or an error", complete)
    _note_left_out(driver, "commands", len(commands))
    if not commands:
        driver.record("commands", "a result from each command", skipped("it registers no commands"))
        return
    name, params = "command that does not exist", {"command": UNKNOWN_NAME, **TYPED_ARGUMENTS}
    expected = "an error, or a sentence that says so"
    await driver.call(name, expected, "command/execute", params, judge_unknown_command)


async def try_hooks(driver: ConformanceDriver) -> None:
    """Run each hook that it handles."""
    handled = handled_hooks(driver.registrations)
    wanted: list[HookName] = [hook for hook in HOOKS if handled is None or hook in handled]
    own = driver.registrations.tools
    tool = f"{driver.target.manifest.name}.{own[0].name}" if own else "read"
    judge = partial(judge_hook, declared=handled is not None)
    for hook in wanted:
        params = {"hook": hook, "input": hook_input(hook, tool)}
        verdict = await driver.call(f"hook {hook}", "an action: continue, block or modify", "hook", params, judge)
        if handled is None and verdict.seen.startswith("it handles no hooks"):
            break  # and says so for each hook
    # An empty list would mean all hooks, so some extensions say "none" instead.
    unknown = sorted(set(driver.registrations.hooks) - {*HOOKS, "none"})
    if unknown:
        said = f"it wants to be asked at {', '.join(unknown)}, which is not a hook: is it an event, for subscriptions?"
        driver.record("names of hooks", "hooks of the protocol", warned(said[:500]))


async def try_providers(driver: ConformanceDriver) -> None:
    """Request an answer from each model provider."""
    providers = driver.registrations.providers
    for number, provider in enumerate(providers):
        await _try_provider(driver, provider, f"answer_{number}")


async def _try_provider(driver: ConformanceDriver, provider: ProviderRegistration, request_id: str) -> None:
    if provider.oauth:
        said = "it needs a login, so it is not asked"
        driver.record(f"provider {provider.name}", "an answer of a model", skipped(said))
        return

    async def complete(peer: Peer) -> StepVerdict:
        answer = await peer.ask_in_dispatch("provider/complete", completion_request(provider, request_id))
        return _judge_completed(answer, peer.deltas, request_id)

    await driver.step(f"provider {provider.name}", "pieces of an answer, then its result", complete)


def _judge_completed(answer: PeerAnswer, deltas: list[dict[str, Any]], request_id: str) -> StepVerdict:
    for delta in deltas:
        if fault := fault_of("provider/delta", "params", delta):
            return failed(f"a provider/delta does not fit the protocol: {fault}")
        if delta["request_id"] != request_id:
            said = f"a provider/delta names the answer {delta['request_id']!r}"
            return failed(f"{said}: repeat the request_id of the request, {request_id!r}")
    if isinstance(answer, FailureReply):
        return warned(f"it answered provider/complete with the error {format_error_reply(answer)}")
    verdict = judge_answer("provider/complete", answer)
    if verdict.outcome == "passed" and isinstance(answer, SuccessReply):
        return passed(f"it answered with {len(deltas)} pieces before the result")
    return verdict


def _note_left_out(driver: ConformanceDriver, kind: str, count: int) -> None:
    if count > MOST_OF_A_KIND:
        said = f"only the first {MOST_OF_A_KIND} of {count} were tried"
        driver.record(f"further {kind}", "the same as of the others", skipped(said))
