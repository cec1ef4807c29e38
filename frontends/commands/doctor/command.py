"""`session-core doctor`: all checks in order, as lines for people or as JSON."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from pathlib import Path

import attrs

import session_core as sc
from frontends.commands.doctor import home_checks, setting_checks, system_checks
from frontends.commands.doctor.finding import DoctorFinding, problem, warning
from frontends.server.daemon.keys import describe_lacking_keys_at_home
from frontends.shared.figures import format_count
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import resolve_home
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.streams import StandardStreams, with_streams
from frontends.shared.style import Style

_LONGEST = 400
_MARGIN = 12
_SYMBOLS = {"ok": "✓", "warning": "●", "problem": "✗"}

_Check = Callable[[], Iterable[DoctorFinding] | Awaitable[Iterable[DoctorFinding]]]


@with_streams
async def doctor(streams: StandardStreams, chosen_home: str | None, cwd: Path, *, as_json: bool) -> int:
    """Run `doctor` and return the exit code: 1 if there is a problem."""
    findings: list[DoctorFinding] = []
    async for each in examine(chosen_home, cwd, streams):
        findings.append(each)
        if not as_json:
            await streams.say("\n".join(finding_lines(streams.out.style, each)))
    problems, warnings = (sum(each.state == state for each in findings) for state in ("problem", "warning"))
    if as_json:
        summary = {"version": sc.__version__, "problems": problems, "warnings": warnings}
        await streams.say(dump_json({**summary, "findings": [attrs.asdict(each) for each in findings]}))
    else:
        await streams.say(f"{format_count(problems, 'problem')}, {format_count(warnings, 'warning')}")
    return 1 if problems else 0


async def examine(chosen_home: str | None, cwd: Path, streams: StandardStreams) -> AsyncIterator[DoctorFinding]:
    """Run every check; one that fails itself is reported as a problem, and the others still run."""
    environ = os.environ
    home: Path | None = None
    try:
        home = resolve_home(chosen_home)
    except sc.StoreUnusable as unusable:
        yield problem("home", unusable.message, "choose another with --home or SESSION_CORE_HOME")
    checks: list[tuple[str, _Check]] = []
    if home is not None:
        checks += [
            ("home", partial(home_checks.check_home, home)),
            ("store", partial(home_checks.check_store, home)),
            ("service", partial(home_checks.check_service, home)),
            ("config", partial(setting_checks.check_config, home, cwd, environ)),
            ("models", partial(setting_checks.check_models, home, cwd, environ)),
            ("extensions", partial(setting_checks.check_extensions, home, cwd, environ)),
            ("mcp", partial(setting_checks.check_servers, home, cwd, environ)),
            ("keys", partial(_check_keys, home, cwd)),
        ]
    checks += [
        ("user", partial(system_checks.check_user, environ)),
        ("sandbox", lambda: system_checks.check_sandbox(environ, _sandbox_mode(home, cwd, environ))),
        ("terminal", partial(system_checks.check_terminal, streams, environ)),
        ("python", system_checks.check_python),
        ("telemetry", partial(system_checks.check_telemetry, environ)),
        ("git", partial(system_checks.check_git, environ)),
    ]
    for area, check in checks:
        try:
            result = check()
            found = list(await result if isawaitable(result) else result)
        except Exception as error:  # noqa: BLE001 - a failed check is a finding too
            said = error.message if isinstance(error, sc.SessionCoreError) else f"{type(error).__name__}: {error}"
            found = [problem(area, f"this could not be checked: {said}")]
        for each in found:
            yield each


async def _check_keys(home: Path, cwd: Path) -> list[DoctorFinding]:
    lacking = await describe_lacking_keys_at_home(home, cwd)
    return [warning("keys", lacking)] if lacking else []


def _sandbox_mode(home: Path | None, cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Return the sandbox of new sessions; None if the configuration is unreadable, which another check reports."""
    if home is None:
        return None
    with suppress(sc.SessionCoreError):
        return load_folder_config(home, cwd, environ).sandbox.mode
    return None


def finding_lines(style: Style, finding: DoctorFinding) -> list[str]:
    """Return a finding as a line, with what to do below it."""
    paint = {"ok": style.green, "warning": style.yellow, "problem": style.red}[finding.state]
    mark = paint(style.symbol(_SYMBOLS[finding.state]))
    state = "" if finding.state == "ok" else f"{finding.state}: "
    lines = [f"{mark} {finding.area:<{_MARGIN}}{paint(state)}{one_line(finding.what, _LONGEST)}"]
    if finding.hint:
        lines.append(style.dim(f"  {'':<{_MARGIN}}{one_line(finding.hint, _LONGEST)}"))
    return lines
