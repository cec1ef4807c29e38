"""Times, sizes and places in people's words."""

from pathlib import Path

import pytest

from frontends.shared.figures import (
    clock_time,
    dollars,
    duration,
    format_ago,
    format_count,
    format_path,
    format_size,
    format_tokens,
    local_time,
)
from tests.frontends._kept import NOW

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("past", "said"),
    [
        (-5 * HOUR, "just now"),
        (59 * SECOND, "just now"),
        (MINUTE, "1 min ago"),
        (59 * MINUTE + 59 * SECOND, "59 min ago"),
        (HOUR, "1 h ago"),
        (DAY - 1, "23 h ago"),
        (DAY, "1 day ago"),
        (30 * DAY, "30 days ago"),
    ],
)
def test_how_long_ago(past: int, said: str) -> None:
    """Each age is told in the unit that suits it, and a clock that went back confuses nobody."""
    assert said == format_ago(NOW - past, NOW)


def test_long_ago_is_a_date() -> None:
    """What is older than a month is told by its date."""
    assert f"{local_time(NOW - 31 * DAY):%Y-%m-%d}" == format_ago(NOW - 31 * DAY, NOW)


def test_the_time_of_day() -> None:
    """Of today the time is enough, and of other days the date is told too."""
    noon = local_time(NOW).replace(hour=12, minute=5)
    at = int(noon.timestamp() * 1000)

    assert "12:05" == clock_time(at, at)
    assert f"{noon:%Y-%m-%d} 12:05" == clock_time(at, at + 3 * DAY)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 KB"),
        (9_949, "9.9 KB"),
        (9_950, "10 KB"),
        (999_499, "999 KB"),
        (999_500, "1.0 MB"),
        (20_000_000, "20 MB"),
        (3_500_000_000, "3.5 GB"),
        (5_000_000_000_000_000, "5,000 TB"),
    ],
)
def test_sizes(count: int, said: str) -> None:
    """Sizes are told with two digits or so, in the unit that suits them, and never as 1000 of one."""
    assert said == format_size(count)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/home/me", "~"), ("/home/me/a/b", "~/a/b"), ("/home/meant", "/home/meant"), ("/srv", "/srv"), ("", "")],
)
def test_places(path: str, said: str) -> None:
    """What lies in the user's directory is written with a ~, and only that."""
    assert said == format_path(path, Path("/home/me"))


def test_dollars() -> None:
    """Small amounts keep the digits that matter, larger ones have two."""
    said = [dollars(micros) for micros in (0, 7, 100, 4_200, 99_999, 250_000, 1_234_567_890)]

    assert ["$0.0000", "under $0.0001", "$0.0001", "$0.0042", "$0.1000", "$0.25", "$1,234.57"] == said


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (980, "980"),
        (1_000, "1k"),
        (1_234, "1.2k"),
        (8_192, "8.2k"),
        (131_072, "131k"),
        (999_999, "999k"),
        (1_000_000, "1M"),
        (1_047_576, "1.05M"),
    ],
)
def test_tokens(count: int, text: str) -> None:
    """Numbers of tokens fit into a few characters."""
    assert text == format_tokens(count)


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [(0.25, "0.2 ms"), (9.94, "9.9 ms"), (12, "12 ms"), (1500, "1.5 s"), (125_000, "2 min 5 s")],
)
def test_durations_for_people(milliseconds: float, said: str) -> None:
    """Each length of time is told in the unit that suits it."""
    assert said == duration(milliseconds)


def test_numbers_with_their_nouns() -> None:
    """One is singular, all else plural, and thousands are separated."""
    assert ["1 step", "0 steps", "1,200 steps"] == [format_count(number, "step") for number in (1, 0, 1200)]
