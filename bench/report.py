"""The table for people and `results/latest.json` for programs. Neither names the machine or its paths."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from bench.measure import Result
from session_core import __version__


def ratio_text(ratio: float) -> str:
    """Format a ratio: 52, 1.07 or 1/38."""
    if 0 < ratio < 0.2:
        return f"1/{1 / ratio:.0f}"
    return f"{ratio:.0f}" if ratio >= 20 or ratio == int(ratio) else f"{ratio:.2f}"


def target_text(result: Result) -> str:
    """Format the target of a ratio: `at most 1/15`."""
    return f"{result.comparison} {ratio_text(result.target)}"


def attempts_text(result: Result) -> str:
    """Describe how many runs a result needed; empty if it was the first."""
    return "" if result.attempts == 1 else f"best of {result.attempts} runs"


def table(results: Sequence[Result]) -> str:
    """Format the results as a table for a terminal."""
    rows = [("", "case", "ratio", "target", "what is compared")]
    for result in results:
        title = result.title + (f" ({attempts_text(result)})" if result.attempts > 1 else "")
        verdict = "ok" if result.passed else "MISS"
        rows.append((verdict, result.name, ratio_text(result.ratio), target_text(result), title))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:<{widths[3]}}  {row[4]}"
        for row in rows
    )


def figures(details: Mapping[str, float]) -> str:
    """Format the figures behind a result, one per line."""
    return "\n".join(f"      {figure:>10,.3f}  {name}" for name, figure in details.items())


def misses(results: Sequence[Result]) -> list[str]:
    """Describe each missed target."""
    return [
        f"{result.name}: {result.title} is {ratio_text(result.ratio)}, and should be {target_text(result)}"
        for result in results
        if not result.passed
    ]


def machine() -> dict[str, Any]:
    """Return facts about the machine that explain absolute times."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "trio": trio.__version__,
        "session_core": __version__,
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
    }


def document(results: Sequence[Result], extras: Mapping[str, float]) -> str:
    """Return all measurements as JSON."""
    content = {
        "machine": machine(),
        "passed": all(result.passed for result in results),
        "results": [
            {
                "name": result.name,
                "title": result.title,
                "ratio": round(result.ratio, 4),
                "comparison": result.comparison,
                "target": round(result.target, 4),
                "passed": result.passed,
                "attempts": result.attempts,
                "details": {name: round(figure, 4) for name, figure in result.details.items()},
            }
            for result in results
        ],
        "microseconds": {name: round(figure, 3) for name, figure in extras.items()},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
