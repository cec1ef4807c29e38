"""Send spans with the OpenTelemetry SDK, from the SDK's own thread."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import inf
from typing import Final

import trio
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

import session_core as sc
from frontends.server.telemetry.spans import SpanEnded, SpanLost, SpanStarted, SpanStep, SpanTracker

log = logging.getLogger(__name__)

LOG_EVERY_S: Final = 60.0
"""How often the log says that spans cannot be sent."""
CLOSING_S: Final = 1.0
"""How long the end of a service waits for the last spans to be sent."""
_NANOS: Final = 1_000_000
_AT_A_TIME: Final = 256
"""Events to handle before other tasks get to run."""


class FailureLoggingExporter(SpanExporter):
    """Passes spans to another exporter; counts its failures, and logs them at intervals.

    Attributes:
        failed: Spans that could not be sent.
    """

    def __init__(self, inner: SpanExporter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.failed = 0
        self._inner = inner
        self._clock = clock
        self._log_at = clock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, or count them as failed."""
        try:
            result = self._inner.export(spans)
        except Exception:  # noqa: BLE001 - an unreachable collector or a bug of the exporter: neither may harm the service
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self.failed += len(spans)
            if self._clock() >= self._log_at:
                self._log_at = self._clock() + LOG_EVERY_S
                log.warning("%d telemetry spans could not be sent so far; is the collector running?", self.failed)
        return result

    def shutdown(self) -> None:
        """Shut down the inner exporter."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        return self._inner.force_flush(timeout_millis)


class SpanSink:
    """Makes spans of the SDK from steps; lost spans are never sent."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("session-core", sc.__version__)
        self._spans: dict[str, Span] = {}

    def take(self, step: SpanStep) -> None:
        """Take a step; never waits."""
        match step:
            case SpanStarted():
                parent = self._spans.get(step.parent) if step.parent is not None else None
                self._spans[step.key] = self._tracer.start_span(
                    step.name,
                    # Never the current span of this program: sessions have their own traces.
                    context=Context() if parent is None else set_span_in_context(parent, Context()),
                    kind=SpanKind.CLIENT if step.kind == "model" else SpanKind.INTERNAL,
                    attributes=dict(step.attributes),
                    start_time=step.time_ms * _NANOS,
                )
            case SpanEnded():
                if (span := self._spans.pop(step.key, None)) is not None:
                    span.set_attributes(dict(step.attributes))
                    if step.error is not None:
                        span.set_attribute("error.type", step.error)
                        span.set_status(Status(StatusCode.ERROR, step.error))
                    span.end(end_time=step.time_ms * _NANOS)
            case SpanLost():
                self._spans.pop(step.key, None)


class _TelemetryPipeline:
    """Turns the events of all sessions into spans and sends them, from start to end; it ends once."""

    def __init__(
        self,
        service: sc.SessionService,
        events: sc.Subscription,
        provider: TracerProvider,
        logging_exporter: FailureLoggingExporter,
        *,
        now: Callable[[], int],
    ) -> None:
        self.tracker = SpanTracker()
        self._service, self._events = service, events
        self._now = now
        self._provider, self._exporter = provider, logging_exporter
        self._sink = SpanSink(provider)
        self._reading = trio.CancelScope()
        self._read = trio.Event()
        self._ending = trio.Lock()
        self._ended = False

    async def follow(self) -> None:
        """Follow the service until the end."""
        try:
            with self._reading:
                await _guarded(self._read_events)
        finally:
            self._read.set()

    async def _read_events(self, *, up_to: float = inf) -> None:
        """Read events until the stream ends, or those published up to a number; missed events are counted.

        Cancellation: received events are handled, and the next call continues from there.
        """
        while self._events.cursor.seq < up_to:
            try:
                batch = await self._events.receive_batch()
            except sc.Lagged as lag:
                for step in self.tracker.drop_open_spans(lag.missed):
                    self._sink.take(step)
                continue
            except (trio.EndOfChannel, sc.ServiceClosed):
                return
            for number, event in enumerate(batch, 1):
                for step in self.tracker.feed(event):
                    self._sink.take(step)
                if number % _AT_A_TIME == 0:
                    await trio.lowlevel.cancel_shielded_checkpoint()

    async def end_after(self, ending: trio.Event) -> None:
        """End as soon as the service begins to end, so both end concurrently."""
        await ending.wait()
        await self.end()

    async def end(self) -> None:
        """End all open spans, and wait briefly until everything is sent."""
        with trio.move_on_after(2 * CLOSING_S, shield=True):
            async with self._ending:
                if not self._ended:
                    self._ended = True
                    await self._end()

    async def _end(self) -> None:
        self._reading.cancel(reason="the service ends")
        deadline = trio.current_time() + CLOSING_S
        with trio.move_on_at(deadline):
            await self._read.wait()
            await _guarded(partial(self._read_events, up_to=self._service.statistics().stream.published))
        for step in self.tracker.close(self._now()):
            self._sink.take(step)
        with trio.move_on_at(deadline) as time_limit:
            await trio.to_thread.run_sync(self._provider.shutdown, abandon_on_cancel=True)
        if time_limit.cancelled_caught:
            log.warning("telemetry: the last spans could not be sent in time")
        if self.tracker.lost_spans or self._exporter.failed:
            lost, failed = self.tracker.lost_spans, self._exporter.failed
            log.warning("telemetry: %d spans were lost, %d could not be sent", lost, failed)


@asynccontextmanager
async def open_telemetry(
    service: sc.SessionService,
    *,
    exporter: SpanExporter | None = None,
    now: Callable[[], int] = sc.now_ms,
    ending: trio.Event | None = None,
) -> AsyncGenerator[SpanTracker]:
    """Send spans of all sessions for the length of the block; at its end, open spans count as interrupted.

    Args:
        service: The service.
        exporter: Where spans go; by default to the collector that the standard variables name, or to this machine.
        now: The wall clock in milliseconds.
        ending: Set shortly before the end of the block; then the last spans are already sent.

    Raises:
        InvalidInput: The SDK refuses the values of the variables.
    """
    with _silence_sdk_logging():
        async with service.subscribe() as events:
            provider, logging_exporter = await trio.to_thread.run_sync(_build_provider, exporter)
            sending = _TelemetryPipeline(service, events, provider, logging_exporter, now=now)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sending.follow)
                if ending is not None:
                    nursery.start_soon(sending.end_after, ending)
                try:
                    yield sending.tracker
                finally:
                    await sending.end()  # noqa: ASYNC102 - it shields itself, for a moment
                    nursery.cancel_scope.cancel(reason="everything is sent")


def _build_provider(exporter: SpanExporter | None) -> tuple[TracerProvider, FailureLoggingExporter]:
    try:
        logging_exporter = FailureLoggingExporter(exporter or OTLPSpanExporter())
        resource = Resource.create({"service.version": sc.__version__}).merge(_build_service_resource())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(logging_exporter))
    except Exception as problem:  # its message is not shown, because it may quote a key
        kind = type(problem).__name__
        raise sc.InvalidInput(
            f"telemetry cannot be started with the OTEL_ variables of this environment ({kind})", field="telemetry"
        ) from problem
    return provider, logging_exporter


def _build_service_resource() -> Resource:
    """Return the name of the program, unless a variable gives another."""
    stated = str(Resource.create().attributes.get("service.name", ""))
    return Resource({"service.name": "session-core"} if stated.startswith("unknown_service") else {})


async def _guarded(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:  # a bug here, or in the SDK, must not end the service
        log.exception("telemetry has failed; the service continues without it")


@contextmanager
def _silence_sdk_logging() -> Generator[None]:
    """Stop the SDK from logging every failure, and headers with keys; we log what matters."""
    theirs = logging.getLogger("opentelemetry")
    before = theirs.level
    theirs.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        theirs.setLevel(before)
