"""What is written and not sent yet, what is said, and how what could not be sent comes back. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

import session_core as sc
from frontends.terminal.composer.attached_files import Attachment, build_attachments
from frontends.terminal.composer.completion import escape_as_message
from frontends.terminal.composer.paste import Prompt
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget

NOTHING: Final = Prompt(text="")


@attrs.frozen(kw_only=True)
class PromptSubmission:
    """What somebody wants to say, and where.

    Attributes:
        prompt: How it was written; none if it comes from elsewhere.
        editing: What it replaces.
        offered: Files outside of the session's folder that were shown before they were sent; see `sending`.
    """

    text: str
    target: MessageTarget
    prompt: Prompt | None = None
    attached: tuple[Attachment, ...] = ()
    steer: bool = False
    editing: EditTarget | None = None
    offered: frozenset[str] = frozenset()

    @property
    def as_prompt(self) -> Prompt:
        """What to put into the input so that exactly this is said."""
        return self.prompt if self.prompt is not None else Prompt(text=escape_as_message(self.text))


@attrs.frozen(kw_only=True)
class Draft:
    """What is in a composer, to be put aside while another session is viewed.

    Attributes:
        editing: What it is to replace, if it is no new message.
        aside: What waits until that is sent or given up.
    """

    prompt: Prompt = NOTHING
    attached: tuple[Attachment, ...] = ()
    offered: frozenset[str] = frozenset()
    editing: EditTarget | None = None
    aside: Draft | None = None

    def edit(self, editing: EditTarget, parts: Iterable[sc.Part]) -> Draft:
        """Return what is said so far, to be said differently, with this draft waiting."""
        text, attached = read_parts(parts)
        aside = self if self.editing is None else self.aside
        return Draft(prompt=Prompt(text=escape_as_message(text)), attached=attached, editing=editing, aside=aside)

    def with_restored(self, submission: PromptSubmission) -> Draft:
        """Return it with what could not be sent, before what was written since; an edit and a message stay apart."""
        if submission.editing == self.editing:
            return self._merge(submission)
        if self.editing is None:
            return Draft(
                prompt=submission.as_prompt,
                attached=submission.attached,
                offered=submission.offered,
                editing=submission.editing,
                aside=self,
            )
        plain = attrs.evolve(submission, editing=None)
        return attrs.evolve(self, aside=(self.aside or Draft()).with_restored(plain))

    def _merge(self, submission: PromptSubmission) -> Draft:
        back, now = submission.as_prompt, self.prompt
        if now.text.strip():
            both = dict((*back.pastes, *now.pastes))
            if len(both) < len(back.pastes) + len(now.pastes):  # the same label twice: write one out
                back, both = Prompt(text=back.whole), dict(now.pastes)
            back = Prompt(text=f"{back.text}\n\n{now.text}", pastes=tuple(both.items()))
        parts = {id(each.part) for each in submission.attached}
        more = (each for each in self.attached if id(each.part) not in parts)
        return attrs.evolve(
            self, prompt=back, attached=(*submission.attached, *more), offered=self.offered | submission.offered
        )


def read_parts(parts: Iterable[sc.Part]) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a message and what goes along with it."""
    known = tuple(parts)
    return (
        "".join(part.text for part in known if isinstance(part, sc.TextPart)),
        build_attachments(
            [part for part in known if isinstance(part, sc.ImagePart)],
            [part for part in known if isinstance(part, sc.FilePart)],
        ),
    )
