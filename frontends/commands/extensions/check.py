"""`session-core ext check`: drives an extension in any language through the whole protocol, and prints a table."""

import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.shared.extension_lookup import find_extensions, pick
from frontends.shared.figures import duration, format_count
from frontends.shared.home import resolve_home
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.signals import end_on_signal
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import Column, columns, table

_LONGEST = 1_500
_NAME = 80
_STDERR = 10
_HEADS = (
    Column(title=""),
    Column(title="STEP", share=2, least=16),
    Column(title="TIME"),
    Column(title="SEEN", share=5),
)
_TOLD_BELOW = frozenset({"failed", "warned"})
_MARKS = {"passed": "✓", "failed": "✗", "warned": "●", "skipped": "·"}


def check(words: Sequence[str], *, as_json: bool, seconds: float | None) -> int:
    """Run `ext check` and return the exit code: 1 if the extension violates the protocol."""
    if not words or not words[0].strip():
        raise UsageError("there is nothing to check: name an extension, a folder with an extension.toml, or a command")
    return trio.run(_check, _resolve_words(words), as_json, seconds)


def _resolve_words(words: Sequence[str]) -> Sequence[str]:
    """Replace the name of a known extension by its folder; a local path of that name takes precedence."""
    if len(words) != 1 or not sc.extensions.is_extension_name(words[0]) or Path(words[0]).exists():
        return words
    looked = find_extensions(resolve_home(None), Path.cwd())
    if not looked.entries_named(words[0]):
        return words
    entry = pick(looked, words[0])
    if entry.state == "untrusted":
        raise UsageError(f"{words[0]} is not started by its name: {entry.reason}; name its folder to check it")
    return [str(entry.folder.absolute())]


async def _check(words: Sequence[str], as_json: bool, seconds: float | None) -> int:  # noqa: FBT001
    # An extension is a program: if this one ends early, it must not be left running.
    async with end_on_signal() as start:
        with ProgressLine.on_stderr() if not as_json else ProgressLine(None) as doing:
            doing("starting it")

            def tell(step: sc.extensions.ConformanceStep) -> None:
                doing(f"{one_line(step.name, _NAME)}: {step.outcome}")

            report = await sc.extensions.check_extension(words, on_step=tell, seconds=seconds, cwd=Path.cwd())
    if start.exit_code is not None:
        return start.exit_code
    if as_json:
        print(dump_json({**attrs.asdict(report), "counts": dict(report.counts), "good": report.good}))
    else:
        for line in report_lines(stream_style(sys.stdout), report, width=columns()):
            print(line)
    return 0 if report.good else 1


def report_lines(style: Style, report: sc.extensions.ConformanceReport, *, width: int) -> list[str]:
    """Return a report for people: a table of all steps, then the necessary changes in full, and its output."""
    painted = {"passed": style.green, "failed": style.red, "warned": style.yellow, "skipped": style.dim}
    rows = [
        (
            style.symbol(_MARKS[step.outcome]),
            one_line(step.name, _NAME),
            duration(step.milliseconds) if step.milliseconds else "",
            one_line(step.seen, _LONGEST) if step.outcome not in _TOLD_BELOW else "see below",
        )
        for step in report.steps
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or column == 2:
            return style.dim(text)
        return painted[report.steps[row].outcome](text) if column == 0 else text

    called = f"{one_line(report.name)} {one_line(report.version)}".strip()
    lines = [style.cyan(called or one_line(report.target, _LONGEST))]
    lines += table(_HEADS, rows, width, paint, style.symbol("…"))
    for outcome, head in (("failed", "To be changed:"), ("warned", "Advice:")):
        found: dict[tuple[str, str], list[str]] = {}
        for step in report.steps:
            if step.outcome == outcome:
                found.setdefault((step.seen, step.expected), []).append(one_line(step.name, _NAME))
        if found:
            lines += ["", style.bold(head)]
        for (seen, expected), names in found.items():
            mark = painted[outcome](style.symbol(_MARKS[outcome]))
            lines.append(f"{mark} {one_line(', '.join(names), _LONGEST)}: {one_line(seen, _LONGEST)}")
            lines.append(style.dim(f"  expected: {one_line(expected, _LONGEST)}"))
    if report.stderr and not report.good:
        lines += ["", "its last output on stderr:"]
        lines += [style.dim(f"  | {one_line(each, _LONGEST)}") for each in report.stderr[-_STDERR:]]
    return [*lines, "", _summary(style, report)]


def _summary(style: Style, report: sc.extensions.ConformanceReport) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items() if count)
    steps = format_count(len(report.steps), "step")
    verdict = style.green("It follows the protocol") if report.good else style.red("It does not follow the protocol")
    return f"{verdict}: {steps}, {counts}."
