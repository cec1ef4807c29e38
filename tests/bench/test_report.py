"""What a run of the measurements says: the table, the file for programs, and the picture."""

import json
from collections.abc import Callable
from xml.etree import ElementTree as ET

import attrs
import pytest

from bench import __main__ as program
from bench.measure import Result
from bench.picture import LEFT, LINE, RIGHT, picture, place_of
from bench.report import document, misses, ratio_text, table

HIT = Result(name="good", title="a < b & c", ratio=1 / 38, target=1 / 15, comparison="at most", details={"x, µs": 1.5})
MISS = Result(name="bad", title="slow / fast", ratio=1.86, target=1.5, comparison="at most", attempts=3)
EXACT = Result(name="exact", title="ticks", ratio=2, target=2, comparison="at most")


@pytest.mark.parametrize(
    ("ratio", "text"), [(1 / 38, "1/38"), (0.96, "0.96"), (1.0, "1"), (1.5, "1.50"), (52.4, "52"), (0.0, "0")]
)
def test_ratio_text(ratio: float, text: str) -> None:
    """Ratios are written as people say them, small ones as fractions."""
    assert text == ratio_text(ratio)


def test_table() -> None:
    """The table shows each verdict, and that a result is the best of several runs."""
    assert [
        "      case  ratio  target        what is compared",
        "ok    good   1/38  at most 1/15  a < b & c",
        "MISS  bad    1.86  at most 1.50  slow / fast (best of 3 runs)",
    ] == table([HIT, MISS]).splitlines()


def test_misses_are_named() -> None:
    """Each missed target is named with its ratio and what it should be; hits are not."""
    assert ["bad: slow / fast is 1.86, and should be at most 1.50"] == misses([HIT, MISS, EXACT])


def test_document() -> None:
    """The file for programs holds every figure, the number of runs, and nothing that names the machine."""
    content = json.loads(document([HIT, MISS], {"fold": 0.12345}))

    assert [(True, 1), (False, 3)] == [(each["passed"], each["attempts"]) for each in content["results"]]
    assert (False, {"fold": 0.123}, {"x, µs": 1.5}) == (
        content["passed"],
        content["microseconds"],
        content["results"][0]["details"],
    )
    assert {"python", "implementation", "trio", "session_core", "system", "architecture", "cpus"} == set(
        content["machine"]
    )


def test_picture_is_drawn_to_scale() -> None:
    """The picture is sound XML with a bar per result: hits right of the line, misses left, exact hits a mark."""
    root = ET.fromstring(picture([HIT, MISS, EXACT]))
    bars = [each for each in root if each.get("class") in {"hit", "miss"}]
    spans = [(each.get("class"), float(each.get("x", "")), float(each.get("width", ""))) for each in bars]

    assert ["hit", "miss", "hit"] == [kind for kind, _, _ in spans]
    assert (LINE, LINE, LINE) == (spans[0][1], round(spans[1][1] + spans[1][2]), spans[2][1])
    assert spans[0][2] > 100 > spans[2][2] > 0


@pytest.mark.parametrize(
    ("margin", "place"),
    [(1, LINE), (4, RIGHT), (2, (LINE + RIGHT) / 2), (1e9, RIGHT), (float("inf"), RIGHT), (0, LEFT)],
)
def test_place_of(margin: float, place: float) -> None:
    """The scale is logarithmic, the target lies on the line, and nothing lies outside."""
    assert place == place_of(margin, 2)


@pytest.mark.parametrize(("outcome", "code"), [(HIT, 0), (MISS, 1)])
def test_a_miss_fails_the_run(
    outcome: Result, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1 when a target is missed, which is named on the error output, and else 0."""
    cases: dict[str, Callable[[], Result]] = {"case": lambda: attrs.evolve(outcome, attempts=1)}
    monkeypatch.setattr(program, "CASES", cases)

    assert code == program.main(["--only", "case"])
    assert ("MISSED bad" in capsys.readouterr().err) == bool(code)
