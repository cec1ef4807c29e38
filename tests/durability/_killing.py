"""Starting a victim, killing it at a random moment, and reading what it reported until then."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import trio

from tests.durability import _victim
from tests.durability._clients import Promises

ROOT = Path(__file__).parents[2]
START_UP_S, END_S = 0.04, 0.01
"""A bit longer than opening and closing take, so that most such kills come in the middle of it."""


@attrs.frozen(kw_only=True)
class Moment:
    """When to kill: this long after this many lines of this kind were reported."""

    after: str
    count: int
    delay_s: float

    @classmethod
    def drawn(cls, random: Random) -> "Moment":
        """Draw a moment: mostly in the midst of work, now and then while opening or closing."""
        when = random.choice(("done", "done", "done", "sent", "sent", "refused", "opening", "closing"))
        match when:
            case "opening":
                return cls(after=when, count=1, delay_s=random.uniform(0, START_UP_S))
            case "closing":
                return cls(after=when, count=1, delay_s=random.uniform(0, END_S))
            case "refused":
                return cls(after=when, count=random.randrange(1, 8), delay_s=0)
            case _:
                delay_s = random.choice((0, 0, random.uniform(0, 0.01)))
                return cls(after=when, count=random.randrange(1, 140), delay_s=delay_s)

    def counts(self, line: dict[str, Any]) -> bool:
        """Tell whether a line is of the kind that is counted."""
        return self.after in line or line.get("stage") == self.after


async def kill_at(moment: Moment, *arguments: str) -> list[dict[str, Any]]:
    """Run a victim and kill it at a moment, or at its end if that comes first; returns its whole report."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", _victim.__name__, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    report, errors = bytearray(), bytearray()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain, process.stderr, errors)
            seen, read_up_to = 0, 0
            while seen < moment.count and (chunk := await process.stdout.receive_some()):
                report += chunk
                end = report.rfind(b"\n") + 1
                seen += sum(moment.counts(line) for line in _lines(report[read_up_to:end]))
                read_up_to = end
            await trio.sleep(moment.delay_s)
            process.kill()
            await _drain(process.stdout, report)
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()
    assert process.returncode in {0, -signal.SIGKILL}, errors.decode()
    return _lines(report)


async def _drain(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
    async for chunk in stream:
        into += chunk


def _lines(report: bytes | bytearray) -> list[dict[str, Any]]:
    """Read the lines that were written to their end."""
    return [json.loads(line) for line in bytes(report).split(b"\n")[:-1]]


def promises_in(*reports: Sequence[dict[str, Any]]) -> Promises:
    """Read what clients were promised, over several lives of the service."""
    promises = Promises()
    for life, report in enumerate(reports):
        for line in report:
            if "sent" in line:
                promises.sent(attrs.evolve(sent := _victim.read_sent(line), number=_number(life, sent.number)))
            elif "done" in line:
                sent = promises.asked[_number(life, line["done"])]
                promises.replied(sent, _victim.read_reply(line, sent))
            elif "refused" in line:
                promises.refused(promises.asked[_number(life, line["refused"])])
    return promises


def _number(life: int, number: int) -> int:
    return life * 1_000_000 + number
