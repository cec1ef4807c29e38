"""A session as a document for people: whatever was said in it, the document is ours alone."""

import base64
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.commands.export import facts
from frontends.commands.export.conversation import MessageTree
from frontends.commands.export.document import Document
from frontends.commands.export.document_text import MOST_CHARS, DocumentSanitiser
from frontends.commands.export.html import POLICY, STYLE, HtmlDocument
from frontends.commands.export.markdown import MarkdownDocument
from frontends.commands.export.paragraphs import DocumentPassage, passages
from frontends.shared.conversation.blocks import build_conversation
from session_core.vocabulary.frozen import Rope
from session_core.vocabulary.messages import PartKind, Role
from session_core.vocabulary.sessions import ForkOrigin
from tests.frontends._hostile import hostile_strings
from tests.frontends._kept import summary
from tests.frontends._page import Page, blocks_in, outside_fences, without_code

HOSTILE = hostile_strings()
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
CALL = sc.CallId("call")


def arguments(text: str) -> sc.JsonObject:
    return sc.wire.decode(
        sc.wire.encode({"key": text.encode("utf-8", "replace").decode(), "deep": [{"x": [1, None]}]}), sc.JsonObject
    )


def result(text: str, **changes: object) -> sc.ToolResultPart:
    made = sc.ToolResultPart(call_id=CALL, name="tool", status="success", text=text)
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


PARTS: Mapping[str, Callable[[str], sc.Part]] = {
    "text": lambda text: sc.TextPart(text=text),
    "code": lambda text: sc.CodePart(text=text),
    "thinking": lambda text: sc.ThinkingPart(text=text, signature=text),
    "image data": lambda text: sc.ImagePart(media_type="image/png", data=text),
    "image type": lambda text: sc.ImagePart(media_type=text, data=PIXEL),  # type: ignore[arg-type]
    "file name": lambda text: sc.FilePart(name=text, text="x"),
    "file text": lambda text: sc.FilePart(name="x", text=text),
    "call name": lambda text: sc.ToolCallPart(call_id=CALL, name=text, arguments=arguments("x")),
    "call id": lambda text: sc.ToolCallPart(call_id=sc.CallId(text), name="x", arguments=arguments("x")),
    "call arguments": lambda text: sc.ToolCallPart(call_id=CALL, name="x", arguments=arguments(text)),
    "result name": lambda text: result("x", name=text),
    "result text": result,
    "result diff": lambda text: result("x", details=sc.JsonObject({"diff": f"--- a\n+{text}\n-{text}\n{text}"})),
    "result details": lambda text: result("x", details=sc.JsonObject({text: text, "session_id": text})),
    "result images": lambda text: result("x", images=(sc.ImagePart(media_type="image/gif", data=text),)),
    "failed result": lambda text: result(text, status="error"),
    "interrupted": lambda text: sc.InterruptedPart(reason=text),  # type: ignore[arg-type]
}
"""Every field of every kind of part that a text can get into, also those that are checked before."""


def snapshot(text: str = "x", **changes: object) -> sc.SessionSnapshot:
    """A session with a text in every field of its state that a document tells of."""
    state = sc.SessionState(session_id=sc.SessionId("ses_1"))
    made = attrs.evolve(
        state.snapshot(sc.Cursor(epoch=sc.Epoch("e"), seq=0)),
        session_id=sc.SessionId(text),
        name=text,
        parent_id=sc.SessionId(text),
        forked_from=ForkOrigin(session_id=sc.SessionId(text), message_id=None),
        settings=sc.Settings(model=text, cwd=text),
        usage=sc.Usage(input_tokens=1200, output_tokens=34, cost_micros=4200),
        usage_by=(sc.UsageLine(model=text, source=text, calls=2, usage=sc.Usage(input_tokens=3)),),
        plan=(sc.PlanItem(text=text),),
        last_outcome=sc.TurnOutcome(turn_id=sc.TurnId("t"), status="failed", error=text),
    )
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


def story(
    text: str, *parts: sc.Part, unusual: bool = False, role: Role = "assistant"
) -> tuple[facts.DocumentFacts, sc.Message]:
    """What a document tells of a session with one message."""
    state = snapshot(text if unusual else "x")
    tree = MessageTree(snapshot=state, shown_numbers=frozenset({0}), branches={}, elsewhere=2)
    helper = summary("ses_helper", text if unusual else "x", parent_id=state.session_id)
    told = facts.build_document_facts(tree, [helper], DocumentSanitiser(), abandoned=True)
    message = sc.Message(
        message_id=sc.MessageId("m"),
        parent_id=None,
        role=role,
        parts=parts,
        created_at=1_800_000_000_000,
        model=text if unusual else "m",
        source=text if unusual else None,
        usage=sc.Usage(input_tokens=5, cost_micros=100),
    )
    return told, message


def pieces(document: Document, message: sc.Message, text: str = "x") -> Iterator[str]:
    yield from document.head()
    for each, blocks in build_conversation([message]):
        yield from document.message(each, blocks, 3)
    kinds: tuple[PartKind, ...] = ("tool_call", "thinking")
    partial = [sc.PartialPart(kind=kind, text=Rope(text), tool_name=text) for kind in kinds]
    started = sc.LiveTool(call_id=CALL, name=text, arguments=arguments("x"), started_at=0)
    yield from document.render_partial(
        sc.PartialMessage(
            message_id=sc.MessageId("p"),
            parent_id=None,
            turn_id=sc.TurnId("t"),
            model="m",
            started_at=0,
            parts=tuple(partial),
        )
    )
    yield from document.render_running_tool(started)
    yield from document.render_running_tool(attrs.evolve(started, result=result(text)))
    yield from document.end()


def page_of(text: str, *parts: sc.Part, unusual: bool = False) -> Page:
    told, message = story(text, *parts, unusual=unusual)
    return Page("".join(pieces(HtmlDocument(about=told, cleaning=DocumentSanitiser()), message, text)))


def markdown_of(text: str, *parts: sc.Part, unusual: bool = False) -> str:
    told, message = story(text, *parts, unusual=unusual)
    return "".join(pieces(MarkdownDocument(about=told, cleaning=DocumentSanitiser()), message, text))


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_the_corpus_is_large() -> None:
    """There are at least 300 hostile strings."""
    assert 300 <= len(HOSTILE)


@pytest.mark.parametrize("field", PARTS)
def test_nothing_foreign_becomes_part_of_a_page(field: str) -> None:
    """Whatever stands in a field of a part, the page holds our elements and attributes only, and each closed."""
    page_of("x", *map(PARTS[field], HOSTILE))


def test_no_fact_becomes_part_of_a_page() -> None:
    """Names, models, folders, plans, failures and helpers change not one element of a page."""
    usual = page_of("x", unusual=True).structure
    for text in HOSTILE[::3]:  # there is one page for each
        assert usual == page_of(text, unusual=True).structure


def test_no_shell_line_becomes_structure() -> None:
    """A command that the user ran, and its output, change nothing around them in either kind of document."""

    def written(kind: type[Document], text: str) -> str:
        ran = sc.TextPart(text=f"I have run this command myself:\n\n$ {text}\n\n{text}")
        told, message = story("x", ran, role="user")
        return "".join(pieces(kind(about=told, cleaning=DocumentSanitiser()), message))

    for text in HOSTILE[::3]:
        Page(written(HtmlDocument, text))
        assert_sound(written(MarkdownDocument, text))


@pytest.mark.parametrize("field", ["code", "thinking", "file text", "call arguments", "result text", "failed result"])
def test_literal_texts_change_no_element(field: str) -> None:
    """A text that stands as it is in its block leaves the elements around it as they were."""
    usual = page_of("x", *[PARTS[field]("x") for _ in HOSTILE]).structure

    assert usual == page_of("x", *map(PARTS[field], HOSTILE)).structure


def test_all_is_there_to_be_read() -> None:
    """What is harmless on a terminal is readable in the page, letter by letter."""
    page = page_of("x", *(sc.CodePart(text=text) for text in HOSTILE))

    assert not [text for text in HOSTILE if DocumentSanitiser().text(text).strip("\n") not in page.text]


@given(text=st.text(max_size=200), field=st.sampled_from(sorted(PARTS)))
def test_any_text_in_any_field(text: str, field: str) -> None:
    """The same holds for texts that nobody has thought of, in both kinds of document."""
    page_of(text, PARTS[field](text), unusual=True)
    assert_sound(markdown_of(text, PARTS[field](text), unusual=True))


def test_a_page_stands_alone() -> None:
    """A page has a policy that lets a browser load nothing, no script and no address, and knows light and dark."""
    told, message = story("x", sc.TextPart(text="hello"))
    markup = "".join(pieces(HtmlDocument(about=told, cleaning=DocumentSanitiser()), message))

    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in markup
    assert "unsafe" not in POLICY
    assert not [word for word in ("<script", "http://", "https://", "url(", "@import", "src=") if word in markup]
    assert "prefers-color-scheme: dark" in STYLE
    assert f"<style>{STYLE}</style>" in markup  # or the policy would not let it count


def test_images_are_in_the_page_itself() -> None:
    """An image whose bytes are of the kind it says is shown, and any other is only mentioned."""
    good = sc.ImagePart(media_type="image/png", data=PIXEL)
    svg = base64.b64encode(b"<svg onload=alert(1)>" * 4).decode()
    bad = [
        sc.ImagePart(media_type="image/png", data=svg),
        sc.ImagePart(media_type="image/jpeg", data=PIXEL),
        sc.ImagePart(media_type="image/svg+xml", data=svg),  # type: ignore[arg-type]
        sc.ImagePart(media_type="image/png", data=f'{PIXEL}" onload="x'),
        sc.ImagePart(media_type="image/png", data=""),
    ]

    assert [f"data:image/png;base64,{PIXEL}"] == page_of("x", good, result("x", images=tuple(bad)), *bad).images


# --- Markdown ---------------------------------------------------------------------------------------------------------


def assert_sound(markdown: str) -> None:
    """Outside of fences there are our headings, prose, and lists: no HTML, link, table, rule or other block."""
    lines = outside_fences(markdown)
    ours = {line for line in lines if line.startswith(("# ", "## ", "### "))}
    for line in lines:
        assert "<" not in line
        assert line in ours or not blocks_in(line), line
        bare = without_code(line)
        assert not {"[", "]", "|", "$", "~", "`"} & set(bare), line


@pytest.mark.parametrize("field", PARTS)
def test_nothing_foreign_becomes_structure(field: str) -> None:
    """Whatever stands in a field of a part, it makes no heading, HTML, link, table or open fence in Markdown."""
    written = [markdown_of("x", *map(PARTS[field], texts)) for texts in (["x"] * len(HOSTILE), HOSTILE)]
    usual, found = ([line.split(" ")[0] for line in outside_fences(each) if line[:1] == "#"] for each in written)

    assert_sound(written[1])
    assert usual == found


def test_no_fact_becomes_structure() -> None:
    """Names, models, folders, plans, failures and helpers change not one block of a Markdown text."""
    usual = [line[:2] for line in outside_fences(markdown_of("x", unusual=True))]
    for text in HOSTILE:
        markdown = markdown_of(text, unusual=True)
        assert_sound(markdown)
        assert len(usual) == len(outside_fences(markdown))


def test_prose_stays_readable() -> None:
    """Lists, emphasis and short code stay what they are, headings become bold, and lines end where they ended."""
    text = "# Title\nfirst *line*\nsecond `code` line\n- one\n  - two\n\n```python\na < b\n```\n5 < 6 [x](y) `a<b>`"

    written = markdown_of("x", sc.TextPart(text=text))

    assert (
        "**Title**  \nfirst *line*  \nsecond `code` line  \n- one\n    - two\n\n```python\na < b\n```\n\n"
        "5 &lt; 6 \\[x\\](y) \\`a&lt;b&gt;\\`\n\n"
    ) in written


def test_a_fence_is_longer_than_any_inside() -> None:
    """Backticks in a text never close the fence around it."""
    written = markdown_of("x", result("````` five\n```\n"))

    assert "``````\n````` five\n```\n``````\n" in written


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [markdown_of, lambda *given: page_of(*given).text])
def test_long_texts_are_cut_with_a_remark(write: Callable[..., str]) -> None:
    """Of a result that is very long the beginning is kept, and how much there was is said."""
    written = write("x", result("word " * 10_000))

    assert f"Cut here: these are the first {MOST_CHARS:,} of 50,000 characters." in written
    assert len(written) < MOST_CHARS * 2


@pytest.mark.parametrize("write", [markdown_of, lambda *given: page_of(*given).text])
def test_keys_are_masked(write: Callable[..., str]) -> None:
    """What looks like a key does not leave with the document, not even in two pieces or at a cut."""
    key = "sk-ant-REDACTED"
    hidden = f"{key[:8]}\x1b[0m{key[8:]}"
    texts = (key, hidden, "x" * (MOST_CHARS - 10) + " " + key + "y" * 20_000, "\x1b[0m" * 6_000 + key * 1000)
    for text in texts:
        for make in (
            PARTS[each] for each in ("text", "thinking", "file text", "file name", "call arguments", "result diff")
        ):
            written = write("x", make(text), result(text))
            assert key[8:] not in written
            assert key[:16] not in written


def test_keys_of_the_configuration_are_masked() -> None:
    """A key that is known here is masked whatever it looks like."""
    assert "use *** now" == DocumentSanitiser(secrets=(sc.setup.Secret("hunter22-hunter"),)).text(
        "use hunter22-hunter now"
    )


def test_facts_and_folds() -> None:
    """A page tells of usage, cost, helpers, branches and other conversations, and folds calls, results and thoughts."""
    change = sc.JsonObject({"diff": "@@ 1 @@\n+new\n-old\n same", "session_id": "ses_helper"})
    told, message = story("x", sc.ThinkingPart(text="hm"), result("done\n", details=change))
    markup = "".join(pieces(HtmlDocument(about=told, cleaning=DocumentSanitiser()), message))

    for expected in (
        "1,200 tokens in, 34 out, $0.0042",
        "2 messages of earlier conversations in this session: not shown.",
        "Another branch goes on from here, with 3 messages: not shown.",
        '<details class="thinking"><summary>thinking</summary>',
        '<details class="result"><summary>tool: success, 1 line</summary><p class="remark"><a href="#sub-1">x</a></p>',
        '<span class="add">+new</span>\n<span class="del">-old</span>\n same',
        '<li id="sub-1">x: session-core export ses_helper --format html</li>',
    ):
        assert expected in markup


def test_passages() -> None:
    """Code stands between two lines of backticks or tildes, of which the second is at least as long."""
    text = "a\n```py x\nb\n~~~\n````\nc\n~~~~\nd\n~~~\n\n"

    assert [
        DocumentPassage(text="a"),
        DocumentPassage(text="b\n~~~", code=True, language="py"),
        DocumentPassage(text="c"),
        DocumentPassage(text="d\n~~~\n\n", code=True),
    ] == list(passages(text))
