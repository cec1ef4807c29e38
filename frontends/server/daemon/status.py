"""`session-core status`: whether a service runs, and what it is doing."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.server.daemon.attached_client import talk_if_running
from frontends.server.daemon.runtime_paths import find_holder, format_open_to_others
from frontends.shared.activity_words import state_word
from frontends.shared.figures import clock_time, duration, format_ago, format_path
from frontends.shared.home import format_command
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.session_lookup import short_ids
from frontends.shared.streams import StandardStreams, with_streams
from frontends.shared.style import Style

EXIT_NOT_RUNNING = 3
_MARGIN = 10
_NAME_CHARS = 60
_MOST = 20


@attrs.frozen(kw_only=True)
class ServiceReport:
    """A service's report about itself; `clients` excludes the one that asks."""

    status: sc.wire.ServiceStatus
    sessions: tuple[sc.SessionSummary, ...]
    clients: tuple[sc.ClientPresence, ...]

    @property
    def at_work(self) -> list[sc.SessionSummary]:
        """The sessions that are working, or waiting for a person."""
        return [each for each in self.sessions if not each.activity.is_at_rest]


@with_streams
async def status(streams: StandardStreams, home: Path, *, as_json: bool) -> int:
    """Run `status` and return the exit code: 3 if no service runs."""
    report = await request_report(home)
    if report is None:
        holder = await trio.to_thread.run_sync(find_holder, home)
        if as_json:
            plain_holder = None if holder is None else attrs.asdict(holder)
            await streams.say(dump_json({"serving": False, "home": str(home), "holder": plain_holder}))
        else:
            for line in nothing_lines(home, holder):
                await streams.say(line)
        return EXIT_NOT_RUNNING
    if as_json:
        await streams.say(dump_json(report_as_json(report, now=sc.now_ms())))
    else:
        for line in report_lines(streams.out.style, report, now=sc.now_ms()):
            await streams.say(line)
    return 0


async def request_report(home: Path) -> ServiceReport | None:
    """Ask the service of a home about itself; None if there is none."""
    async with talk_if_running(home, role="observer", name="status") as talk:
        if talk is None:
            return None
        service_status, session_list = await talk.status(), await talk.load_service()
        sessions = await talk.load_sessions(session_list)
        others = tuple(each for each in session_list.clients if each.client_id != talk.client_id)
    service_status = attrs.evolve(service_status, clients=len(others))  # without the one that asks, as in the list
    return ServiceReport(status=service_status, sessions=tuple(sessions), clients=others)


def nothing_lines(home: Path, holder: sc.setup.LockHolder | None) -> list[str]:
    """Describe that no service runs, which process uses the home instead, and how to start one."""
    lines = [f"No service runs for {format_path(str(home))}."]
    if holder is not None:
        lines.append(f"The home is in use by {holder}, which is not a service that clients can attach to.")
    else:
        lines.append(f"To start one: {format_command(home, 'serve', '')}")
    return lines


def report_lines(style: Style, report: ServiceReport, *, now: int) -> list[str]:
    """Return a report for people."""
    service_status = report.status
    version = one_line(service_status.version)
    head = f"A service runs for {format_path(service_status.home)}: process {service_status.pid}, version {version}"
    if service_status.version != sc.__version__:
        head += style.yellow(f" (this program is {sc.__version__})")
    rows: list[tuple[str, Sequence[str]]] = [
        ("since", [f"{clock_time(service_status.started_at, now)} ({format_ago(service_status.started_at, now)})"]),
        ("address", [] if service_status.address is None else [one_line(service_status.address)]),
        (
            "",
            []
            if service_status.open_to_others is None
            else [style.yellow(one_line(format_open_to_others(service_status.open_to_others), 200))],
        ),
        ("sessions", [f"{service_status.sessions:,}, {service_status.running:,} at work"]),
        ("at work", _limit_lines([_format_session(style, each, report) for each in report.at_work])),
        ("clients", _limit_lines([_format_client(each) for each in report.clients]) or ["none"]),
        ("ends", [_format_end(report, now)]),
        ("read-only", [] if service_status.read_only is None else [style.red(one_line(service_status.read_only, 400))]),
    ]
    lines = [f"{style.green(style.symbol('●'))} {head}"]
    for name, texts in rows:
        for number, text in enumerate(texts):
            lines.append(f"  {style.dim(('' if number else name).ljust(_MARGIN))}{text}")
    return lines


def _limit_lines(lines: list[str]) -> list[str]:
    remaining = len(lines) - _MOST
    return lines if remaining <= 0 else [*lines[:_MOST], f"and {remaining} more"]


def _format_session(style: Style, summary: sc.SessionSummary, report: ServiceReport) -> str:
    short = short_ids(report.sessions)[summary.session_id]
    return f'{style.cyan(short)} "{one_line(summary.name, _NAME_CHARS)}" {style.green(state_word(summary))}'


def _format_client(client: sc.ClientPresence) -> str:
    name = one_line(client.name, _NAME_CHARS) or one_line(client.client_id, _NAME_CHARS)
    return f"{name} ({client.kind}, {client.role})"


def _format_end(report: ServiceReport, now: int) -> str:
    """Describe when the service ends; the asking client is connected, which postpones the end."""
    service_status = report.status
    if service_status.idle_ms is None:
        return "only on request"
    ends_at = _ends_at(report, now)
    if ends_at is None:
        return f"after {duration(service_status.idle_ms)} without clients or work"
    return f"at {clock_time(ends_at, now)}, unless something happens before then"


def _ends_at(report: ServiceReport, now: int) -> int | None:
    service_status = report.status
    return (
        None
        if service_status.idle_ms is None or service_status.running or report.clients
        else now + service_status.idle_ms
    )


def report_as_json(report: ServiceReport, *, now: int) -> dict[str, object]:
    """Return a report for programs."""
    return {
        "serving": True,
        "status": sc.wire.to_json(attrs.evolve(report.status, ends_at=_ends_at(report, now))),
        "at_work": [sc.wire.to_json(each) for each in report.at_work],
        "clients": [sc.wire.to_json(each) for each in report.clients],
    }
