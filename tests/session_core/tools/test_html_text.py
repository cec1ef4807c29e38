"""HTML to text: what a reader sees, and pages made to hurt."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session_core.tools.html_text import PageText, html_to_text
from tests._mostly_slow import mostly_slow

BASE = "https://example.org/docs/page"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h1>One</h1><h3>Two <b>three</b></h3>text", "# One\n\n### Two three\n\ntext"),
        ("<p>a\n  b<br>c<p>d", "a b\nc\n\nd"),
        ("x <a href='/a'>a <i>link</i></a>, y", "x [a link](https://example.org/a), y"),
        (
            "<a href=b>b</a> <a href='#here'>here</a> <a href='javascript:x()'>js</a>",
            "[b](https://example.org/docs/b) here js",
        ),
        ("<a href='x (1)'>brackets</a>", "[brackets](https://example.org/docs/x%20%281%29)"),
        ("<base href='https://other.example/'><a href='x'>x</a>", "[x](https://other.example/x)"),
        ("<a href='x'><div>block</div></a>after", "[block](https://example.org/docs/x)\nafter"),
        ("<a href='http://[x'>broken</a> <a>plain</a>", "broken plain"),
        ("<ul><li>a<li>b<ol><li>c</li><li>d</ol></li><li>e</ul>f", "- a\n- b\n  1. c\n  2. d\n- e\n\nf"),
        ("<pre>def f():\n    return '&lt;'\n</pre>", "```\ndef f():\n    return '<'\n```"),
        ("<pre><code>a ``` b</code></pre>", "````\na ``` b\n````"),
        ("use <code>x  y</code>", "use `x y`"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2|3</table>", "| a | b |\n| --- | --- |\n| 1 | 2\\|3 |"),
        ("<table><tr><td>only</table>", "only"),
        ("<table><tr><td>menu<td><table><tr><td>x<td>y</table></table>z", "menu\n| x | y |\n| --- | --- |\n\nz"),
        ("<blockquote><p>said</p></blockquote>so", "> said\n\nso"),
        ("a<script>if (a < b) '</p>'</script><style>p{}</style><svg><title>no</title></svg>b", "ab"),
        ("a<!-- <p>hidden</p> -->b<!doctype x><?php ?>c", "abc"),
        ("&lt;b&gt; &amp;amp; &eacute;&#x41;&#0;", "<b> &amp; éA\ufffd"),
        ("<img src=x alt='A cat'><img src=y>", "[image: A cat]"),
        ("a<hr>b", "a\n\n---\nb"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<P CLASS=x ID='y' HIDDEN>loud</P>", "loud"),
        ("<p title='a > b'>kept</p>", "kept"),
        ("", ""),
    ],
)
def test_what_a_reader_sees(page: str, text: str) -> None:
    """Each kind of content comes out as a reader expects it."""
    assert text == html_to_text(page, base_url=BASE).text


def test_the_title_is_told() -> None:
    """The title of the page is kept apart from its text."""
    page = "<html><head><title> A &amp;\n B </title></head><body>text</body>"
    assert PageText(title="A & B", text="text", complete=True) == html_to_text(page)


def test_a_long_page_is_cut() -> None:
    """A page that is longer than asked for is cut, and says so."""
    assert PageText(title="", text="a" * 10, complete=False) == html_to_text("a" * 11, limit=10)
    assert html_to_text("a" * 10, limit=10).complete
    assert len(html_to_text("<a href=x>y</a> " * 1_000, base_url=BASE + "z" * 900, limit=500).text) <= 500


@given(page=st.text(alphabet=st.sampled_from(list("<>/!-= \"'&;#abp\n")) | st.characters(), max_size=200))
@example(page="&#" + "9" * 5_000 + ";")
def test_no_page_breaks_it(page: str) -> None:
    """Whatever a server sends, text comes out and stays within its bound."""
    found = html_to_text(page, base_url=BASE, limit=100)
    assert len(found.text) <= 100


@given(words=st.lists(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_no_word_is_lost(words: list[str]) -> None:
    """Words outside of scripts all come out, in their order, whatever blocks they stand in."""
    blocks = ["<p>{}</p>", "<div>{}</div>", "<b>{}</b> ", "<li>{}</li>", "<h2>{}</h2>", " {}<br>"]
    page = "".join(blocks[number % len(blocks)].format(word) for number, word in enumerate(words))

    text = html_to_text(page).text

    assert words == [word for word in text.split() if word not in {"-", "##"}]


@pytest.mark.parametrize(
    "piece",
    mostly_slow(
        [
            "<!--",
            "<a ",
            '<a b="',
            "<a '",
            "</a ",
            "<!a",
            "<",
            "&#",
            "<ul><li>",
            "<blockquote>x",
            "<table><tr><td>x",
            "<svg>",
            "<script></scr",
            "<a = = ",
            "<pre>",
            "<a href=x>y",
            "<title>",
            "<a" + " " * 1_000,
        ],
        quick=6,
    ),
)
def test_pages_made_to_hurt_take_linear_time(piece: str) -> None:
    """Four times the page takes about four times as long; a parser that goes back would take sixteen times."""

    def seconds(size: int) -> float:
        page = piece * (size // len(piece))
        took = []
        for _ in range(3):
            start = time.process_time()
            html_to_text(page, base_url=BASE, limit=10_000_000)
            took.append(time.process_time() - start)
        return min(took)

    assert seconds(100_000) < max(0.05, 9 * seconds(25_000))
