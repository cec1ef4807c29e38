"""What both kinds of document write of a conversation, and in which order; each kind says how its elements look."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import attrs

import session_core as sc
from frontends.commands.export.document_text import MOST_CHARS, CutText, DocumentSanitiser
from frontends.commands.export.facts import DocumentFacts, SubSession, moment, spent
from frontends.shared.conversation.messages import describe_interruption
from frontends.shared.conversation.tool_calls import exit_code, find_child, find_diff, pretty_json, subject_of
from frontends.shared.figures import format_count

P = TypeVar("P", bound=str)
"""A piece of a document, in which foreign text is escaped."""

_SUBJECT_CHARS = 120
_CODE_CHARS = 200_000


@attrs.frozen(kw_only=True)
class DocumentWriter(ABC, Generic[P]):
    """Writes a session piece by piece.

    Each kind of document also has a `head` and an `end`.
    """

    about: DocumentFacts
    cleaning: DocumentSanitiser

    def message(self, message: sc.Message, branch: int = 0) -> Iterator[str]:
        """Write a message; `branch` is how many hidden messages continue from it."""
        used = "" if message.usage is None else spent(message.usage)
        parts = self._parts(message, branch)
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

    # --- parts --------------------------------------------------------------------------------------------------------

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

    def _parts(self, message: sc.Message, branch: int) -> Iterator[P]:
        for part in message.parts:
            yield from self._part(part)
        if branch:
            many = format_count(branch, "message")
            yield self._remark(f"Another branch goes on from here, with {many}: not shown.")

    def _partial_parts(self, partial: sc.PartialMessage) -> Iterator[P]:
        for part in partial.parts:
            text, title = str(part.text), f"{self.cleaning.line(part.tool_name or part.kind)}, not whole"
            match part.kind:
                case "text":
                    yield from self._text(text)
                case "thinking":
                    yield self._thinking(title, text)
                case _:
                    yield self._section("call", title, self._block(text))
        yield self._remark(
            "This answer was never finished." if self.about.is_over else "This answer was being written."
        )

    def _part(self, part: sc.Part) -> Iterator[P]:
        match part:
            case sc.TextPart(text=text):
                yield from self._text(text)
            case sc.CodePart(text=text):
                yield from self._block(text, most=_CODE_CHARS)
            case sc.ThinkingPart(text=text):
                if text.strip():
                    yield self._thinking("thinking", text)
            case sc.ImagePart():
                yield self._image(part)
            case sc.FilePart(name=name, text=text):
                yield self._section("file", f"file {self.cleaning.line(name)}", self._block(text))
            case sc.ToolCallPart():
                yield self._call(part)
            case sc.ToolResultPart():
                yield self._result(part)
            case sc.InterruptedPart(reason=reason):
                yield self._remark(f"Cut short: {self.cleaning.line(describe_interruption(reason))}.")

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

    def _call(self, part: sc.ToolCallPart) -> P:
        """Write a call with its arguments.

        Their texts are cleaned first: in JSON, a control character in the middle of a key would become a harmless
        escape, and the key would no longer be recognised.
        """
        arguments = _clean_object(part.arguments, self.cleaning)
        subject = self.cleaning.line(subject_of(part.name, arguments), _SUBJECT_CHARS)
        title = f"calls {self.cleaning.line(part.name)} {subject}".rstrip()
        return self._section("call", title, self._block(pretty_json(arguments), "json"))

    def _result(self, part: sc.ToolResultPart) -> P:
        lines = part.text.count("\n") + 1 if part.text else 0
        much = format_count(lines, "line") if lines else "no text"
        code = exit_code(part)
        ended = f", exit code {code}" if code is not None else ""
        images = f", {format_count(len(part.images), 'image')}" if part.images else ""
        title = f"{self.cleaning.line(part.name)}: {part.status}{ended}, {much}{images}"
        child, diff = find_child(part), find_diff(part)
        content: list[P] = []
        if child is not None and child in self.about.subsessions:
            content.append(self._done_by(self.about.subsessions[child]))
        if diff is not None:
            content += self._block(diff, "diff")
        if part.text.strip():
            content += self._block(part.text)
        content += map(self._image, part.images)
        return self._section("result" if part.status == "success" else "failed", title, content)

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
