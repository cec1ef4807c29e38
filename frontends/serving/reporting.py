"""`session-core status`: whether a service runs, and what it does."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import time_ns

import attrs
import trio

import session_core as sc
from frontends.console.figures import ago, clock_time, place
from frontends.console.sanitise import one_line
from frontends.console.streams import Streams
from frontends.console.style import Style, duration
from frontends.serving.finding import find
from frontends.serving.places import about_others, other_holder, other_release
from frontends.serving.talking import Ending, open_talk
from frontends.stored.home import to_type
from frontends.stored.listing import state_word
from frontends.stored.which import short_ids

EXIT_NOT_RUNNING = 3
_MARGIN = 10
_NAME_CHARS = 60
_MOST = 20


@attrs.frozen(kw_only=True)
class Report:
    """What a service says about itself; `clients` are the others, not the one that asks."""

    status: sc.ServiceStatus
    sessions: tuple[sc.SessionSummary, ...]
    clients: tuple[sc.ClientPresence, ...]

    @property
    def at_work(self) -> list[sc.SessionSummary]:
        """The sessions that do something, or wait for somebody."""
        return [each for each in self.sessions if not each.activity.at_rest]


def status(home: Path, *, as_json: bool) -> int:
    """Run `status` and return the exit code: 3 if no service runs."""
    return trio.run(_status, home, as_json, Streams.standard())


async def _status(home: Path, as_json: bool, streams: Streams) -> int:  # noqa: FBT001
    report = await ask(home)
    if report is None:
        holder = await trio.to_thread.run_sync(other_holder, home)
        if as_json:
            await streams.say(json.dumps({"serving": False, "home": str(home), "holder": _plain_holder(holder)}))
        else:
            for line in nothing_lines(home, holder):
                await streams.say(line)
        return EXIT_NOT_RUNNING
    if as_json:
        await streams.say(json.dumps(plain(report, now=time_ns() // 1_000_000)))
    else:
        for line in report_lines(streams.out.style, report, now=time_ns() // 1_000_000):
            await streams.say(line)
    return 0


async def ask(home: Path) -> Report | None:
    """Ask the service of a home about itself; None if there is none."""
    while await find(home) is not None:
        try:
            async with open_talk(home, role="observer", name="status") as talk:
                told = await talk.status()
                fleet = await talk.load_service()
                ours = talk.welcome.client_id
        except (ConnectionRefusedError, Ending):
            continue  # it has ended just now
        except sc.ProtocolError as error:
            raise other_release(home, error) from error
        others = tuple(each for each in fleet.clients if each.client_id != ours)
        told = attrs.evolve(told, clients=len(others))  # without the one that asks, as in the list
        return Report(status=told, sessions=fleet.sessions, clients=others)
    return None


def nothing_lines(home: Path, holder: sc.Holder | None) -> list[str]:
    """Say that no service runs, who uses the home instead, and how to start one."""
    lines = [f"No service runs for {place(str(home))}."]
    if holder is not None:
        lines.append(f"The home is in use by {holder}, which is no service that others could attach to.")
    else:
        lines.append(f"To start one: {to_type(home, 'serve', '')}")
    return lines


def report_lines(style: Style, report: Report, *, now: int) -> list[str]:
    """Return a report for people."""
    told = report.status
    head = f"A service runs for {place(told.home)}: process {told.pid}, version {one_line(told.version)}"
    if told.version != sc.__version__:
        head += style.yellow(f" (this program is {sc.__version__})")
    rows: list[tuple[str, Sequence[str]]] = [
        ("since", [f"{clock_time(told.started_at, now)} ({ago(told.started_at, now)})"]),
        ("address", [] if told.address is None else [one_line(told.address)]),
        ("", [] if told.open_to_others is None else [style.yellow(one_line(about_others(told.open_to_others), 200))]),
        ("sessions", [f"{told.sessions:,}, {told.running:,} at work"]),
        ("at work", _some([_session(style, each, report) for each in report.at_work])),
        ("clients", _some([_client(each) for each in report.clients]) or ["none"]),
        ("ends", [_end(report, now)]),
        ("read-only", [] if told.read_only is None else [style.red(one_line(told.read_only, 400))]),
    ]
    lines = [f"{style.green(style.symbol('●'))} {head}"]
    for name, texts in rows:
        for number, text in enumerate(texts):
            lines.append(f"  {style.dim(('' if number else name).ljust(_MARGIN))}{text}")
    return lines


def _some(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST
    return lines if left <= 0 else [*lines[:_MOST], f"and {left} more"]


def _session(style: Style, summary: sc.SessionSummary, report: Report) -> str:
    short = short_ids(report.sessions)[summary.session_id]
    return f'{style.cyan(short)} "{one_line(summary.name, _NAME_CHARS)}" {style.green(state_word(summary))}'


def _client(client: sc.ClientPresence) -> str:
    name = one_line(client.name, _NAME_CHARS) or one_line(client.client_id, _NAME_CHARS)
    return f"{name} ({client.kind}, {client.role})"


def _end(report: Report, now: int) -> str:
    """Say when it ends; whoever asks is connected, and so puts the end off."""
    told = report.status
    if told.idle_ms is None:
        return "when it is told to"
    ends_at = _ends_at(report, now)
    if ends_at is None:
        return f"by itself, after {duration(told.idle_ms)} with nobody and nothing to do"
    return f"by itself at {clock_time(ends_at, now)}, if nothing happens until then"


def _ends_at(report: Report, now: int) -> int | None:
    told = report.status
    return None if told.idle_ms is None or told.running or report.clients else now + told.idle_ms


def plain(report: Report, *, now: int) -> dict[str, object]:
    """Return a report for programs."""
    return {
        "serving": True,
        "status": sc.to_json(attrs.evolve(report.status, ends_at=_ends_at(report, now))),
        "at_work": [sc.to_json(each) for each in report.at_work],
        "clients": [sc.to_json(each) for each in report.clients],
    }


def _plain_holder(holder: sc.Holder | None) -> dict[str, object] | None:
    return None if holder is None else attrs.asdict(holder)
