"""Spans of a real service, by the SDK of OpenTelemetry: into memory, and to a collector on this machine."""

import gzip
import logging
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
import trio
import trio.testing

pytest.importorskip("opentelemetry.sdk.trace", reason="the extra `telemetry` is not installed")

from collections.abc import Generator, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

import session_core as sc
from frontends.server.telemetry import exporter
from frontends.server.telemetry.exporter import FailureLoggingExporter, open_telemetry
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from tests.session_core.service._helpers import new_session, say, scripted, until

SECRET = "whatever is said"


@pytest.fixture(autouse=True)
def the_end_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine needs more than a second to send the last spans."""
    monkeypatch.setattr(exporter, "CLOSING_S", 60.0)


def context_of(span: ReadableSpan) -> SpanContext:
    """The ids of a span."""
    context = span.get_span_context()
    assert context is not None
    return context


async def test_a_turn_becomes_a_trace() -> None:
    """A turn with a tool call is one trace: two model calls and the tool call are children of the turn."""
    exporter = InMemorySpanExporter()
    config = scripted(ScriptedProvider(tool_call("look"), text(SECRET)), tools=(ScriptedTool("look"),))
    async with open_checked_service(config) as service:
        async with open_telemetry(service, exporter=exporter):
            session_id = await new_session(service)
            await say(service, session_id, SECRET)
        spans = exporter.get_finished_spans()
    (first,) = [span for span in spans if span.name == "turn"]
    family = [span for span in spans if span.parent is not None and span.parent.span_id == context_of(first).span_id]
    assert ["chat m", "chat m", "execute_tool look"] == sorted(span.name for span in family)
    assert {context_of(first).trace_id} == {context_of(span).trace_id for span in family}
    assert session_id == (first.attributes or {})["gen_ai.conversation.id"]
    assert "completed" == (first.attributes or {})["session_core.turn.status"]
    assert not any(SECRET in span.to_json() for span in spans)
    assert "session-core" == first.resource.attributes["service.name"]


async def test_what_runs_at_the_end_is_told_as_interrupted() -> None:
    """A turn that runs when telemetry is closed ends there, as interrupted."""
    exporter = InMemorySpanExporter()
    async with open_checked_service(scripted(ScriptedProvider((Pause("never"),)))) as service:
        async with open_telemetry(service, exporter=exporter):
            session_id = await new_session(service)
            await service.send_user_message(session_id, "hello")
            async with service.follow(session_id) as feed:
                async for item in feed:
                    if "waiting_for_model" in repr(item):
                        break
        assert {"interrupted"} == {str((span.attributes or {})["error.type"]) for span in exporter.get_finished_spans()}
        await service.request_stop(session_id)


async def test_the_last_spans_are_sent_while_others_say_goodbye() -> None:
    """As soon as the end begins whatever there is has been sent, once, though the block goes on."""
    exporter, ending = InMemorySpanExporter(), trio.Event()
    async with open_checked_service(scripted(text("hello"))) as service:
        async with open_telemetry(service, exporter=exporter, ending=ending):
            await say(service, await new_session(service), "hello")
            ending.set()
            await until(lambda: len(exporter.get_finished_spans()) == 2)
        assert ["chat m", "turn"] == sorted(span.name for span in exporter.get_finished_spans())


@pytest.mark.parametrize("early", [False, True])
async def test_an_end_that_hangs_keeps_nobody(
    *, early: bool, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever goes wrong while the last spans are sent, the service ends after a moment."""

    async def hang(_: object) -> None:
        await trio.sleep(3_600)

    monkeypatch.setattr(exporter._TelemetryPipeline, "_end", hang)
    ending = trio.Event()
    async with open_checked_service(scripted(text("hello"))) as service:
        async with open_telemetry(service, exporter=InMemorySpanExporter(), ending=ending):
            if early:
                ending.set()
                await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
        assert 2 * exporter.CLOSING_S == pytest.approx(trio.current_time() - began)


class Broken(SpanExporter):
    """Refuses, and raises every other time."""

    def __init__(self) -> None:
        self.calls = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls += 1
        if self.calls % 2:
            raise OSError("nobody there")
        return SpanExportResult.FAILURE


def test_a_collector_that_is_away_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are counted and told once a minute, and never raised."""
    now = 100.0
    patient = FailureLoggingExporter(Broken(), clock=lambda: now)
    span = ReadableSpan("one")
    with caplog.at_level(logging.WARNING, logger="frontends"):
        results = [patient.export([span]) for _ in range(3)]
        assert 1 == len(caplog.records)
        now += 61
        results.append(patient.export([span, span]))
    assert ([SpanExportResult.FAILURE] * 4, 5, 2) == (results, patient.failed, len(caplog.records))
    assert "5 telemetry spans" in caplog.records[-1].getMessage()


class Collector(BaseHTTPRequestHandler):
    """Takes spans as a collector does."""

    bodies: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.bodies.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Generator[list[tuple[str, bytes]]]:
    """A collector on this machine, which the standard variable names."""
    monkeypatch.setattr(Collector, "bodies", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        try:
            yield Collector.bodies
        finally:
            server.shutdown()
            thread.join()


async def test_a_collector_gets_the_spans(collector: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP a collector gets every span before the service has ended, under the name that a variable gives."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the house agent")
    async with open_checked_service(scripted(text("hello"))) as service, open_telemetry(service):
        await say(service, await new_session(service), "hello")
    assert {"/v1/traces"} == {path for path, _ in collector}
    request = ExportTraceServiceRequest()
    for _, body in collector:
        request.MergeFromString(body)
    names = [span.name for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    assert ["chat m", "turn"] == sorted(names)
    assert "interrupted" not in str(request)
    assert "the house agent" in str(request.resource_spans[0].resource)


async def test_who_lags_misses_events_and_goes_on() -> None:
    """A service that publishes more than is kept costs events, which are counted, and later turns are told."""
    exporter = InMemorySpanExporter()
    async with open_checked_service(scripted(text("hello"), stream_capacity=64)) as service:
        async with open_telemetry(service, exporter=exporter) as maker:
            session_id = await new_session(service)
            for number in range(200):  # in one step, so that nobody can read in between
                service.core.session(session_id).record(sc.events.SessionRenamed(name=f"n{number}"))
            await say(service, session_id, "hello")
        assert maker.missed_events > 0
        assert ["chat m", "turn"] == sorted(span.name for span in exporter.get_finished_spans())
