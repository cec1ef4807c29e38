"""What both kinds of document write of a conversation, and in which order; each kind says how its elements look."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import attrs

import session_core as sc
from frontends.commands.export.document_text import MOST_CHARS, CutText, DocumentSanitiser
from frontends.commands.export.facts import DocumentFacts, SubSession, moment, spent
from frontends.shared.conversation import blocks
from frontends.shared.conversation.tool_calls import (
    find_child,
    find_diff,
    outcome_of,
    pretty_json,
    readable_text,
    subject_of,
)
from frontends.shared.figures import format_count

P = TypeVar("P", bound=str)
"""A piece of a document, in which foreign text is escaped."""

_SUBJECT_CHARS = 120
_BETWEEN = "\n\n"
"""Between a command and its output; no command of a person holds an empty line."""
_CODE_CHARS = 200_000


@attrs.frozen(kw_only=True)
class DocumentWriter(ABC, Generic[P]):
    """Writes a session piece by piece.

    Each kind of document also has a `head` and an `end`.
    """

    about: DocumentFacts
    cleaning: DocumentSanitiser

    def message(self, message: sc.Message, content: Sequence[blocks.Block], branch: int = 0) -> Iterator[str]:
        """Write a message with these blocks; `branch` is how many hidden messages continue from it.

        Results that stand under their calls need no message of their own.
        """
        if message.role == "tool" and not content and not branch:
            return iter(())
        used = "" if message.usage is None else spent(message.usage)
        parts = self._parts(content, branch)
        return self._article(message.role, self._speaker(message), moment(message.created_at), used, parts)

    def render_partial(self, partial: sc.PartialMessage) -> Iterator[str]:
        """Write an incomplete answer."""
        return self._article("assistant", self.cleaning.line(partial.model), "", "", self._partial_parts(partial))

    def render_running_tool(self, tool: sc.LiveTool) -> Iterator[str]:
        """Write a tool call whose result is not part of the conversation yet."""
        if tool.result is not None:
            yield self._result(tool.result)
        else:
            yield self._remark(f"{self.cleaning.line(tool.name)} had begun and had no result yet.")

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _speaker(self, message: sc.Message) -> str:
        by = f", inserted by {self.cleaning.line(message.source)}" if message.source is not None else ""
        match message.role:
            case "user":
                return f"You{by}"
            case "assistant":
                return (self.cleaning.line(message.model) if message.model else "Model") + by
            case "tool":
                return "Tools"
            case "summary":
                return f"Summary of what came before{by}"

    def _parts(self, content: Sequence[blocks.Block], branch: int) -> Iterator[P]:
        for block in content:
            yield from self._render(block)
        if branch:
            many = format_count(branch, "message")
            yield self._remark(f"Another branch goes on from here, with {many}: not shown.")

    def _partial_parts(self, partial: sc.PartialMessage) -> Iterator[P]:
        for index, part in enumerate(partial.parts):
            yield from self._render(blocks.growing_block(str(index), part, str(part.text), growing=True))
        yield self._remark(
            "This answer was never finished." if self.about.is_over else "This answer was being written."
        )

    def _render(self, block: blocks.Block) -> Iterator[P]:
        match block:
            case blocks.UserMessageBlock():
                yield from self._user_message(block)
            case blocks.AnswerBlock(text=text, code=True, growing=True):
                yield self._section("call", "code, not whole", self._block(text))
            case blocks.AnswerBlock(text=text, code=True):
                yield from self._block(text, most=_CODE_CHARS)
            case blocks.AnswerBlock(text=text) | blocks.SummaryBlock(text=text):
                yield from self._text(text)
            case blocks.ThinkingBlock(text=text, growing=growing):
                yield self._thinking("thinking, not whole" if growing else "thinking", text)
            case blocks.AttachmentBlock(attachment=attachment):
                yield self._attachment(attachment)
            case blocks.ToolBlock():
                yield from self._tool(block)
            case blocks.RemarkBlock(text=text):
                yield self._remark(f"Cut short: {self.cleaning.line(text)}.")
            case _:  # an entry, which only its extension could show
                pass

    def _user_message(self, block: blocks.UserMessageBlock) -> Iterator[P]:
        if block.command is None:
            yield from self._text(block.text)
        else:
            yield self._shell_line(block, block.command)
        yield from map(self._attachment, block.attachments)

    def _shell_line(self, block: blocks.UserMessageBlock, command: str) -> P:
        """Write a command that the user ran, with its output.

        Both are cleaned together: the name of a key may end the one, and the key begin the other.
        """
        output, ended = blocks.split_shell_output(block)
        command, _, output = self.cleaning.text(f"{command}{_BETWEEN}{output}").partition(_BETWEEN)
        title = ", ".join([f"! {self.cleaning.line(command, _SUBJECT_CHARS)}", *map(self.cleaning.line, ended)])
        content = self._block(output) if output.strip() else []
        if len(command) > _SUBJECT_CHARS or "\n" in command:  # the title does not hold all of it
            content = [*self._block(command, "sh"), *content]
        return self._section("failed" if ended else "result", title, content)

    def _attachment(self, attachment: sc.ImagePart | sc.FilePart) -> P:
        if isinstance(attachment, sc.ImagePart):
            return self._image(attachment)
        return self._section("file", f"file {self.cleaning.line(attachment.name)}", self._block(attachment.text))

    def _tool(self, block: blocks.ToolBlock) -> Iterator[P]:
        if block.writing is not None:
            title = f"{self.cleaning.line(block.name) or 'a tool'}, not whole"
            yield self._section("call", title, self._block(block.writing))
        if block.arguments is not None:
            yield self._call(block.name, block.arguments)
        if block.result is not None:
            yield self._result(block.result)

    def _block(self, text: str, language: str = "", *, most: int = MOST_CHARS) -> list[P]:
        cut = self.cleaning.bounded(text, most)
        return [self._verbatim(cut.text, language), *self._cut(cut)]

    def _thinking(self, title: str, text: str) -> P:
        cut = self.cleaning.bounded(text)
        return self._section("thinking", title, [self._thought(cut.text), *self._cut(cut)])

    def _cut(self, cut: CutText) -> list[P]:
        if cut.whole is None:
            return []
        return [self._remark(f"Cut here: these are the first {len(cut.text):,} of {cut.whole:,} characters.")]

    def _call(self, name: str, given: sc.JsonObject) -> P:
        """Write a call with its arguments.

        Their texts are cleaned first: in JSON, a control character in the middle of a key would become a harmless
        escape, and the key would no longer be recognised.
        """
        arguments = _clean_object(given, self.cleaning)
        subject = self.cleaning.line(subject_of(name, arguments), _SUBJECT_CHARS)
        title = f"calls {self.cleaning.line(name)} {subject}".rstrip()
        return self._section("call", title, self._block(pretty_json(arguments), "json"))

    def _result(self, part: sc.ToolResultPart) -> P:
        text, outcome = readable_text(part), outcome_of(part)
        lines = len(text.splitlines())
        much = format_count(lines, "line") if lines else "no text"
        ended = "success" if outcome.level == "done" else outcome.words
        images = f", {format_count(len(part.images), 'image')}" if part.images else ""
        title = f"{self.cleaning.line(part.name)}: {ended}, {much}{images}"
        child, diff = find_child(part), find_diff(part)
        content: list[P] = []
        if child is not None and child in self.about.subsessions:
            content.append(self._done_by(self.about.subsessions[child]))
        if diff is not None:
            content += self._block(diff, "diff")
        if text.strip():
            content += self._block(text)
        content += map(self._image, part.images)
        return self._section("result" if outcome.level == "done" else "failed", title, content)

    # --- the elements of each kind of document ------------------------------------------------------------------------

    @abstractmethod
    def _article(self, role: str, who: str, when: str, used: str, parts: Iterator[P]) -> Iterator[str]:
        """Write a message: who speaks, when, what it used, and its parts."""

    @abstractmethod
    def _text(self, text: str) -> Iterator[P]:
        """Write what somebody says: prose, with code blocks in it."""

    @abstractmethod
    def _verbatim(self, text: str, language: str) -> P: ...

    def _thought(self, text: str) -> P:
        return self._verbatim(text, "")

    @abstractmethod
    def _section(self, kind: str, title: str, content: Sequence[P]) -> P:
        """Write a part of a message with a title of its own."""

    @abstractmethod
    def _image(self, image: sc.ImagePart) -> P: ...

    @abstractmethod
    def _done_by(self, subsession: SubSession) -> P:
        """Write which session did the work of a call."""

    @abstractmethod
    def _remark(self, sentence: str) -> P: ...


def _clean_object(value: sc.JsonObject, cleaning: DocumentSanitiser) -> sc.JsonObject:
    return sc.JsonObject({cleaning.text(key): _clean(each, cleaning) for key, each in value.items()})


def _clean(value: sc.JsonValue, cleaning: DocumentSanitiser) -> sc.JsonValue:
    match value:
        case str():
            return cleaning.text(value)
        case sc.JsonObject():
            return _clean_object(value, cleaning)
        case tuple():
            return tuple(_clean(each, cleaning) for each in value)
        case _:
            return value
