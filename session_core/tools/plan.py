"""The tool with which a model writes down its plan, for people to see."""

from typing import Final, cast, get_args

from session_core.tools.argument_schemas import object_schema, text_schema
from session_core.tools.arguments import objects_argument, refuse_broken_text, refuse_unknown
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PlanItem, PlanStatus
from session_core.vocabulary.tools import Effect, ToolSpec

MAX_PLAN_ITEMS: Final = 50
"""A plan is for people to read at a glance."""
MAX_PLAN_ITEM_CHARS: Final = 200
"""One step fits on a line or two."""

_STATUSES: Final[tuple[str, ...]] = get_args(PlanStatus)


class PlanTool:
    """Replace the plan of the session."""

    spec = ToolSpec(
        name="plan",
        description=(
            "Write down the steps you mean to take, so that people can follow. Use it for work of three steps or more: "
            "once at the beginning, and again whenever a step is begun or done. Each call replaces the whole plan; an "
            "empty list clears it."
        ),
        parameters=object_schema(
            required={
                "items": {
                    "type": "array",
                    "maxItems": MAX_PLAN_ITEMS,
                    "description": "All steps in their order.",
                    "items": object_schema(
                        required={
                            "text": text_schema(
                                "The step, in one short sentence.", shortest=1, longest=MAX_PLAN_ITEM_CHARS
                            )
                        },
                        optional={
                            "status": {
                                "type": "string",
                                "enum": list(_STATUSES),
                                "description": "pending if left out; at most one step is in_progress.",
                            }
                        },
                    ),
                }
            }
        ),
    )
    effects: frozenset[Effect] = frozenset({"read"})

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Check every step, then replace the plan at once; there is nothing to cancel."""
        refuse_unknown(arguments, self.spec)
        if arguments.get("items") == ():
            context.host.set_plan(())
            return ToolOutput(text="the plan is empty now")
        items = objects_argument(arguments, "items", limit=MAX_PLAN_ITEMS)
        plan = tuple(_read_item(number, item) for number, item in enumerate(items))
        context.host.set_plan(plan)
        counts = {status: sum(item.status == status for item in plan) for status in _STATUSES}
        counts_text = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count)
        return ToolOutput(text=f"the plan has {len(plan)} step{'s' if len(plan) > 1 else ''}: {counts_text}")


def _read_item(number: int, item: JsonObject) -> PlanItem:
    place = f"items[{number}]"
    for name in item:
        if name not in {"text", "status"}:
            raise ToolFailed(f"unknown field {name[:MAX_PLAN_ITEM_CHARS]!r} in {place!r}")
    text, status = item.get("text"), item.get("status", "pending")
    if not isinstance(text, str) or not text.strip():
        raise ToolFailed(f"the argument '{place}.text' must be a short sentence")
    if len(text) > MAX_PLAN_ITEM_CHARS:
        raise ToolFailed(f"the argument '{place}.text' is longer than {MAX_PLAN_ITEM_CHARS} characters")
    refuse_broken_text(text, f"{place}.text")
    if status not in _STATUSES:
        raise ToolFailed(f"the argument '{place}.status' must be one of {', '.join(_STATUSES)}")
    return PlanItem(text=" ".join(text.split()), status=cast(PlanStatus, status))
