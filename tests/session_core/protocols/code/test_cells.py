"""Cells in what a model writes: which one is run, and what is said where none can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.protocols.code.cells import (
    CellFinding,
    EmptyCell,
    ForeignBlock,
    FoundCell,
    MalformedCell,
    NoCell,
    UnclosedCell,
    find_cell,
)


def fenced(code: str, fence: str = "```", language: str = "python") -> str:
    """Write a cell."""
    return f"{fence}{language}\n{code}\n{fence}"


@pytest.mark.parametrize("language", ["python", "py", "python3", " python", "\tpy", "PY", "python  ", "Python\r"])
def test_the_names_of_the_language(language: str) -> None:
    """A cell may call its language by each of its names, with space around them."""
    assert FoundCell(code="x = 1\n") == find_cell(f"So:\n{fenced('x = 1', language=language)}\nbye")


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("```python\na\n\nb\n```", "a\n\nb\n"),
        ("```python\na\n```   \n", "a\n"),
        ("```python\na\n`````", "a\n"),
        ("```python\r\na\r\nb\r\n```\r\n", "a\nb\n"),
        ("````python\nt = '''\n```\nx\n```\n'''\n````", "t = '''\n```\nx\n```\n'''\n"),
        ("````python\nt = '''\n```python\nx\n```\n'''\n````", "t = '''\n```python\nx\n```\n'''\n"),
        ("1. So:\n   ```python\n   if a:\n       b\n   ```\n", "if a:\n    b\n"),
        ("  ```python\n  a\nb\n```\n", "a\nb\n"),
        ("```python\nprint('```')\nx = 1  # ```\n```", "print('```')\nx = 1  # ```\n"),
        ("```python\na\n    ```\nb\n```", "a\n    ```\nb\n"),
        ("```bash\nls\n```\n```python\na\n```", "a\n"),
        ("````md\n```python\nno\n```\n````\n```python\nyes\n```", "yes\n"),
        ("~~~\n```python\nno\n```\n~~~\n```python\nyes\n```", "yes\n"),
        (f"```js\n```{' ' * 100}x\n```\n```python\nyes\n```", "yes\n"),
        ("a ``` b\n``` c ``` d\n```python\nyes\n```", "yes\n"),
    ],
)
def test_the_code_of_a_cell(written: str, code: str) -> None:
    """The code is what stands between the fences; those that are shorter, or within a line, are part of it."""
    assert FoundCell(code=code) == find_cell(written)


@pytest.mark.parametrize(
    ("written", "finding"),
    [
        ("", NoCell()),
        ("just words", NoCell()),
        ("`python` and ``python``", NoCell()),
        ("say ```python\nx\n```", UnclosedCell()),  # the fence that closes nothing opens something
        ("say ```python``` or ```py x", NoCell()),
        ("> ```python", NoCell()),
        ("    ```python\n    x", NoCell()),
        ("~~~python\nx\n~~~", NoCell()),
        ("~~~python\nx\n```python\n", NoCell()),
        ("`" * 33 + "python\nx", ForeignBlock(language="python")),
        ("```bash\nls\n```", ForeignBlock(language="bash")),
        ("``` js title\nx\n```", ForeignBlock(language="js")),
        ("```\nx\n```", ForeignBlock(language="")),
        ("```pythonic\nx\n```", ForeignBlock(language="pythonic")),
        ("```py-config\nx\n```", ForeignBlock(language="py-config")),
        ("```" + "x" * 500 + "\n```", ForeignBlock(language="x" * 30)),
        ("```js\n1\n```\n```sh\n2\n```", ForeignBlock(language="js")),
        ("```python\n```", EmptyCell()),
        ("```python\n \n\t\n```", EmptyCell()),
        ("```python", UnclosedCell()),
        ("```python\nx = 1", UnclosedCell()),
        ("```python\nx = 1```", UnclosedCell()),
        ("````python\nx = 1\n```", UnclosedCell()),
        ("so:\n```", UnclosedCell()),
        ("so:\n```pyt", UnclosedCell()),
    ],
)
def test_what_is_no_cell_to_run(written: str, finding: CellFinding) -> None:
    """Prose, blocks of other languages, empty cells and unclosed ones are told apart."""
    assert finding == find_cell(written)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("```python x = 1\n```", "after the language"),
        ("```python print(1)```", "after the language"),
        ("```python\nx = 1\n```python\ny = 2\n```", "second Python fence"),
        ("```bash\nls\n```python\nx\n```", "inside another block"),
        ("```\n````py\nx\n````\n", "inside another block"),
        ("So: ```python\nx\n```\n", "line of its own"),
        ("1. ``` py \r\nx\n```\n", "line of its own"),
    ],
)
def test_fences_that_cannot_be_read(written: str, why: str) -> None:
    """Where fences leave open what is to run, nothing is, and the reason is said."""
    found = find_cell(written)
    assert isinstance(found, MalformedCell)
    assert why in found.reason


@pytest.mark.parametrize(
    ("after", "more"),
    [("", False), ("\nthe output is 4", False), ("\n```bash\nls\n```", False), (f"\nand\n{fenced('y')}", True)],
)
def test_only_the_first_cell_is_run(after: str, more: bool) -> None:  # noqa: FBT001
    """What follows the first cell is dropped, and further cells are noticed."""
    assert FoundCell(code="x\n", more=more) == find_cell(fenced("x") + after)


@given(st.text(alphabet="a `\n\r~", max_size=40).filter(lambda code: code.strip() != ""), st.text(max_size=20))
def test_any_code_can_be_written(code: str, before: str) -> None:
    """Whatever the code holds, a fence that is longer than all within it carries it unchanged but for line ends."""
    fence = "`" * (max(3, *map(len, code.replace("\n", " ").split())) + 1)
    prose = before.replace("`", "").replace("~", "")
    assert FoundCell(code=f"{code}\n".replace("\r\n", "\n")) == find_cell(f"{prose}\n{fenced(code, fence)}")


@given(st.text(alphabet="ab `~\n\r", max_size=60) | st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    """There is a finding for every text, and a cell never comes from a text without its language."""
    found = find_cell(text)
    assert not isinstance(found, FoundCell) or "py" in text.lower()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("\n", NoCell()),
        (" ", NoCell()),
        ("~", NoCell()),
        ("`", NoCell()),
        ("word ", NoCell()),
        ("``` ", NoCell()),
        ("```\n", ForeignBlock(language="")),
        ("```python\n", UnclosedCell()),
        ("   ```py``` \n", MalformedCell(reason="there is text after the language on the line of the opening fence")),
    ],
)
def test_long_answers(text: str, finding: CellFinding) -> None:
    """A million characters of fences, spaces or empty lines are read like a few of them, in time that is linear."""
    assert finding == find_cell(text * (1_000_000 // len(text)))
