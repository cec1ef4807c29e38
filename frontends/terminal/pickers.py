"""What there is to choose from. Pure functions from states to choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import session_core as sc
from frontends.console.figures import ago, place
from frontends.console.style import counted
from frontends.terminal.activity_words import glyph_of, words_of
from frontends.terminal.block_making import shell_line_of
from frontends.terminal.family import by_folder
from frontends.terminal.inert import inert_line
from frontends.terminal.picker import Choice
from frontends.terminal.themes import ABOUT
from frontends.terminal.tier_words import TIERS

THINKING: Final[dict[sc.Thinking, str]] = {
    "off": "answers at once",
    "low": "thinks a little",
    "medium": "thinks before it answers",
    "high": "thinks as long as it wants",
}
_SAID_CHARS: Final = 200
_LATER: Final = "; this counts from the next start of the service on"
"""What the service says of a key that is not set: too long for a line."""


def tier_choices(current: sc.PermissionTier | None) -> list[Choice[str]]:
    """What may need a yes."""
    return [
        Choice(value=tier, label=tier.replace("_", "-"), detail=words.long, current=tier == current)
        for tier, words in TIERS.items()
    ]


def thinking_choices(current: sc.Thinking | None) -> list[Choice[str]]:
    """How much a model may reason."""
    return [Choice(value=how, label=how, detail=text, current=how == current) for how, text in THINKING.items()]


def model_choices(models: Sequence[sc.ListedModel], current: str) -> list[Choice[str]]:
    """The models, those that can be used first."""
    return [
        Choice(
            value=each.name,
            label=each.name,
            detail=_about_model(each),
            current=each.name == current,
            enabled=each.usable,
        )
        for each in sorted(models, key=lambda each: not each.usable)
    ]


def _about_model(model: sc.ListedModel) -> str:
    """Say what a model can do, in columns; or what to do so that it can be used, in few words."""
    if not model.usable:
        return model.why_not.replace(_LATER, ", restart the service") or "cannot be used"
    can = "thinks" if model.can_think else "", "sees pictures" if model.can_see else ""
    room = f"{_amount(model.context_tokens)} context" if model.context_tokens else ""
    whose = "" if model.name.startswith(f"{model.provider}/") else model.provider
    return f"{room:<14}{can[0]:<8}{can[1]:<15}{whose}".rstrip()


def _amount(tokens: int) -> str:
    """Return a number of tokens as people say it."""
    if tokens < 1_000_000:
        return f"{tokens // 1_000}k"
    return f"{tokens / 1_000_000:.1f}".removesuffix(".0") + "M"


def theme_choices(names: Iterable[str], current: str) -> list[Choice[str]]:
    """What colours there are, those that we say something about first."""
    known = list(ABOUT)
    return [
        Choice(value=name, label=name, detail=ABOUT.get(name, ""), current=name == current)
        for name in sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))
    ]


def session_choices(
    fleet: sc.FleetState, *, here: str, viewed: sc.SessionId | None, now_ms: int
) -> list[Choice[sc.SessionId]]:
    """The sessions, as in the list at the side; after them those that were put away, the last used first."""
    rows = [(row.summary, row.depth) for each in by_folder(fleet.sessions.values(), here=here) for row in each.rows]
    away = [each for each in fleet.sessions.values() if each.archived]
    away.sort(key=lambda each: each.updated_at, reverse=True)
    return [
        Choice(
            value=summary.session_id,
            label="  " * depth + f"{glyph_of(summary.activity)} {inert_line(summary.name, 100) or 'new session'}",
            detail=_about_session(summary, now_ms),
            current=summary.session_id == viewed,
        )
        for summary, depth in [*rows, *((each, 0) for each in away)]
    ]


def _about_session(summary: sc.SessionSummary, now_ms: int) -> str:
    does = "archived" if summary.archived else words_of(summary.activity, now_ms)
    asks = [counted(summary.open_requests, "question")] if summary.open_requests else []
    return ", ".join([does, *asks, ago(summary.updated_at, now_ms), place(summary.cwd)])


def extension_choices(extensions: Iterable[sc.ExtensionInfo]) -> list[Choice[sc.ExtensionInfo]]:
    """The extensions, with how they are."""
    return [
        Choice(
            value=each,
            label=f"{each.name} {each.version}".strip(),
            detail=f"{each.state}{f': {each.problem}' if each.problem else ''} "
            f"({each.scope}{f', {place(each.folder)}' if each.folder is not None else ''})",
        )
        for each in extensions
    ]


def extension_deeds(extension: sc.ExtensionInfo) -> list[Choice[str]]:
    """What can be done about an extension."""
    off = extension.state == "disabled"
    return [
        Choice(value="reload", label="reload", detail="let a new process take over", enabled=not off),
        Choice(value="enable", label="switch on", detail="use it again", enabled=off),
        Choice(value="disable", label="switch off", detail="end it, and do not start it again", enabled=not off),
    ]


def said_choices(state: sc.SessionState, now_ms: int) -> list[Choice[sc.Message]]:
    """What people have said on the way to the present, newest first."""
    said = [each for each in state.transcript if each.role == "user" and each.source is None]
    return [_said(each, now_ms) for each in reversed(said)]


def branch_choices(state: sc.SessionState, now_ms: int) -> list[Choice[sc.MessageId]]:
    """The ends of all branches within the window, newest first; the present one is marked."""
    parents = {each.parent_id for each in state.messages}
    ends = [each for each in state.messages if each.message_id not in parents]
    return [
        Choice(
            value=each.message_id,
            label=_gist(_last_said(state.messages, each)),
            detail=f"{ago(each.created_at, now_ms)}, {counted(_length(state.messages, each), 'message')}",
            current=each.message_id == state.head,
        )
        for each in reversed(ends)
    ]


def _last_said(messages: Sequence[sc.Message], end: sc.Message) -> sc.Message:
    """The newest thing that a person said on the way to a message."""
    known = {each.message_id: each for each in messages}
    at: sc.Message | None = end
    while at is not None and at.role != "user":
        at = known.get(at.parent_id) if at.parent_id is not None else None
    return at or end


def _length(messages: Sequence[sc.Message], end: sc.Message) -> int:
    known = {each.message_id: each.parent_id for each in messages}
    count, at = 0, end.message_id
    while at in known:
        count += 1
        parent = known[at]
        if parent is None:
            break
        at = parent
    return count


def _said(message: sc.Message, now_ms: int) -> Choice[sc.Message]:
    return Choice(value=message, label=_gist(message), detail=ago(message.created_at, now_ms))


def _gist(message: sc.Message) -> str:
    ran = shell_line_of(message)
    return inert_line(message.text if ran is None else f"! {ran}", _SAID_CHARS) or "(no text)"
