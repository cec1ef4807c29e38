"""The tool with which a model delegates work to a child session."""

from session_core.limits import MAX_NAME_CHARS
from session_core.tools.argument_schemas import flag_schema, object_schema, text_schema
from session_core.tools.arguments import flag_argument, refuse_unknown, text_argument
from session_core.tools.base import TaskRequest, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec


class TaskTool:
    """Run a child session to its end and hand back what it found out."""

    spec = ToolSpec(
        name="task",
        description=(
            "Give a piece of work to a subagent with the same tools, and get back its last answer. The subagent knows "
            "nothing of this conversation: put everything it needs into the prompt. Several calls in one answer run in "
            "parallel. Good for searches through many files and for work that stands alone."
        ),
        parameters=object_schema(
            required={
                "title": text_schema("What it is about, in a few words.", shortest=1, longest=MAX_NAME_CHARS),
                "prompt": text_schema("The work, and what to answer with.", shortest=1),
            },
            optional={
                "read_only": flag_schema("True if the subagent must change nothing."),
                "model": text_schema(
                    "Another model to use; this session's model if left out.", shortest=1, longest=MAX_NAME_CHARS
                ),
            },
        ),
    )
    # The child's own calls need approval, under rules no wider than ours; starting it has no effect in itself.
    effects: frozenset[Effect] = frozenset({"read"})

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Wait for the child; on cancel the host stops it before `Cancelled` propagates."""
        refuse_unknown(arguments, self.spec)
        prompt = text_argument(arguments, "prompt")
        if not prompt.strip():
            raise ToolFailed("the argument 'prompt' must not be empty")
        task = TaskRequest(
            title=_read_name(arguments, "title"),
            prompt=prompt,
            read_only=flag_argument(arguments, "read_only"),
            model=_read_name(arguments, "model") if arguments.get("model") is not None else None,
        )
        return await context.host.run_task(task, context.report)


def _read_name(arguments: JsonObject, argument: str) -> str:
    name = " ".join(text_argument(arguments, argument).split())
    if not name:
        raise ToolFailed(f"the argument {argument!r} must not be empty")
    if len(name) > MAX_NAME_CHARS:
        raise ToolFailed(f"the argument {argument!r} is longer than {MAX_NAME_CHARS} characters")
    return name
