"""The facts about a session that both kinds of document state. Pure functions; foreign text in them is clean."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import attrs

import session_core as sc
from frontends.commands.export.conversation import MessageTree
from frontends.commands.export.document_text import DocumentSanitiser
from frontends.shared.activity_words import WORDS
from frontends.shared.figures import dollars, format_count, usage_figures

MOST_SUBSESSIONS = 500
_NAME_CHARS = 200


@attrs.frozen(kw_only=True)
class SubSession:
    """A session that did part of the work; `anchor` is its place in the document."""

    anchor: str
    name: str
    session_id: str


@attrs.frozen(kw_only=True)
class DocumentFacts:
    """What a document says about its session; all of it may be written once it is escaped.

    Attributes:
        facts: Pairs of a label and its text, in order.
        spent: The same for each model and purpose.
        plan: Each step with a word for its progress.
        subsessions: By id.
        is_over: Nobody works on the session: an incomplete answer will stay so.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    spent: tuple[tuple[str, str], ...] = ()
    plan: tuple[tuple[str, str], ...] = ()
    subsessions: Mapping[str, SubSession] = attrs.field(factory=dict)
    remarks: tuple[str, ...] = ()
    is_over: bool = True


def build_document_facts(
    tree: MessageTree, sessions: Sequence[sc.SessionSummary], cleaning: DocumentSanitiser, *, abandoned: bool
) -> DocumentFacts:
    """Collect the facts about a session."""
    snapshot = tree.snapshot
    subagents = [each for each in sessions if each.parent_id == snapshot.session_id]
    return DocumentFacts(
        name=cleaning.line(snapshot.name, _NAME_CHARS) or "a session",
        facts=tuple(_facts(snapshot, cleaning, abandoned=abandoned)),
        spent=tuple(
            (cleaning.line(f"{each.model}, {each.source}"), f"{format_count(each.calls, 'call')}: {spent(each.usage)}")
            for each in snapshot.usage_by
        ),
        plan=tuple((each.status.replace("_", " "), cleaning.line(each.text, 400)) for each in snapshot.plan),
        subsessions={
            each.session_id: SubSession(
                anchor=f"sub-{number}",
                name=cleaning.line(each.name, _NAME_CHARS) or "a session",
                session_id=cleaning.line(each.session_id),
            )
            for number, each in enumerate(subagents[:MOST_SUBSESSIONS], start=1)
        },
        remarks=tuple(_remarks(tree, len(subagents), cleaning)),
        is_over=abandoned or snapshot.activity.is_at_rest,
    )


def _facts(snapshot: sc.SessionSnapshot, cleaning: DocumentSanitiser, *, abandoned: bool) -> list[tuple[str, str]]:
    activity = "interrupted" if abandoned and not snapshot.activity.is_at_rest else snapshot.activity.name
    state = WORDS[activity]
    facts = [
        ("session", cleaning.line(snapshot.session_id)),
        ("state", f"{state}, archived" if snapshot.archived else state),
        ("begun", moment(snapshot.created_at)),
        ("last used", moment(snapshot.updated_at)),
        ("model", cleaning.line(snapshot.settings.model)),
        ("folder", cleaning.line(snapshot.settings.cwd, 400)),
        ("used", spent(snapshot.usage)),
    ]
    if snapshot.parent_id is not None:
        facts.append(("works for", cleaning.line(snapshot.parent_id)))
    if snapshot.forked_from is not None:
        facts.append(("forked from", cleaning.line(snapshot.forked_from.session_id)))
    return facts


def _remarks(tree: MessageTree, subagents: int, cleaning: DocumentSanitiser) -> list[str]:
    remarks = []
    if tree.elsewhere:
        many = format_count(tree.elsewhere, "message")
        remarks.append(f"{many} of earlier conversations in this session: not shown.")
    if subagents > MOST_SUBSESSIONS:
        remarks.append(f"It has {subagents:,} sub-sessions, of which the first {MOST_SUBSESSIONS} are named.")
    if tree.snapshot.queue:
        remarks.append(f"{format_count(len(tree.snapshot.queue), 'message')} still in the queue.")
    outcome = tree.snapshot.last_outcome
    if outcome is not None and outcome.status != "completed":
        why = f": {cleaning.line(outcome.error, 400)}" if outcome.error else ""
        remarks.append(f"How the last turn ended: {outcome.status.replace('_', ' ')}{why}")
    return remarks


def spent(usage: sc.Usage) -> str:
    """Describe how many tokens were used, and their cost."""
    return ", ".join(usage_figures(usage)) or ("no tokens" if not usage.cost_micros else dollars(usage.cost_micros))


def moment(time_ms: int) -> str:
    """Format a time independently of locale and time zone; one outside the calendar is printed as a number."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
