"""The lists to choose from. Pure functions from states to choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import session_core as sc
from frontends.shared.activity_words import describe_activity
from frontends.shared.conversation.messages import parse_shell_line
from frontends.shared.figures import format_ago, format_count, format_path, format_tokens
from frontends.terminal.look.activity_glyphs import GLYPHS
from frontends.terminal.look.permission_words import MODES
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.themes import ABOUT
from frontends.terminal.panels.session_order import group_by_folder
from frontends.terminal.screens.picker import PickerChoice

THINKING: Final[dict[sc.Thinking, str]] = {
    "off": "answers at once",
    "low": "thinks a little",
    "medium": "thinks before it answers",
    "high": "thinks as long as it wants",
}
_SAID_CHARS: Final = 200
_LATER: Final = "; this counts from the next start of the service on"
"""A part of the service's text about an unset key that is too long for a line."""


def mode_choices(current: sc.PermissionMode | None) -> list[PickerChoice[str]]:
    """Return the permission modes."""
    return [
        PickerChoice(value=mode, label=mode.replace("_", "-"), detail=words.long, current=mode == current)
        for mode, words in MODES.items()
    ]


def thinking_choices(current: sc.Thinking | None) -> list[PickerChoice[str]]:
    """Return the thinking levels."""
    return [PickerChoice(value=how, label=how, detail=text, current=how == current) for how, text in THINKING.items()]


def model_choices(models: Sequence[sc.ListedModel], current: str) -> list[PickerChoice[str]]:
    """Return the models, usable ones first."""
    return [
        PickerChoice(
            value=each.name,
            label=each.name,
            detail=_describe_model(each),
            current=each.name == current,
            enabled=each.usable,
        )
        for each in sorted(models, key=lambda each: not each.usable)
    ]


def _describe_model(model: sc.ListedModel) -> str:
    """Describe what a model can do, in columns; or briefly, how to make it usable."""
    if not model.usable:
        return model.why_not.replace(_LATER, ", restart the service") or "cannot be used"
    can = "thinks" if model.can_think else "", "sees images" if model.can_see else ""
    room = f"{format_tokens(model.context_tokens)} context" if model.context_tokens else ""
    whose = "" if model.name.startswith(f"{model.provider}/") else model.provider
    return f"{room:<14}{can[0]:<8}{can[1]:<13}{whose}".rstrip()


def theme_choices(names: Iterable[str], current: str) -> list[PickerChoice[str]]:
    """Return the themes, those with a description first."""
    known = list(ABOUT)
    return [
        PickerChoice(value=name, label=name, detail=ABOUT.get(name, ""), current=name == current)
        for name in sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))
    ]


def session_choices(
    session_list: sc.SessionListState, *, here: str, viewed: sc.SessionId | None, now_ms: int
) -> list[PickerChoice[sc.SessionId]]:
    """Return the sessions as in the sidebar, then the archived ones, last used first."""
    rows = [
        (row.summary, row.depth)
        for each in group_by_folder(session_list.sessions.values(), here=here)
        for row in each.rows
    ]
    away = [each for each in session_list.sessions.values() if each.archived]
    away.sort(key=lambda each: each.updated_at, reverse=True)
    return [
        PickerChoice(
            value=summary.session_id,
            label="  " * depth + f"{GLYPHS[summary.activity.name]} {sanitise_line(summary.name, 100) or 'new session'}",
            detail=_describe_session(summary, now_ms),
            current=summary.session_id == viewed,
        )
        for summary, depth in [*rows, *((each, 0) for each in away)]
    ]


def _describe_session(summary: sc.SessionSummary, now_ms: int) -> str:
    does = "archived" if summary.archived else describe_activity(summary.activity, now_ms)
    asks = [format_count(summary.open_requests, "question")] if summary.open_requests else []
    return ", ".join([does, *asks, format_ago(summary.updated_at, now_ms), format_path(summary.cwd)])


def extension_choices(
    extensions: Iterable[sc.extensions.ExtensionInfo],
) -> list[PickerChoice[sc.extensions.ExtensionInfo]]:
    """Return the extensions with their states."""
    return [
        PickerChoice(
            value=each,
            label=f"{each.name} {each.version}".strip(),
            detail=f"{each.state}{f': {each.problem}' if each.problem else ''} "
            f"({each.scope}{f', {format_path(each.folder)}' if each.folder is not None else ''})",
        )
        for each in extensions
    ]


def extension_actions(extension: sc.extensions.ExtensionInfo) -> list[PickerChoice[str]]:
    """Return the actions for an extension."""
    off = extension.state == "disabled"
    return [
        PickerChoice(value="reload", label="reload", detail="start a new process", enabled=not off),
        PickerChoice(value="enable", label="enable", detail="use it again", enabled=off),
        PickerChoice(value="disable", label="disable", detail="end it, and do not start it again", enabled=not off),
    ]


def user_message_choices(state: sc.SessionState, now_ms: int) -> list[PickerChoice[sc.Message]]:
    """Return the user's messages on the current branch, newest first."""
    said = [each for each in state.transcript if each.role == "user" and each.source is None]
    return [_user_message_choice(each, now_ms) for each in reversed(said)]


def branch_choices(state: sc.SessionState, now_ms: int) -> list[PickerChoice[sc.MessageId]]:
    """Return the ends of all branches within the window, newest first; the current one is marked."""
    parents = {each.parent_id for each in state.messages}
    known = {each.message_id: each for each in state.messages}
    ends = [each for each in state.messages if each.message_id not in parents]
    return [_branch_choice(list(_walk_up(known, each)), state.head, now_ms) for each in reversed(ends)]


def _walk_up(known: Mapping[sc.MessageId, sc.Message], end: sc.Message) -> Iterator[sc.Message]:
    """Yield a message and those before it on its branch, as far as they are known."""
    current: sc.Message | None = end
    while current is not None:
        yield current
        current = known.get(current.parent_id) if current.parent_id is not None else None


def _branch_choice(branch: Sequence[sc.Message], head: sc.MessageId | None, now_ms: int) -> PickerChoice[sc.MessageId]:
    """Return a branch, newest message first, as a choice with its newest user message."""
    end = branch[0]
    return PickerChoice(
        value=end.message_id,
        label=_gist(next((each for each in branch if each.role == "user"), end)),
        detail=f"{format_ago(end.created_at, now_ms)}, {format_count(len(branch), 'message')}",
        current=end.message_id == head,
    )


def _user_message_choice(message: sc.Message, now_ms: int) -> PickerChoice[sc.Message]:
    return PickerChoice(value=message, label=_gist(message), detail=format_ago(message.created_at, now_ms))


def _gist(message: sc.Message) -> str:
    ran = parse_shell_line(message)
    return sanitise_line(message.text if ran is None else f"! {ran.line}", _SAID_CHARS) or "(no text)"
