"""What a session has used, as a table."""

import pytest
from rich.console import Console

import session_core as sc
from frontends.terminal.screens.usage import usage_table


def costs(*micros: int) -> list[str]:
    """Draw a table of calls with these costs, and return its last column."""
    lines = tuple(
        sc.UsageLine(model="m", source="turn", calls=1, usage=sc.Usage(cost_micros=each, estimated=not each))
        for each in micros
    )
    console = Console(width=100)
    with console.capture() as caught:
        console.print(usage_table(lines, sc.Usage(cost_micros=sum(micros))))
    return [line.split("  ")[-1].strip() or line.split()[-1] for line in map(str.rstrip, caught.get().splitlines())][1:]


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        ((131_400, 1_800), ["$0.1314", "$0.0018", "$0.1332"]),
        ((131_400, 2_500_000), ["$0.13", "$2.50", "$2.63"]),
        ((0,), ["unknown", "unknown"]),
        ((131_400, 0), ["$0.13", "unknown", "$0.13"]),
    ],
)
def test_costs_can_be_compared(micros: tuple[int, ...], shown: list[str]) -> None:
    """All costs of a table have the same number of digits, and one that nobody knows is called so."""
    assert costs(*micros) == shown
