"""The metrics of a server in the text format of Prometheus."""

import os
import resource
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import attrs

import session_core as sc
from frontends.server.server import Server

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


@attrs.define(eq=False)
class Counts:
    """The counts of the listener itself."""

    requests: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    streams: int = 0
    websockets: int = 0


@attrs.frozen
class _Metric:
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    values: Mapping[Labels, float]


def metrics_text(server: Server, counts: Counts, *, connections: int, turned_away: int) -> str:
    """Return all current metrics."""
    stats = server.service.statistics()
    mailbox, stream = stats.mailbox, stats.stream
    metrics = [
        _gauge("info", "The version of this program.", 1, version=sc.__version__),
        _gauge("started_seconds", "When the server started.", server.started_at / 1000),
        _gauge("sessions", "Stored sessions.", stats.sessions),
        _gauge("sessions_in_memory", "Sessions in memory.", stats.in_memory),
        _gauge("sessions_running", "Sessions at work.", stats.running),
        _gauge("clients", "Attached clients.", stats.clients),
        _gauge("read_only", "Whether the service is read-only because of a failure.", stats.read_only is not None),
        _gauge("mailbox_waiting", "Commands waiting in the mailbox.", mailbox.waiting),
        _count("mailbox_performed_total", "Commands that were run.", mailbox.performed),
        _count("mailbox_refused_total", "Commands refused because the mailbox was full.", mailbox.refused),
        _count("events_published_total", "Events that were published.", stream.published),
        _count("feeds_lagged_total", "Times that a reader fell behind and needed a new snapshot.", stream.lagged),
        _gauge("feeds", "Readers of events.", stream.subscribers),
        _gauge("events_kept", "Events that are kept for readers.", stream.held_events),
        _gauge("connections", "Connections of clients, over all listeners.", server.connections),
        _gauge("http_connections", "Connections to the HTTP listener.", connections),
        _count("http_connections_refused_total", "Connections refused because there were too many.", turned_away),
        _gauge("http_streams", "Feeds by server-sent events.", counts.streams),
        _gauge("websockets", "WebSockets.", counts.websockets),
        _Metric(
            "session_core_http_requests_total",
            "counter",
            "Requests by route and status.",
            {
                (("route", route), ("status", str(status))): number
                for (route, status), number in sorted(counts.requests.items())
            },
        ),
        *_process(),
    ]
    return "".join(_format_metrics(metrics))


def _process() -> Iterable[_Metric]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield _Metric("process_cpu_seconds_total", "counter", "CPU time used.", {(): usage.ru_utime + usage.ru_stime})
    yield _Metric("process_resident_memory_bytes", "gauge", "Memory in use.", {(): _resident_bytes(usage)})


def _resident_bytes(usage: resource.struct_rusage) -> int:
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return usage.ru_maxrss * 1024  # the peak, on systems that report nothing else
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _gauge(name: str, help: str, value: float, **labels: str) -> _Metric:
    return _Metric(f"session_core_{name}", "gauge", help, {tuple(labels.items()): value})


def _count(name: str, help: str, value: float) -> _Metric:
    return _Metric(f"session_core_{name}", "counter", help, {(): value})


def _format_metrics(metrics: Iterable[_Metric]) -> Iterable[str]:
    for metric in metrics:
        name = metric.name
        yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
        for labels, value in metric.values.items():
            label_text = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
            yield f"{name}{{{label_text}}} {_number(value)}\n" if label_text else f"{name} {_number(value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
