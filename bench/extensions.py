"""The cost of extensions: requests to one, compared with a naive host and the peer's, and of unused extensions."""

import math
import shutil
from collections.abc import Iterable, Mapping

import trio

from bench.dispatch import NoOp, _runner, _time, open_bench
from bench.extension_ways import OPS, Op, ThePeers, Way, add_extension, obvious_way, our_way, running
from bench.measure import NotMeasured, Result
from bench.peer_host import check_there_is_a_peer, open_peer_host
from bench.store_material import scratch_directory
from session_core.agent.hooks import Blocked, HookName
from session_core.agent.tool_runner import ToolConfig
from session_core.ids import SessionId
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.hooks import HookBlocked, has_participant, run_hook
from session_core.sep.host.extension import HostedExtension
from session_core.vocabulary.frozen import JsonObject

REQUESTS = 960
ROUNDS = 10
AT_ONCE = 32
STEPS = 50
IDLE = 3  # extensions that run and are not asked

Best = Mapping[tuple[Op, str], tuple[float, float]]


def measure_extensions() -> Result:
    """Concurrent requests are faster than through the peer's host."""
    return _compared("extensions", AT_ONCE, 1.8)


def measure_extension_alone() -> Result:
    """A single request is faster than through the peer's host."""
    return _compared("extension_alone", 1, 1.2)


def measure_unasked() -> Result:
    """A tool call costs the same whether or not extensions run that do not handle it."""
    if shutil.which("node") is None:
        raise NotMeasured("node is not installed")
    return trio.run(_unasked, STEPS, ROUNDS)


# --- asking -----------------------------------------------------------------------------------------------------------


def _compared(name: str, at_once: int, target: float) -> Result:
    check_there_is_a_peer()
    best = trio.run(_asked, at_once, REQUESTS, ROUNDS)
    return _result(name, at_once, target, best)


async def _asked(at_once: int, requests: int, rounds: int) -> Best:
    """Alternate between all hosts; return the best µs of a request, of wall-clock time and of CPU."""
    with scratch_directory() as folder:
        found = add_extension(folder, "measured", "tool_call")
        async with running(found) as (extension,), obvious_way(found) as obvious, open_peer_host(folder, 1) as peer:
            ways: dict[str, Way] = {"ours": our_way(extension), "obvious": obvious, "peer": ThePeers(peer)}
            return await _in_turns(ways, at_once, requests // at_once, rounds)


async def _in_turns(ways: Mapping[str, Way], at_once: int, times: int, rounds: int) -> Best:
    best: dict[tuple[Op, str], tuple[float, float]] = {}
    for _ in range(rounds):
        for op in OPS:
            for name, way in ways.items():
                took = await way.take(op, at_once, times)
                least = best.get((op, name), (math.inf, math.inf))
                wall, cpu = (min(old, new / (at_once * times) * 1e6) for old, new in zip(least, took, strict=True))
                best[op, name] = wall, cpu
    return best


def _result(name: str, at_once: int, target: float, best: Best) -> Result:
    """Report the smallest gain over the peer among the three kinds of request."""
    details: dict[str, float] = {}
    for op in OPS:
        for way, words in (("ours", "our host"), ("obvious", "the obvious one"), ("peer", "the peer's")):
            details[f"{op}, {words}, requests per second"] = 1e6 / best[op, way][0]
        for way, words in (("ours", "our host"), ("peer", "the peer's")):
            details[f"{op}, {words}, µs of CPU"] = best[op, way][1]
        details[f"{op}, our host / the peer's"] = best[op, "peer"][0] / best[op, "ours"][0]
        details[f"{op}, our host / the obvious one"] = best[op, "obvious"][0] / best[op, "ours"][0]
    return Result(
        name=name,
        title=f"requests per second to an extension, {at_once} under way, the slowest kind: our host / the peer's",
        ratio=min(details[f"{op}, our host / the peer's"] for op in OPS),
        target=target,
        comparison="at least",
        details=details,
    )


# --- not asking -------------------------------------------------------------------------------------------------------


class _Asking:
    """Extensions, as a turn sees them."""

    def __init__(self, extensions: Iterable[HostedExtension]) -> None:
        self._extensions = tuple(extensions)
        self._contexts = Contexts()

    def handles(self, hook: HookName) -> bool:
        return has_participant(self._extensions, hook)

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        answer = await run_hook(self._extensions, hook, session_id, value, contexts=self._contexts)
        return Blocked(reason=answer.reason) if isinstance(answer, HookBlocked) else JsonObject(answer)


async def _unasked(steps: int, rounds: int) -> Result:
    with scratch_directory() as place:
        idle = [add_extension(place / "extensions", f"idle{number}", "context") for number in range(IDLE)]
        asked = add_extension(place / "asked", "asked", "tool_call", "tool_result")
        async with running(*idle, asked) as extensions, open_bench(str(place)) as bench:
            ways = {
                "none": _runner(bench, NoOp()),
                "idle": _runner(bench, NoOp(), ToolConfig(hooks=_Asking(extensions[:IDLE]))),
                "asked": _runner(bench, NoOp(), ToolConfig(hooks=_Asking(extensions[IDLE:]))),
            }
            best: dict[str, float] = {}
            for _ in range(rounds):
                for name, way in ways.items():
                    spent = await _time(bench, way, 1, steps)
                    best[name] = min(spent, best.get(name, spent))
    return Result(
        name="unasked",
        title=f"a tool call while {IDLE} extensions run that want no part in it / while none runs",
        ratio=best["idle"] / best["none"],
        target=1.1,
        comparison="at most",
        details={
            "a call without extensions, µs of CPU": best["none"],
            f"a call with {IDLE} that are not asked, µs of CPU": best["idle"],
            "a call with one that is asked before and after, µs of CPU": best["asked"],
        },
    )
