"""Drives an extension through everything a host may do to it, and reports the results."""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.sep.conformance import call_steps, ending_steps, message_steps
from session_core.sep.conformance.driver import ConformanceDriver, StepRecorder
from session_core.sep.conformance.report import ConformanceReport, ConformanceStep
from session_core.sep.conformance.target import ConformanceTarget, read_target
from session_core.sep.conformance.verdicts import StepVerdict, failed, passed, skipped, warned
from session_core.sep.host.process.launch_command import ExtensionLaunch, LaunchRefused
from session_core.sep.protocol.manifest import ManifestInvalid

ANSWER_SECONDS: Final = 5.0
"""How long an answer may take by default."""
TOTAL_SECONDS: Final = 300.0
"""The time limit of a whole check; an extension that answers at once needs one or two seconds."""
_MANIFEST: Final = "a manifest that can be used"
_STEPS: Final = (
    ending_steps.try_greeting,
    message_steps.try_ping,
    call_steps.try_tools,
    call_steps.try_commands,
    call_steps.try_hooks,
    call_steps.try_providers,
    message_steps.try_events,
    message_steps.try_cancellation,
    message_steps.try_odd_lines,
    message_steps.try_large,
    message_steps.try_many,
    ending_steps.try_shutdown,
    ending_steps.try_beginnings,
)


async def check_extension(
    target: Path | Sequence[str],
    *,
    seconds: float | None = None,
    total_seconds: float = TOTAL_SECONDS,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_step: Callable[[ConformanceStep], None] = lambda _: None,
) -> ConformanceReport:
    """Start an extension and check whether it conforms to the protocol; nobody is asked for consent.

    Its tools, commands and hooks are called with made-up values, with an empty folder as the workspace.

    Args:
        target: A folder with an `extension.toml`, or a command line.
        seconds: The time limit of each answer; by default `ANSWER_SECONDS`.
        total_seconds: The time limit of the whole check.
        environ: Our environment, of which little is passed on.
        cwd: Where a command line runs, and the base of relative paths.
        on_step: Called with each step when it is done.

    Raises:
        InvalidInput: There is nothing to check: the command line is empty.

    Cancellation: its process group is ended.
    """
    target_text = str(target) if isinstance(target, Path) else " ".join(target)
    steps = StepRecorder(on_step)
    try:
        found = await trio.to_thread.run_sync(read_target, target, cwd or Path.cwd(), abandon_on_cancel=True)
    except ManifestInvalid as error:
        steps.record("manifest", _MANIFEST, failed(error.message))
        return ConformanceReport(target=target_text, steps=tuple(steps.done))
    if found.declared:
        steps.record("manifest", _MANIFEST, _judge_manifest(found))
    report = ConformanceReport(
        target=found.label, name=found.name or "", version=found.manifest.version if found.declared else ""
    )
    async with _workspace() as workspace:
        try:
            launch = await found.prepare(os.environ if environ is None else environ, workspace)
            driver = await _drive(
                found, launch, workspace, steps, seconds=seconds or ANSWER_SECONDS, total_seconds=total_seconds
            )
        except LaunchRefused as error:
            steps.record("start", "a process", failed(f"it cannot be started: {error}"))
            return attrs.evolve(report, steps=tuple(steps.done))
    name, version = driver.reported_identity
    return attrs.evolve(
        report,
        name=report.name or name,
        version=report.version or version,
        steps=tuple(steps.done),
        stderr=driver.stderr(),
    )


async def _drive(
    found: ConformanceTarget,
    launch: ExtensionLaunch,
    workspace: str,
    steps: StepRecorder,
    *,
    seconds: float,
    total_seconds: float,
) -> ConformanceDriver:
    refused: LaunchRefused | None = None
    async with trio.open_nursery() as nursery:
        driver = ConformanceDriver(found, launch, workspace, nursery, seconds=seconds, steps=steps)
        with trio.move_on_after(total_seconds) as limit:
            try:
                for attempt in _STEPS:
                    await attempt(driver)
                    if driver.broken is not None:
                        driver.record("further steps", "the rest of the protocol", skipped(driver.broken))
                        break
            except LaunchRefused as error:
                refused = error
        await driver.end_process()
    if refused is not None:
        raise refused
    if limit.cancelled_caught:
        said = f"the check was ended after {total_seconds:g} s: answer more quickly, or give it more time"
        steps.record("time", f"an end within {total_seconds:g} s", failed(said))
    ending_steps.judge_meanwhile(driver)
    ending_steps.judge_complaints(driver)
    return driver


def _judge_manifest(found: ConformanceTarget) -> StepVerdict:
    remarks = found.manifest.remarks
    return warned("; ".join(remarks)) if remarks else passed(f"{found.manifest.name} {found.manifest.version}")


@asynccontextmanager
async def _workspace() -> AsyncGenerator[str]:
    """Create an empty folder, so that tools with made-up arguments find nothing they could harm."""
    folder = await trio.to_thread.run_sync(partial(tempfile.mkdtemp, prefix="session-core-check-"))
    try:
        yield folder
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
