"""`python -m bench`: measure everything, or one case; exit code 1 when a target is missed."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.agent import measure_agent
from bench.broadcast import measure_burst, measure_publish, measure_single, measure_stall
from bench.command_start import measure_command_start
from bench.commands import measure_command
from bench.dispatch import measure_dispatch
from bench.executor_state import measure_executor_state
from bench.extension_holds import measure_extension_holds
from bench.extensions import measure_extension_alone, measure_extensions, measure_unasked
from bench.extras import measure_extras
from bench.first_token import measure_first_token
from bench.journal import measure_durable, measure_journal
from bench.many_sessions import measure_sessions
from bench.measure import NotMeasured, Result, needing, run_case
from bench.picture import picture
from bench.protocols import measure_protocols
from bench.report import attempts_text, document, figures, misses, ratio_text, table, target_text
from bench.rpc import measure_rpc
from bench.server_load import measure_fan_out, measure_idle_clients
from bench.server_trouble import measure_shutdown, measure_stalled_neighbour
from bench.spawn import measure_spawn
from bench.stops import measure_stop
from bench.store_growth import measure_memory, measure_steps
from bench.store_reading import measure_listing, measure_reopen
from bench.terminal_long import measure_terminal_memory, measure_terminal_opening
from bench.terminal_start import measure_terminal_start
from bench.terminal_streaming import measure_terminal_background, measure_terminal_pictures
from bench.values import measure_encode, measure_snapshot

CASES: Mapping[str, Callable[[], Result]] = {
    "publish": measure_publish,
    "burst": measure_burst,
    "single": measure_single,
    "sessions": measure_sessions,
    "stall": measure_stall,
    "command": measure_command,
    "snapshot": measure_snapshot,
    "encode": measure_encode,
    "stop": measure_stop,
    "journal": measure_journal,
    "durable": measure_durable,
    "reopen": measure_reopen,
    "listing": measure_listing,
    "steps": measure_steps,
    "memory": measure_memory,
    "executor_state": measure_executor_state,
    "agent": measure_agent,
    "dispatch": measure_dispatch,
    "protocols": measure_protocols,
    "first_token": measure_first_token,
    "rpc": needing("node", measure_rpc),
    "extensions": measure_extensions,
    "extension_alone": measure_extension_alone,
    "unasked": measure_unasked,
    "extension_holds": measure_extension_holds,
    "spawn": measure_spawn,
    "command_start": measure_command_start,
    "idle_clients": measure_idle_clients,
    "fan_out": measure_fan_out,
    "stalled_neighbour": measure_stalled_neighbour,
    "shutdown": measure_shutdown,
    "terminal_start": measure_terminal_start,
    "terminal_background": measure_terminal_background,
    "terminal_pictures": measure_terminal_pictures,
    "terminal_memory": measure_terminal_memory,
    "terminal_opening": measure_terminal_opening,
}
ATTEMPTS = 3
"""A case that misses its target is run again, because noise only ever makes things look slower."""
RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, report the results and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the speed of session-core as ratios, each against its target.",
        epilog=f"A missed case is run up to {ATTEMPTS} times and its best run counts; the output says so. "
        "A run of all cases writes results/latest.json and results/latest.svg.",
    )
    parser.add_argument("--only", choices=CASES, metavar="NAME", help=f"run one case: {', '.join(CASES)}")
    only = parser.parse_args(arguments).only

    runs = [_run(name) for name in ([only] if only else CASES)]
    results = [each for each in runs if each is not None]
    print(f"\n{table(results)}\n")
    if only is None:
        extras = measure_extras()
        print(f"Without a target, in µs:\n{figures(extras)}\n")
        _save(results, extras)
    missed = misses(results)
    for miss in missed:
        print(f"MISSED {miss}", file=sys.stderr)
    return 1 if missed else 0


def _run(name: str) -> Result | None:
    print(f"{name} ... ", end="", flush=True)
    started = time.monotonic()
    try:
        result = run_case(CASES[name], ATTEMPTS)
    except NotMeasured as missing:
        print(f"not measured: {missing}", flush=True)
        return None
    verdict = "ok" if result.passed else "MISS"
    note = f", {attempts_text(result)}" if result.attempts > 1 else ""
    print(f"{verdict}, {ratio_text(result.ratio)} ({target_text(result)}{note}), {time.monotonic() - started:.0f} s")
    print(figures(result.details), flush=True)
    return result


def _save(results: list[Result], extras: Mapping[str, float]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(document(results, extras), encoding="utf-8")
    (RESULTS / "latest.svg").write_text(picture(results), encoding="utf-8")
    print("Written: bench/results/latest.json and bench/results/latest.svg")


if __name__ == "__main__":
    sys.exit(main())
