"""Answers that must be JSON of a given shape: reading them, and checking the end of turns that require one."""

import attrs

from session_core import limits
from session_core.errors import ProtocolError
from session_core.protocols.driver import DriverView, Finish
from session_core.vocabulary.frozen import JsonObject, JsonValue, freeze_json
from session_core.wire.codec import encode
from session_core.wire.json_schema import find_value_fault
from session_core.wire.strict_json import find_fault, parse


def read_answer(text: str, schema: JsonObject) -> tuple[JsonValue, str | None]:
    """Read an answer as JSON, also from a fenced block, as models like to wrap it; or return what is wrong."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.removeprefix("```").removesuffix("```").strip()
        text = text.removeprefix("json").strip()
    try:
        plain = parse(text)
    except ProtocolError as error:
        return None, f"It cannot be read: {error.message}."
    if (deep := find_fault(plain, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        return None, f"It cannot be read: {deep.reason}."
    answer = freeze_json(plain)
    if (size := len(encode(answer))) > limits.MAX_OUTPUT_BYTES:  # of a protocol: a model's answer is shorter
        return None, f"It has {size:,} bytes, and {limits.MAX_OUTPUT_BYTES:,} are allowed."
    return answer, find_value_fault(schema, answer)


def finish_wrong_shape(fault: str) -> Finish:
    """End a turn whose answer has the wrong shape."""
    return Finish(status="failed", error=f"the answer is not JSON of the shape that was asked for: {fault}")


def fit_output(finish: Finish, view: DriverView, answer_text: str | None = None) -> Finish:
    """Enforce the required shape at the end of a turn, however it ends; without an output, the answer is used.

    `answer_text` is the turn's answer, if that is not the model's newest one.
    """
    schema = view.output_schema
    if schema is None or finish.status != "completed":
        return finish
    if finish.output is not None:
        fault = find_value_fault(schema, finish.output)
        return finish if fault is None else finish_wrong_shape(fault)
    if answer_text is None:
        answer_text = view.answer.text if view.answer is not None else ""
    output, fault = read_answer(answer_text, schema)
    if fault is None:
        return attrs.evolve(finish, output=output)
    return finish if find_value_fault(schema, None) is None else finish_wrong_shape(fault)
