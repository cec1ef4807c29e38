"""The tool that runs commands: confined, bounded in time and output, and leaving no process behind."""

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.processes.run import ProcessOutcome, run_in_group
from session_core.tools.argument_schemas import count_schema, flag_schema, object_schema, text_schema
from session_core.tools.arguments import count_argument, flag_argument, path_argument, refuse_unknown, text_argument
from session_core.tools.background_jobs import BackgroundJobs
from session_core.tools.base import CallPreview, ToolContext, ToolFailed, ToolOutput
from session_core.tools.command_confinement import (
    QUIET,
    UNCONFINED,
    UNCONFINED_DETAILS,
    Confinement,
    ShellSetup,
    confine,
    explain_no_sandbox,
    prepare_launch,
)
from session_core.tools.sandbox_hints import find_hints
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight
from session_core.vocabulary.tools import SHELL, Effect, ToolSpec

MAX_COMMAND_CHARS: Final = 30_000
"""The kernel accepts arguments up to 128 KiB, and a character may take four bytes."""
DEFAULT_TIMEOUT_MS: Final = 120_000
"""Enough for an ordinary build or test run."""
MAX_TIMEOUT_MS: Final = 600_000
"""Longer commands belong in the background, where the model can watch them."""
RESULT_CHARS: Final = 30_000
"""The tail of the output is the most useful part; the rest is in a file."""
MAX_OUTPUT_FILE_CHARS: Final = 10_000_000
"""Output beyond this is discarded."""

RIGHT_ARGUMENTS: Final[Mapping[ExtraRight, str]] = {
    "network": "network",
    "sockets": "sockets",
    "protected": "change_protected",
}
"""The argument that asks for each right beyond the sandbox."""


class ShellTool:
    """Run a command line in the session's folder."""

    spec = ToolSpec(
        name=SHELL,
        description=(
            "Run a command line with bash and get its output and exit code. It has no terminal and no input. Each call "
            "is a new shell in the working folder: variables and cd do not last. All that it starts is ended with it; "
            f"use background=true for servers and for what takes longer than {MAX_TIMEOUT_MS // 60_000} minutes. To "
            "read, search and edit files, prefer the tools made for it. Of the home directory it sees only the working "
            "folder, toolchains and caches; the user can add to that with sandbox.readable."
        ),
        parameters=object_schema(
            required={"command": text_schema("The command line.", shortest=1, longest=MAX_COMMAND_CHARS)},
            optional={
                "timeout_ms": count_schema(
                    f"It is ended after so many milliseconds; {DEFAULT_TIMEOUT_MS} if left out.", maximum=MAX_TIMEOUT_MS
                ),
                "description": text_schema("What it is for, in a few words for people."),
                "background": flag_schema("Start it and return at once; see job_output, job_stop and job_list."),
                "workdir": text_schema("The folder to run in, beneath the working folder."),
                "network": flag_schema("True if it needs the network, which is off otherwise; the user is asked."),
                "sockets": flag_schema(
                    "True if it talks to other programs by unix sockets, as docker and ssh-agent do; they are off "
                    "otherwise; the user is asked."
                ),
                "change_protected": flag_schema(
                    "True if it changes .git or other protected files, as git commit does; the user is asked."
                ),
            },
        ),
    )
    effects: frozenset[Effect] = frozenset({"execute"})

    def __init__(self, jobs: BackgroundJobs | None = None, setup: ShellSetup | None = None) -> None:
        self._jobs = jobs
        self._setup = setup or ShellSetup()

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Show the exact command and its confinement; on cancel nothing has happened."""
        command, timeout_ms, background = self._arguments(arguments)
        confinement = await self._confine(arguments, context, to_show=True)
        first, *more = command.strip().splitlines()
        unconfined = confinement.unconfined
        return CallPreview(
            summary=f"run: {first[:200]}{' ...' if more or len(first) > 200 else ''}",
            displayed_text=_format_preview(command, confinement, context, timeout_ms, background=background),
            command=command,
            grant=f"run in {confinement.folder}: {command}",
            rights=confinement.rights,
            always_ask=confinement.reason if unconfined is None else explain_no_sandbox("command", unconfined),
        )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run the command to its end or start it in the background.

        Cancellation: the command and everything it started have ended when `Cancelled` propagates.
        """
        command, timeout_ms, background = self._arguments(arguments)
        confinement = await self._allowed_confinement(arguments, context)
        if background:
            assert self._jobs is not None
            ended = context.host.watch_background_command()
            job = await self._jobs.start(context.session_id, command, confinement, timeout_ms=timeout_ms, on_end=ended)
            return ToolOutput(
                text=f"started in the background as {job}; see its output with job_output, end it with job_stop",
                details=JsonObject({"job_id": job, **_details(confinement)}),
            )
        recorder = _OutputRecorder()

        def record_output(text: str) -> None:
            recorder.add(text)
            context.report(text)

        async with prepare_launch(command, confinement) as launch:
            outcome = await run_in_group(
                launch,
                on_output=record_output,
                output_limit=RESULT_CHARS,
                timeout_ms=timeout_ms or DEFAULT_TIMEOUT_MS,
            )
        where = await _save_output(recorder, context) if outcome.truncated else None
        remarks = (*launch.remarks, *find_hints(outcome, confinement))
        output = _format_output(outcome, recorder, where, timeout_ms or DEFAULT_TIMEOUT_MS, remarks)
        return attrs.evolve(output, details=JsonObject({**(output.details or {}), **_details(confinement)}))

    async def run_with_separate_streams(self, arguments: JsonObject, context: ToolContext) -> ProcessOutcome:
        """Run the command to its end and keep stdout and stderr separate, for programs that read them.

        Raises:
            ToolFailed: The command could not be started, or should have run in the background.

        Cancellation: the command and everything it started have ended when `Cancelled` propagates.
        """
        command, timeout_ms, background = self._arguments(arguments)
        if background:
            raise ToolFailed("what runs in the background has no outcome to wait for")
        confinement = await self._allowed_confinement(arguments, context)
        async with prepare_launch(command, confinement) as launch:
            outcome = await run_in_group(
                launch,
                on_output=context.report,
                on_error_output=context.report,
                output_limit=MAX_TOOL_OUTPUT_CHARS,
                timeout_ms=timeout_ms or DEFAULT_TIMEOUT_MS,
            )
        launch.remarks.extend(find_hints(outcome, confinement))
        return attrs.evolve(outcome, error_output=outcome.error_output + launch.format_remarks())

    def _arguments(self, arguments: JsonObject) -> tuple[str, int | None, bool]:
        refuse_unknown(arguments, self.spec)
        command = text_argument(arguments, "command")
        if not command.strip():
            raise ToolFailed("the argument 'command' must not be empty")
        if len(command) > MAX_COMMAND_CHARS:
            raise ToolFailed(
                f"the argument 'command' is longer than {MAX_COMMAND_CHARS} characters; put it into a file"
            )
        if "\0" in command:
            raise ToolFailed("the argument 'command' holds a null character, which no command may")
        timeout_ms = count_argument(arguments, "timeout_ms")
        if timeout_ms is not None and timeout_ms > MAX_TIMEOUT_MS:
            raise ToolFailed(f"the argument 'timeout_ms' must be at most {MAX_TIMEOUT_MS}; use background=true instead")
        text_argument(arguments, "description", default="")
        background = flag_argument(arguments, "background")
        if background and self._jobs is None:
            raise ToolFailed("nothing can run in the background here; run it without background=true")
        return command, timeout_ms, background

    async def _allowed_confinement(self, arguments: JsonObject, context: ToolContext) -> Confinement:
        """Return the command's confinement; refuse one that is weaker than the policy unless a person has agreed."""
        confinement = await self._confine(arguments, context)
        if confinement.unconfined is not None and "unconfined" not in context.rights:
            raise ToolFailed(
                f"this command was not run, because there is no sandbox here ({confinement.unconfined}) and nobody has "
                "agreed to run it without one"
            )
        if (reason := confinement.reason) is not None and not context.rights.issuperset(confinement.rights):
            raise ToolFailed(f"this command was not run: {reason}, and nobody has agreed to that")
        return confinement

    async def _confine(self, arguments: JsonObject, context: ToolContext, *, to_show: bool = False) -> Confinement:
        workdir = path_argument(arguments, "workdir", default=".")
        rights = _requested_rights(arguments, context)
        return await confine(context, self._setup, workdir=workdir, requested=rights, to_show=to_show)


def _details(confinement: Confinement) -> JsonObject:
    return UNCONFINED_DETAILS if confinement.plan is None else JsonObject()


def _requested_rights(arguments: JsonObject, context: ToolContext) -> tuple[ExtraRight, ...]:
    """Return the rights that the command requests beyond the policy; without a sandbox there is nothing to widen."""
    policy = context.sandbox
    if policy.mode == "full_access":
        return ()
    # What it has anyway, and what a session that may only read never gets.
    settled = {"network": policy.network, "sockets": policy.sockets, "protected": policy.mode == "read_only"}
    return tuple(
        right
        for right, argument in RIGHT_ARGUMENTS.items()
        if flag_argument(arguments, argument) and not settled[right]
    )


def _format_preview(
    command: str, confinement: Confinement, context: ToolContext, timeout_ms: int | None, *, background: bool
) -> str:
    if confinement.plan is None:
        sandbox = UNCONFINED
        network = "network: on, unix sockets: on"
    else:
        writable = ", ".join(confinement.plan.writable) or "nothing"
        sandbox = f"sandbox: {context.sandbox.mode}, may change {writable}"
        network = f"network: {_on_or_off(confinement.plan.network)}, unix sockets: {_on_or_off(confinement.sockets)}"
        if "protected" in confinement.requested:
            sandbox += ", protected files such as .git included"
    changed = ", ".join(f"{name}={value}" for name, value in QUIET.items())
    handed_on = ", ".join(name for name in confinement.environment if name not in QUIET)
    ends = "when it or the session is stopped" if timeout_ms is None else f"after {timeout_ms / 1000:g} seconds"
    limit = ends if background else f"after {(timeout_ms or DEFAULT_TIMEOUT_MS) / 1000:g} seconds"
    return "\n".join(
        (
            command,
            "",
            f"folder: {confinement.folder}",
            sandbox,
            network,
            f"environment: {changed}; handed on: {handed_on}; nothing else",
            f"{'in the background, ended' if background else 'ended'} {limit} at the latest",
        )
    )


def _on_or_off(enabled: bool) -> str:  # noqa: FBT001 - one word for one flag
    return "on" if enabled else "off"


class _OutputRecorder:
    """Keeps the output from its beginning, up to a limit."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        room = MAX_OUTPUT_FILE_CHARS - self.size
        self.size += len(text)
        if room > 0:
            self.pieces.append(text[:room])


async def _save_output(recorder: _OutputRecorder, context: ToolContext) -> str | None:
    """Write the whole output to a file and return its path, or None if that is not possible."""
    if context.outputs is None:
        return None
    folder = Path(context.outputs)
    path = folder / f"shell-{secrets.token_hex(8)}.txt"

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.writelines(recorder.pieces)

    try:
        await trio.to_thread.run_sync(write)
    except OSError:
        return None
    return str(path)


def _format_output(
    outcome: ProcessOutcome, recorder: _OutputRecorder, where: str | None, timeout_ms: int, guarded: Sequence[str]
) -> ToolOutput:
    ending = _describe_ending(outcome, timeout_ms)
    remarks = [*(f"[{remark}]" for remark in guarded), f"[{ending}]"]
    if outcome.truncated:
        lost = (
            f"the first {recorder.size - len(outcome.output)} of {recorder.size} characters of output are left out here"
        )
        if where is None:
            rest = "and were not kept"
        elif recorder.size > MAX_OUTPUT_FILE_CHARS:
            rest = f"the first {MAX_OUTPUT_FILE_CHARS} characters are in {where}"
        else:
            rest = f"all of it is in {where}"
        remarks.insert(0, f"[{lost}; {rest}]" if where is not None else f"[{lost} {rest}]")
    text = outcome.output or "(no output)"
    gap = "" if text.endswith("\n") else "\n"
    details = {"exit_code": outcome.exit_code, "timed_out": outcome.timed_out, "output_file": where}
    return ToolOutput(text=f"{text}{gap}" + "\n".join(remarks), details=JsonObject(details))


def _describe_ending(outcome: ProcessOutcome, timeout_ms: int) -> str:
    code = outcome.exit_code
    if outcome.timed_out:
        return (
            f"ended after {timeout_ms / 1000:g} seconds, which is its time limit; give it a longer timeout_ms or run "
            "it with background=true"
        )
    number = -code if code < 0 else code - 128  # shells and bubblewrap report a signal this way
    with suppress(ValueError):
        name = signal.Signals(number).name
        return f"ended by the signal {name}" if code < 0 else f"exit code {code}, as after the signal {name}"
    return f"exit code {code}"
