"""The tools with which a model manages its background commands."""

from typing import Final

from session_core.limits import MAX_NAME_CHARS
from session_core.tools.argument_schemas import count_schema, object_schema, text_schema
from session_core.tools.arguments import count_argument, refuse_unknown, text_argument
from session_core.tools.background_jobs import BackgroundJobs, JobInfo, JobOutput
from session_core.tools.base import Tool, ToolContext, ToolOutput
from session_core.tools.command_confinement import ShellSetup
from session_core.tools.shell import RESULT_CHARS, ShellTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec

MAX_WAIT_MS: Final = 60_000
"""Instead of waiting longer, a model should do something else."""

_JOB_ID: Final = text_schema("The id of the job.", shortest=1, longest=MAX_NAME_CHARS)


def shell_tools(jobs: BackgroundJobs, setup: ShellSetup | None = None) -> tuple[Tool, ...]:
    """Return the shell and the tools for its background jobs."""
    return (ShellTool(jobs, setup), ReadJob(jobs), StopJob(jobs), ListJobs(jobs))


class _JobTool:
    """The common part of the tools for jobs."""

    # They reach only jobs of their own session, whose start was allowed.
    effects: frozenset[Effect] = frozenset({"read"})

    def __init__(self, jobs: BackgroundJobs) -> None:
        self._jobs = jobs


class ReadJob(_JobTool):
    """Show what a job has written since the last look."""

    spec = ToolSpec(
        name="job_output",
        description="Read what a background job has written since you last looked, and learn whether it still runs.",
        parameters=object_schema(
            required={"job_id": _JOB_ID},
            optional={
                "wait_ms": count_schema(
                    "How long to wait if there is nothing new; 0 if left out.", minimum=0, maximum=MAX_WAIT_MS
                )
            },
        ),
    )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read, and wait if necessary; on cancel the output stays unread."""
        refuse_unknown(arguments, self.spec)
        wait_ms = count_argument(arguments, "wait_ms", minimum=0, maximum=MAX_WAIT_MS) or 0
        return _format_output(
            await self._jobs.read(context.session_id, text_argument(arguments, "job_id"), wait_ms=wait_ms)
        )


class StopJob(_JobTool):
    """End a job."""

    spec = ToolSpec(
        name="job_stop",
        description="End a background job with everything it has started, and read its last output.",
        parameters=object_schema(required={"job_id": _JOB_ID}),
    )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """End the job; on cancel it is ended anyway."""
        refuse_unknown(arguments, self.spec)
        return _format_output(await self._jobs.stop(context.session_id, text_argument(arguments, "job_id")))


class ListJobs(_JobTool):
    """Show all jobs of the session."""

    spec = ToolSpec(
        name="job_list",
        description="List the background jobs of this session with their status.",
        parameters=object_schema(),
    )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """List them; there is nothing to cancel."""
        refuse_unknown(arguments, self.spec)
        jobs = self._jobs.list(context.session_id)
        return ToolOutput(text="\n".join(map(_format_job, jobs)) or "there are no background jobs in this session")


def _format_job(info: JobInfo) -> str:
    first, *more = info.command.strip().splitlines()
    unread = f", {info.unread} characters unread" if info.unread else ""
    return f"{info.job_id}: {_describe_state(info)}{unread}: {first[:200]}{' ...' if more or len(first) > 200 else ''}"


def _format_output(output: JobOutput) -> ToolOutput:
    text, missed = output.text, output.missed
    if len(text) > RESULT_CHARS:
        missed += len(text) - RESULT_CHARS
        text = text[-RESULT_CHARS:]
    before = f"[{missed} earlier characters are lost]\n" if missed else ""
    text = text or "(nothing new)"
    gap = "" if text.endswith("\n") else "\n"
    return ToolOutput(
        text=f"{before}{text}{gap}[{output.info.job_id}: {_describe_state(output.info)}]",
        details=JsonObject({"state": output.info.state, "exit_code": output.info.exit_code, "missed": missed}),
    )


def _describe_state(info: JobInfo) -> str:
    if info.timed_out:
        return "ended at its time limit"
    return info.state if info.state != "finished" else f"finished with exit code {info.exit_code}"
