"""What is written and not sent yet, what is said, and how what could not be sent comes back. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

import session_core as sc
from frontends.terminal.completion import as_message
from frontends.terminal.images import Attachment, attachments
from frontends.terminal.options import Editing
from frontends.terminal.pasting import Prompt
from frontends.terminal.target import Target

NOTHING: Final = Prompt(text="")


@attrs.frozen(kw_only=True)
class Said:
    """What somebody wants to say, and where.

    Attributes:
        prompt: How it was written; none if it comes from elsewhere.
        editing: What it replaces.
        offered: Files outside of the session's folder that were shown before they were sent; see `sending`.
    """

    text: str
    target: Target
    prompt: Prompt | None = None
    attached: tuple[Attachment, ...] = ()
    steer: bool = False
    editing: Editing | None = None
    offered: frozenset[str] = frozenset()

    @property
    def written(self) -> Prompt:
        """What to put into the input so that exactly this is said."""
        return self.prompt if self.prompt is not None else Prompt(text=as_message(self.text))


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
    editing: Editing | None = None
    aside: Draft | None = None

    def edit(self, editing: Editing, parts: Iterable[sc.Part]) -> Draft:
        """Return what is said so far, to be said differently, with this draft waiting."""
        text, attached = read_parts(parts)
        aside = self if self.editing is None else self.aside
        return Draft(prompt=Prompt(text=as_message(text)), attached=attached, editing=editing, aside=aside)

    def restored(self, said: Said) -> Draft:
        """Return it with what could not be sent, before what was written since; an edit and a message stay apart."""
        if said.editing == self.editing:
            return self._joined(said)
        if self.editing is None:
            return Draft(
                prompt=said.written, attached=said.attached, offered=said.offered, editing=said.editing, aside=self
            )
        plain = attrs.evolve(said, editing=None)
        return attrs.evolve(self, aside=(self.aside or Draft()).restored(plain))

    def _joined(self, said: Said) -> Draft:
        back, now = said.written, self.prompt
        if now.text.strip():
            both = dict((*back.pastes, *now.pastes))
            if len(both) < len(back.pastes) + len(now.pastes):  # the same label twice: write one out
                back, both = Prompt(text=back.whole), dict(now.pastes)
            back = Prompt(text=f"{back.text}\n\n{now.text}", pastes=tuple(both.items()))
        parts = {id(each.part) for each in said.attached}
        more = (each for each in self.attached if id(each.part) not in parts)
        return attrs.evolve(self, prompt=back, attached=(*said.attached, *more), offered=self.offered | said.offered)


def read_parts(parts: Iterable[sc.Part]) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a message and what goes along with it."""
    known = tuple(parts)
    return (
        "".join(part.text for part in known if isinstance(part, sc.TextPart)),
        attachments(
            [part for part in known if isinstance(part, sc.ImagePart)],
            [part for part in known if isinstance(part, sc.FilePart)],
        ),
    )
