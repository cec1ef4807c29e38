"""Times without a target: they depend on the machine, so they are reported and never fail a run."""

from collections.abc import Mapping

from bench.material import DELTA, new_recorder, streaming_session
from bench.measure import best_calls
from session_core.session.state import SessionState
from session_core.stream.coalesce import coalesce
from session_core.vocabulary.events import SessionEvent
from session_core.wire import codec

PENDING = 64


def measure_extras() -> Mapping[str, float]:
    """Return times in µs by name."""
    session = streaming_session(new_recorder())
    state = SessionState.from_snapshot(session.snapshot())
    deltas = [session.record(DELTA) for _ in range(PENDING)]
    delta = deltas[0]
    encoded = codec.encode(delta)
    record, fold, encode, decode = best_calls(
        7,
        5_000,
        lambda: session.record(DELTA),
        lambda: state.apply(delta),
        lambda: codec.encode(delta),
        lambda: codec.decode(encoded, SessionEvent),
    )
    (merge,) = best_calls(7, 200, lambda: coalesce(deltas))
    return {
        "Session.record of a delta (journal, fold, publish)": record,
        "fold of a delta": fold,
        "encoding an event": encode,
        "decoding an event": decode,
        f"merging {PENDING} deltas for a reader that is behind": merge,
    }
