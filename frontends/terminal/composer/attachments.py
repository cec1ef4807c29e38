"""The attachments of the prompt being written, shown as chips: dropped, pasted, and removed again."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from frontends.terminal.composer.attached_files import (
    Attachment,
    NotAttached,
    clipboard_image,
    clipboard_text,
    find_image_paths,
    join_attachments,
    read_image,
)
from frontends.terminal.composer.popup import Chips
from frontends.terminal.destination import MessageTarget

_UNREACHABLE = "The clipboard is empty or cannot be reached from here; paste with your terminal's own key."
_ELSEWHERE = "You have switched to another session, so nothing was pasted; paste again where it belongs."
TargetGetter = Callable[[], MessageTarget]


class AttachmentList:
    """Keeps the attachments of an input.

    Attributes:
        attachments: The current attachments.
    """

    def __init__(
        self,
        chips: Chips,
        start: Callable[[Callable[[], Awaitable[None]]], object],
        put_in: Callable[[str], object],
        tell: Callable[[str], object],
        changed: Callable[[], object],
    ) -> None:
        self.attachments: tuple[Attachment, ...] = ()
        self._chips = chips
        self._start = start
        self._put_in = put_in
        self._tell = tell
        self._changed = changed

    def show(self, attached: tuple[Attachment, ...]) -> None:
        """Replace all attachments by these."""
        self.attachments = attached
        self._chips.show(tuple(each.label for each in attached))
        self._changed()

    def drop(self, index: int) -> bool:
        """Remove one attachment; False if the index is out of range."""
        if not -len(self.attachments) <= index < len(self.attachments):
            return False
        remaining = list(self.attachments)
        del remaining[index]
        self.show(tuple(remaining))
        return True

    def paste(self, pasted: str, where: TargetGetter) -> None:
        """Attach the images whose paths were pasted or dropped; insert any other text."""
        paths = find_image_paths(pasted)
        if paths:
            self._start(partial(self._read, paths, pasted, where, where()))
        else:
            self._put_in(pasted)

    def paste_clipboard(self, own: str, where: TargetGetter) -> None:
        """Attach the image in the clipboard, or insert its text, or else the text this terminal last copied."""
        self._start(partial(self._ask_clipboard, own, where, where()))

    async def _read(self, paths: list[str], pasted: str, where: TargetGetter, target: MessageTarget) -> None:
        folder = Path(target.new.cwd)
        try:
            found = [await anyio.to_thread.run_sync(read_image, path, folder) for path in paths]
            if self._is_here(where, target):
                self.show(join_attachments(self.attachments, found))
        except NotAttached as error:
            self._tell(str(error))
            if where().is_same(target):
                self._put_in(pasted)

    async def _ask_clipboard(self, own: str, where: TargetGetter, target: MessageTarget) -> None:
        try:
            image = await clipboard_image()
            if image is not None:
                if self._is_here(where, target):
                    self.show(join_attachments(self.attachments, [image]))
                return
        except NotAttached as error:
            self._tell(str(error))
            return
        text = await clipboard_text() or own
        if not text:
            self._tell(_UNREACHABLE)
        elif self._is_here(where, target):
            self.paste(text, where)

    def _is_here(self, where: TargetGetter, target: MessageTarget) -> bool:
        """Return whether the result of a slow read is still wanted: it belongs to the session viewed at the start."""
        here = where().is_same(target)
        if not here:
            self._tell(_ELSEWHERE)
        return here
