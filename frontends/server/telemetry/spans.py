"""From events to spans: turns, the model calls in them, and the tool calls.

Rules:
1. This module chooses the attributes field by field: names of models and tools, ids, counts and states from closed
   lists. They include no text that a person, a model or a tool has written.
2. A span that has begun ends once, or is lost. Spans are lost if they were open when events were missed, because they
   may have ended since.
3. The number of open spans is limited; spans beyond the limit are lost.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

import session_core as sc

MAX_OPEN: Final = 10_000
"""The most open spans; each turn has a handful."""
_MAX_NAME_CHARS: Final = 100
_FINE: Final = frozenset({"completed", "success", "stopped"})
_FAILURES: Final = frozenset(
    {"rate_limited", "overloaded", "auth", "context_too_long", "network", "malformed", "refused", "internal"}
)
"""The known reasons for a withdrawn answer; other texts are not sent."""
_OPERATIONS: Final = {"model": ("chat", "gen_ai.request.model"), "tool": ("execute_tool", "gen_ai.tool.name")}
"""The operation of a part of a turn, and the attribute that holds the name of its model or tool."""

Kind = Literal["turn", "model", "tool"]
Attribute = str | int
Attributes = Mapping[str, Attribute]

_e = sc.events


@attrs.frozen(kw_only=True)
class SpanStarted:
    """A span began; `parent` is the key of the span that contains it."""

    key: str
    kind: Kind
    name: str
    time_ms: int
    attributes: Attributes
    parent: str | None = None


@attrs.frozen(kw_only=True)
class SpanEnded:
    """A span ended; `error` names the kind of failure, if it failed."""

    key: str
    time_ms: int
    attributes: Attributes = attrs.field(factory=dict)
    error: str | None = None


@attrs.frozen(kw_only=True)
class SpanLost:
    """A span was lost: its end is unknown."""

    key: str


SpanStep = SpanStarted | SpanEnded | SpanLost


@attrs.define
class _SessionSpans:
    """The open spans of a session."""

    turn: str | None = None
    answer: str | None = None
    parts: set[str] = attrs.field(factory=set)
    """The keys of model calls and tool calls."""


class SpanTracker:
    """Turns events into span steps; feed it every event in order, and report missed events."""

    def __init__(self, *, most: int = MAX_OPEN) -> None:
        self.missed_events = 0
        """Missed events."""
        self.lost_spans = 0
        """Lost spans, including those that never began."""
        self._most = most
        self._open: set[str] = set()
        self._sessions: dict[sc.SessionId, _SessionSpans] = {}
        self._subagents: dict[sc.SessionId, str] = {}

    def feed(self, session_event: sc.SessionEvent) -> Iterator[SpanStep]:
        """Yield the span steps of an event; most events have none."""
        session_id, event, time_ms = session_event.session_id, session_event.event, session_event.at
        if session_id is None:
            return
        match event:
            case _e.TurnStarted():
                yield from self._start_turn_span(session_id, event, time_ms)
            case _e.MessageStarted():
                key = f"model {event.message_id}"
                yield from self._start_part(session_id, "model", key, event.model, time_ms)
            case _e.MessageCompleted(message=message):
                yield from self._end_part(
                    session_id, f"model {message.message_id}", time_ms, *_answer_attributes(message)
                )
            case _e.MessageDiscarded(message_id=message_id, reason=reason):
                error = reason if reason in _FAILURES else "discarded"
                yield from self._end_part(session_id, f"model {message_id}", time_ms, {}, error)
            case _e.ModelCallFailed(kind=kind):
                session = self._sessions.get(session_id)
                if session is not None and session.answer is not None:
                    error = kind if kind in _FAILURES else "failed"
                    yield from self._end_part(session_id, session.answer, time_ms, {}, error)
            case _e.ToolCallStarted():
                key = _call_key(session_id, event.call_id)
                yield from self._start_part(session_id, "tool", key, event.name, time_ms)
            case _e.TaskStarted(call_id=call_id, child_id=child_id):
                self._subagents[child_id] = _call_key(session_id, call_id)
                if len(self._subagents) > self._most:
                    del self._subagents[next(iter(self._subagents))]
            case _e.ToolCallFinished(result=result):
                status = {"session_core.tool.status": result.status}
                why = None if result.status in _FINE else result.status
                yield from self._end_part(session_id, _call_key(session_id, result.call_id), time_ms, status, why)
            case _e.TurnEnded(outcome=outcome):
                yield from self._end_turn_span(session_id, outcome, time_ms)
            case _e.SessionDeleted():
                yield from self._interrupt_session(session_id, time_ms)
                self._subagents.pop(session_id, None)
            case _:
                pass

    def drop_open_spans(self, events: int) -> Iterator[SpanStep]:
        """Report missed events: all open spans are lost."""
        self.missed_events += events
        self.lost_spans += len(self._open)
        keys = sorted(self._open)
        self._open.clear()
        self._sessions.clear()
        self._subagents.clear()
        for key in keys:
            yield SpanLost(key=key)

    def close(self, time_ms: int) -> Iterator[SpanStep]:
        """End all open spans as interrupted: the service ends."""
        for session_id in tuple(self._sessions):
            yield from self._interrupt_session(session_id, time_ms)

    # --- turns --------------------------------------------------------------------------------------------------------

    def _start_turn_span(
        self, session_id: sc.SessionId, event: "sc.events.TurnStarted", time_ms: int
    ) -> Iterator[SpanStep]:
        yield from self._interrupt_session(session_id, time_ms)  # an unfinished turn belongs to an earlier run
        session = self._sessions.setdefault(session_id, _SessionSpans())
        step = SpanStarted(
            key=f"turn {event.turn_id}",
            kind="turn",
            name="turn",
            time_ms=time_ms,
            attributes=_span_attributes(session_id, "invoke_agent"),
            parent=self._known(self._subagents.get(session_id)),
        )
        if self._begin(step):
            session.turn = step.key
            yield step

    def _end_turn_span(self, session_id: sc.SessionId, outcome: sc.TurnOutcome, time_ms: int) -> Iterator[SpanStep]:
        session = self._sessions.pop(session_id, None)
        self._subagents.pop(session_id, None)
        if session is None:
            return
        error = None if outcome.status in _FINE else outcome.status
        for key in sorted(session.parts):
            yield from self._end_span(key, time_ms, {}, error or "interrupted")
        attributes: dict[str, Attribute] = {
            "session_core.turn.status": outcome.status,
            "session_core.turn.steps": outcome.steps,
            "session_core.turn.tool_calls": outcome.tool_calls,
            **_tokens(outcome.usage),
        }
        if session.turn is not None:
            yield from self._end_span(session.turn, time_ms, attributes, error)

    def _interrupt_session(self, session_id: sc.SessionId, time_ms: int) -> Iterator[SpanStep]:
        session = self._sessions.pop(session_id, None)
        for key in (*sorted(session.parts), session.turn) if session is not None else ():
            if key is not None:
                yield from self._end_span(key, time_ms, {}, "interrupted")

    # --- parts of turns -----------------------------------------------------------------------------------------------

    def _start_part(
        self, session_id: sc.SessionId, kind: Literal["model", "tool"], key: str, name: str, time_ms: int
    ) -> Iterator[SpanStep]:
        session = self._sessions.setdefault(session_id, _SessionSpans())
        operation, attribute = _OPERATIONS[kind]
        name = _name(name)
        step = SpanStarted(
            key=key,
            kind=kind,
            name=f"{operation} {name}",
            time_ms=time_ms,
            attributes={**_span_attributes(session_id, operation), attribute: name},
            parent=self._known(session.turn),
        )
        if self._begin(step):
            session.parts.add(key)
            if kind == "model":
                session.answer = key
            yield step

    def _end_part(
        self, session_id: sc.SessionId, key: str, time_ms: int, attributes: Attributes, error: str | None
    ) -> Iterator[SpanStep]:
        session = self._sessions.get(session_id)
        if session is not None:
            session.parts.discard(key)
            if session.answer == key:
                session.answer = None
        yield from self._end_span(key, time_ms, attributes, error)

    # --- open spans ---------------------------------------------------------------------------------------------------

    def _begin(self, step: SpanStarted) -> bool:
        """Record a new open span; return False if there are too many."""
        fits = step.key not in self._open and len(self._open) < self._most
        if fits:
            self._open.add(step.key)
        else:
            self.lost_spans += 1
        return fits

    def _known(self, key: str | None) -> str | None:
        return key if key in self._open else None

    def _end_span(self, key: str, time_ms: int, attributes: Attributes, error: str | None) -> Iterator[SpanStep]:
        if key in self._open:
            self._open.remove(key)
            yield SpanEnded(key=key, time_ms=time_ms, attributes=attributes, error=error)


def _call_key(session_id: sc.SessionId, call_id: sc.CallId) -> str:
    return f"tool {session_id} {call_id}"  # models choose call ids, so two sessions may have the same one


def _span_attributes(session_id: sc.SessionId, operation: str) -> dict[str, Attribute]:
    return {"gen_ai.conversation.id": session_id, "gen_ai.operation.name": operation}


def _name(name: str) -> str:
    """Return a name that is safe to send; a model may use any text as a tool name."""
    short = name[:_MAX_NAME_CHARS]
    return short if short.isprintable() and not any(letter.isspace() for letter in short) else "?"


def _answer_attributes(message: sc.Message) -> tuple[Attributes, str | None]:
    cut = any(isinstance(part, sc.InterruptedPart) for part in message.parts)
    return (_tokens(message.usage) if message.usage is not None else {}), "interrupted" if cut else None


def _tokens(usage: sc.Usage) -> dict[str, Attribute]:
    """Return the token counts; `input_tokens` includes cached ones, as the convention requires."""
    counts: dict[str, Attribute] = {
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    return {**counts, "session_core.cost_micros": usage.cost_micros} if usage.cost_micros else counts
