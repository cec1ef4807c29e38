"""Keeps extensions from driving each other: the messages that may follow from what a person did last are counted.

A message of an extension may make another extension send one, in a hook or in a turn that follows, and so on. However
they do it, each such message joins the chain of its session, which begins anew whenever a person does something that
extensions may react to. A subagent's chain is that of the session that people watch.
"""

from collections.abc import Callable, Sequence
from typing import Final

from session_core import limits
from session_core.errors import ChainTooLong
from session_core.ids import ClientId, SessionId
from session_core.service.core import ServiceCore
from session_core.service.extension_api import extension_client, extension_of
from session_core.session.session import SpeakerChain
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev

ACTS_OF_PEOPLE: Final = frozenset(
    {
        *(c.SendUserMessage, c.StartTurnIfIdle, c.EditMessage, c.ResumeSession),
        *(c.RunCommand, c.AnswerDialog, c.PressWidgetKey),
    }
)
"""Commands with which a chain begins anew, if they do not come from an extension."""


def begin_anew(core: ServiceCore, session_id: SessionId | None, client_id: ClientId) -> None:
    """Begin a new chain, because a person has done something in a session."""
    session = core.sessions.get(session_id) if session_id is not None else None
    if session is not None and extension_of(client_id) is None:
        core.tree.find_root_session(session).chain = SpeakerChain()


def join_chain(core: ServiceCore, session_id: SessionId, extension: str, remark: Callable[[str, str], None]) -> None:
    """Let a message of an extension join the chain of its session, which must be in memory.

    Args:
        remark: Writes a sentence to the log of an extension.

    Raises:
        ChainTooLong: No more messages may follow from what a person did last; people and the extensions are told.
    """
    root = core.tree.find_root_session(core.session(session_id))
    chain = root.chain
    if len(chain.speakers) < limits.MAX_TURNS_OF_ONE_MESSAGE - 1:
        chain.speakers.append(extension)
        return
    message = _explain_cut(chain.speakers, extension)[: limits.MAX_ERROR_CHARS]
    if not chain.cut:
        chain.cut = True
        root.record(ev.NoticeShown(extension=extension, message=message, level="warn"), extension_client(extension))
        for each in dict.fromkeys((*chain.speakers, extension)):
            remark(each, message)
    raise ChainTooLong(message, field="session_id")


def _explain_cut(speakers: Sequence[str], extension: str) -> str:
    return (
        f"a message of the extension {extension} was refused, because {len(speakers)} messages of extensions have "
        f"followed already from what a person did last here ({' → '.join(speakers)}); they go on when a person does"
    )
