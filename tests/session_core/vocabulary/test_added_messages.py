"""The message of a step's results: what is in it when the results are too large together."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import CallId, MessageId
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import collect_added_messages
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Refusal, ToolResultPart, count_max_bytes

IMAGE = ImagePart(media_type="image/png", data="QUJD" * 100)


def commit(*results: ToolResultPart) -> tuple[ToolResultPart, ...]:
    """Return the results as they join the conversation."""
    ids = tuple(result.call_id for result in results)
    event = ev.ToolResultsCommitted(message_id=MessageId("m"), parent_id=None, turn_id=None, call_ids=ids)
    (message,) = collect_added_messages(event, {result.call_id: result for result in results}, 1)
    parts = [part for part in message.parts if isinstance(part, ToolResultPart)]
    assert ids == tuple(part.call_id for part in parts)
    return tuple(parts)


def result(number: int, text: str, images: int = 0, *, details: bool = False) -> ToolResultPart:
    return ToolResultPart(
        call_id=CallId(f"call_{number}"),
        name="t",
        status="success",
        text=text,
        images=(IMAGE,) * images,
        details=JsonObject({"a": 1}) if details else None,
    )


_RESULTS = st.lists(
    st.tuples(
        st.sampled_from(["", "\x01", "short"]), st.sampled_from([1, 500, 4_000]), st.integers(0, 9), st.booleans()
    ),
    max_size=8,
)


@given(drawn=_RESULTS)
def test_the_results_of_a_step_fit_into_a_message(drawn: list[tuple[str, int, int, bool]]) -> None:
    """However large the results are, the message with all of them has its bound; what fits whole is not touched."""
    results = [
        result(number, text * times, images, details=details)
        for number, (text, times, images, details) in enumerate(drawn)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_MESSAGE_BYTES", 20_000)
        committed = commit(*results)

        assert count_max_bytes(committed) <= 20_000
        if count_max_bytes(results) <= 20_000:
            assert tuple(results) == committed


def test_what_has_no_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier results stay whole; a later one keeps the beginning of its text, its status, and a remark on the rest."""
    monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 20_000)
    refused = attrs.evolve(
        result(2, "\x01" * 3_000, 2, details=True), status="denied", refusal=Refusal(by="person", reason="no")
    )

    first, second = commit(result(1, "x" * 1_500), refused)

    assert result(1, "x" * 1_500) == first
    kept, _, remark = second.text.partition("\n")
    assert 0 < len(kept) < 3_000
    gone = f"{3_000 - len(kept)} characters, 2 images, its details"
    assert f"[... {gone} left out: the results of one step are too large together ...]" == remark
    assert ("denied", Refusal(by="person"), (), None) == (second.status, second.refusal, second.images, second.details)
