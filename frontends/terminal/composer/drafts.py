"""Unsent text, messages to send, and how unsent messages come back. Values only."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

import session_core as sc
from frontends.terminal.composer.attached_files import Attachment, build_attachments
from frontends.terminal.composer.completion import escape_as_message
from frontends.terminal.composer.paste import Prompt
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget


@attrs.frozen(kw_only=True)
class PromptSubmission:
    """A message to send, and its target.

    Attributes:
        prompt: The input as written; None if the message comes from elsewhere.
        editing: The message it replaces.
        offered: Files outside the session's folder that were shown before sending; see `mentions`.
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
        """Return the input that sends exactly this message."""
        return self.prompt if self.prompt is not None else Prompt(text=escape_as_message(self.text))


@attrs.frozen(kw_only=True)
class Draft:
    """The content of a composer, kept while another session is viewed.

    Attributes:
        editing: The message it replaces; None for a new message.
        aside: The draft that waits until the edit is sent or cancelled.
    """

    prompt: Prompt = attrs.field(factory=Prompt)
    attached: tuple[Attachment, ...] = ()
    offered: frozenset[str] = frozenset()
    editing: EditTarget | None = None
    aside: Draft | None = None

    def edit(self, editing: EditTarget, parts: Iterable[sc.Part]) -> Draft:
        """Return a draft that edits a message, with this draft waiting."""
        text, attached = read_parts(parts)
        aside = self if self.editing is None else self.aside
        return Draft(prompt=Prompt(text=escape_as_message(text)), attached=attached, editing=editing, aside=aside)

    def with_restored(self, submission: PromptSubmission) -> Draft:
        """Return the draft with an unsent message before anything written since; an edit and a message stay apart."""
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
            if len(both) < len(back.pastes) + len(now.pastes):  # a label occurs twice: expand one
                back, both = Prompt(text=back.whole), dict(now.pastes)
            back = Prompt(text=f"{back.text}\n\n{now.text}", pastes=tuple(both.items()))
        parts = {id(each.part) for each in submission.attached}
        more = (each for each in self.attached if id(each.part) not in parts)
        return attrs.evolve(
            self, prompt=back, attached=(*submission.attached, *more), offered=self.offered | submission.offered
        )


def read_parts(parts: Iterable[sc.Part]) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a message and its attachments."""
    known = tuple(parts)
    return "".join(part.text for part in known if isinstance(part, sc.TextPart)), build_attachments(known)
