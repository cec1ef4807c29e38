"""The output of tools, while they run and at their end: checked, cleaned and cut, as tools are foreign code."""

import math

import attrs
import trio

from session_core import limits
from session_core.agent.streamed_answer import replace_surrogates
from session_core.ids import CallId
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.argument_checks import build_check, is_base64
from session_core.vocabulary.frozen import JsonValue, freeze_json
from session_core.vocabulary.messages import Refusal, ToolCallPart, ToolProgress, ToolResultPart, ToolStatus
from session_core.wire.codec import encode
from session_core.wire.strict_json import find_fault


@attrs.frozen
class Reporter:
    """Shows a running tool's output; ignores what comes after its result."""

    handle: TurnHandle
    call_id: CallId

    def __call__(self, text: str) -> None:
        if self._is_live("report, text") and text:
            self.handle.record(
                ev.ToolOutputDelta(call_id=self.call_id, text=replace_surrogates(text[-limits.MAX_LIVE_OUTPUT_CHARS :]))
            )

    def tell_progress(self, progress: ToolProgress) -> None:
        """Show the progress of the tool; leaves out what cannot be encoded."""
        if not self._is_live("progress, how_far"):
            return
        message, share, details = progress.message, progress.progress, progress.details
        self.handle.record(
            ev.ToolProgressed(
                call_id=self.call_id,
                message=replace_surrogates(message[: limits.MAX_ERROR_CHARS]) if message is not None else None,
                progress=float(min(max(share, 0), 1)) if share is not None and math.isfinite(share) else None,
                details=freeze_json(details) if _is_sendable(details) else None,
            )
        )

    def _is_live(self, call: str) -> bool:
        if not trio.lowlevel.in_trio_task():
            name = call.partition(",")[0]
            raise RuntimeError(
                f"{name} was called from another thread: use trio.from_thread.run_sync(context.{call}) there"
            )
        live = next((tool for tool in self.handle.state.tools if tool.call_id == self.call_id), None)
        return live is not None and live.result is None


def _is_sendable(details: JsonValue) -> bool:
    fault = find_fault(details, limits.MAX_OPEN_JSON_DEPTH)
    return fault is None and len(encode(freeze_json(details))) <= limits.MAX_ENTRY_BYTES


def check_output(output: ToolOutput) -> None:
    """Refuse output that cannot be sent; tools are foreign code and not all are type-checked."""
    if not build_check(ToolOutput)(output):
        raise TypeError("it did not return a ToolOutput")
    if not all(is_base64(image.data) for image in output.images):
        raise ValueError("an image is not base64 text")
    if sum(len(image.data) for image in output.images) > limits.MAX_MESSAGE_CHARS:
        raise ValueError(f"its images have more than {limits.MAX_MESSAGE_CHARS:,} characters together")
    if output.details is not None and len(encode(output.details)) > limits.MAX_MESSAGE_CHARS:
        raise ValueError(f"its details have more than {limits.MAX_MESSAGE_CHARS:,} bytes")


def build_result(
    call: ToolCallPart, status: ToolStatus, text: str, output: ToolOutput | None = None, refusal: Refusal | None = None
) -> ToolResultPart:
    """Build the result of a call; a denied one has a refusal."""
    if refusal is not None:  # an extension may say anything, at any length
        refusal = attrs.evolve(refusal, reason=replace_surrogates(refusal.reason[: limits.MAX_ERROR_CHARS]))
    return ToolResultPart(
        call_id=call.call_id,
        name=call.name,
        status=status,
        text=limit_text(text),
        images=output.images if output else (),
        details=output.details if output else None,
        refusal=refusal,
    )


def limit_result(result: ToolResultPart) -> ToolResultPart:
    """Limit a result that a tool has failed with or an extension has changed: it must fit into a frame."""
    text, details = result.text, result.details
    if details is not None and len(encode(details)) > limits.MAX_MESSAGE_CHARS:
        text, details = f"{text}\n[its details were too large, and are left out]", None
    return attrs.evolve(result, text=limit_text(text), details=details)


_REMARK_CHARS = 100  # room for the remark below: text that was cut once is not cut again


def limit_text(text: str) -> str:
    """Clean text, and cut it in the middle if it is long, keeping its beginning and its end."""
    text = replace_surrogates(text)
    if len(text) <= limits.MAX_TOOL_OUTPUT_CHARS:
        return text
    half = (limits.MAX_TOOL_OUTPUT_CHARS - _REMARK_CHARS) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
