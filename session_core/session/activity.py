"""What a session is doing, as a table.

Rules:
1. `RULES` maps each kind of event and each current activity to the next activity. Pairs that are not in the table
   change nothing. Example: a late delta can never revive a stopped session.
2. The fold applies the table, so no reader ever sees an event without the activity that goes with it. Every change is
   also published as `ActivityChanged` in the same step (`Session.record`), for readers that do not know the table.
3. `idle`, `stopped`, `errored` and `interrupted` are at rest: a turn may start only there. A user's stop ends in
   `stopped`, never in `idle`, because it must not look like success.
4. While `stopping`, only the end of the work changes the activity.
"""

from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import AT_REST, Activity, ActivityName, TurnStatus

_WORKING: tuple[ActivityName, ...] = (
    "starting",
    "waiting_for_model",
    "streaming",
    "running_tools",
    "awaiting_permission",
    "rate_limited",
    "compacting",
)


_GROUPS: dict[tuple[str, ...], str] = {
    AT_REST: "at rest",
    _WORKING: "working",
    (*AT_REST, *_WORKING): "at rest or working",
}


def _build_transitions(sources: tuple[ActivityName, ...], target: ActivityName) -> dict[ActivityName, ActivityName]:
    return dict.fromkeys(sources, target)


RULES: dict[type, dict[ActivityName, ActivityName]] = {
    ev.TurnStarted: _build_transitions(AT_REST, "starting"),
    ev.MessageStarted: _build_transitions(_WORKING, "waiting_for_model"),
    ev.PartStarted: _build_transitions(("waiting_for_model",), "streaming"),
    ev.ToolCallStarted: _build_transitions(_WORKING, "running_tools"),
    ev.ApprovalRequested: _build_transitions(_WORKING, "awaiting_permission"),
    ev.ApprovalResolved: _build_transitions(("awaiting_permission",), "running_tools"),
    ev.ModelCallFailed: _build_transitions(_WORKING, "rate_limited"),
    ev.CompactionStarted: _build_transitions((*AT_REST, *_WORKING), "compacting"),
    ev.StopRequested: _build_transitions(_WORKING, "stopping"),
    ev.OutcomeDismissed: _build_transitions(AT_REST, "idle"),
    ev.ContextCleared: _build_transitions(AT_REST, "idle"),
}

AFTER_TURN: dict[TurnStatus, ActivityName] = {
    "completed": "idle",
    "limit_reached": "errored",
    "stopped": "stopped",
    "failed": "errored",
    "interrupted": "interrupted",
}


def next_activity(current: Activity, event: ev.Event, *, open_approvals: int, in_turn: bool) -> Activity:
    """Return the activity that follows an event; the same object when nothing changes.

    `open_approvals` and `in_turn` describe the state after the event.
    """
    match event:
        case ev.TurnEnded(outcome=outcome):
            return Activity(name=AFTER_TURN[outcome.status], message=outcome.error)
        case ev.CompactionFinished(status=status, error=error) if not in_turn:
            return Activity(name=AFTER_TURN[status], message=error)
        case ev.CompactionFinished():
            return current if current.name == "stopping" else Activity(name="starting")
        case ev.ModelCallFailed(retry_at=None):
            return current
        case ev.ApprovalResolved() if open_approvals:
            return current
        case _:
            pass
    name = RULES.get(type(event), {}).get(current.name)
    if name is None or (name == current.name and not isinstance(event, ev.ModelCallFailed)):
        return current
    return Activity(name=name, retry_at=event.retry_at if isinstance(event, ev.ModelCallFailed) else None)


def rules_as_markdown() -> str:
    """Return the table for the documentation; a test compares the two."""
    lines = ["| when | found | becomes |", "| --- | --- | --- |"]
    for event, rule in RULES.items():
        targets = sorted(set(rule.values()))
        for target in targets:
            found = [name for name in rule if rule[name] == target]
            lines.append(f"| `{event.__name__}` | {_GROUPS.get(tuple(found)) or ', '.join(found)} | {target} |")
    for status, target in AFTER_TURN.items():
        lines.append(f"| `TurnEnded` or `CompactionFinished` ({status}) | any | {target} |")
    return "\n".join(lines) + "\n"
