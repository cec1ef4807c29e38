"""The documents lead where they say they lead."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.docs._documents import ROOT, broken_links, documents, links

PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))


def test_links_between_documents_resolve() -> None:
    """Every link and picture of every document leads to a file, and to a heading where it names one."""
    assert [] == [fault for page in documents() for fault in broken_links(page)]


def test_no_document_is_out_of_reach() -> None:
    """Every page and picture under docs is linked from some page."""
    pages = documents()
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    wanted = [page for page in [*pages, *PICTURES] if page.is_relative_to(ROOT / "docs")]

    assert [] == [
        page.name for page in wanted if not any(page.name in text for other, text in texts.items() if other != page)
    ]


def test_the_readme_leads_to_every_document() -> None:
    """Somebody who begins at the README reaches every page by following links."""
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text(encoding="utf-8"))]
        ahead.extend(target for target in targets if target.suffix == ".md" and target.is_file())

    assert [] == [str(page.relative_to(ROOT)) for page in documents() if page not in reached]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[a](b.md)", []),
        ("[a](b.md#two-words)", []),
        ("[here](#one)\n\n# One", []),
        ("[there](https://example.org/x)", []),
        ("```\n[a](nowhere.md)\n```", []),
        ("[a](nowhere.md)", ["a.md: nowhere.md leads nowhere"]),
        ("![a](nowhere.svg)", ["a.md: nowhere.svg leads nowhere"]),
        ("[a](../)", ["a.md: ../ leads nowhere"]),
        ("[a](b.md#three)", ["a.md: b.md#three names a heading that is not there"]),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, text: str, faults: list[str]) -> None:
    """Links to missing files, missing headings and places outside the project are found, and good ones are not."""
    page = tmp_path / "a.md"
    page.write_text(text, encoding="utf-8")
    (tmp_path / "b.md").write_text("# Two `words`\n", encoding="utf-8")

    assert faults == list(broken_links(page, tmp_path))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_can_be_read_by_everyone(picture: Path) -> None:
    """Every picture is well-formed, says in words what it shows, and has colours for dark screens."""
    text = picture.read_text(encoding="utf-8")
    drawing = ET.fromstring(text)
    words = {child.tag.rpartition("}")[2]: child.text for child in drawing}

    assert words["title"]
    assert words["desc"]
    assert "prefers-color-scheme: dark" in text
