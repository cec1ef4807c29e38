"""The measurements of the server: real processes, clients that get what was published, and what is missing is said."""

import json
import math
import resource
import subprocess
from pathlib import Path

import attrs
import pytest

from bench import __main__ as program
from bench import server_clients, server_driver, server_load, server_trouble, store_material
from bench.measure import NotMeasured, Result


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything that is measured within the test's own folder."""
    place = tmp_path / "scratch"
    monkeypatch.setattr(store_material, "SCRATCH", place)
    return place


def check_measured(result: Result) -> None:
    """Fail unless a result holds figures, and is on offer."""
    assert result.name in program.CASES
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))


@pytest.mark.slow
def test_idle_clients_are_weighed() -> None:
    """The case, in small, weighs the clients of both listeners and of hypercorn alone."""
    result = server_load._idle_clients(30, 0.2)

    used = {name: result.details[name] for name in result.details if name.endswith("% of a CPU")}
    assert 3 == len(used)
    assert all(0 <= figure < 100 for figure in used.values()), "within so short a time a server may do nothing at all"
    check_measured(attrs.evolve(result, details={k: v for k, v in result.details.items() if k not in used}))


@pytest.mark.slow
def test_fan_out_is_measured() -> None:
    """The case, in small, measures both listeners and plain apps, which all send one message for a burst."""
    result = server_load._fan_out(3, 2, 1)

    check_measured(result)
    assert 1 == result.details[f"messages for each burst of {server_load.BURST} events and reader, at most"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", server_load.KINDS)
def test_a_burst_reaches_everybody_whole(kind: str) -> None:
    """Every client of either listener gets every event of a burst, and nothing else is counted."""
    with server_load.serving() as server:
        for connect in (server_clients.websockets, server_clients.unix_clients):
            with server_load._our_way(server, kind, connect, 2) as way:
                heard: list[bytes] = []
                way.crowd.read_until(way.program.ask(**way.task)["seq"], heard.append)

            batches = [json.loads(message)["params"]["items"] for message in heard]
            assert [server_load.BURST] * 2 == [sum(item.get("merged", 1) for item in batch) for batch in batches]


@pytest.mark.slow
def test_a_stalled_neighbour_is_measured() -> None:
    """The case, in small, times every event to every reader, beside a client that does not read and without it."""
    result = server_trouble._stalled_neighbour(2, 20, 1)

    check_measured(result)
    assert 20 == result.details["events to one reader in a round"]


@pytest.mark.slow
def test_a_shutdown_is_measured() -> None:
    """The case, in small, ends a real service whose clients have not got all that was sent."""
    check_measured(
        server_trouble._shutdown_result([server_trouble._shut_down(1, 1)], 1, server_trouble._shut_down(2, 0), 2)
    )


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without uvicorn there is nothing to compare with; that is said, and fails nothing."""
    monkeypatch.setattr(server_driver, "find_spec", lambda name: None if name == "uvicorn" else object())

    assert 0 == program.main(["--only", "fan_out"])
    assert "not measured: uvicorn is not installed" in capsys.readouterr().out


def test_too_few_files_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not allow as many connections as are needed is not measured."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 128))

    with pytest.raises(NotMeasured, match="200 open files are needed, but the system allows 128"):
        server_driver.make_room_for(200)


def test_a_program_that_ends_early_is_told_and_gone() -> None:
    """A program that fails at once is an error, not an endless wait, and leaves no process."""
    with pytest.raises(RuntimeError, match="ended early"), server_driver.running("-c", "pass"):
        pass


def test_a_program_that_says_nothing_is_told_and_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs, and does not even leave when it is told to, is given up and ended by force."""
    monkeypatch.setattr(server_driver, "PATIENCE_S", 0.1)
    monkeypatch.setattr(server_driver, "_END_S", 0.1)
    hanging = server_driver.start("-c", "import signal; signal.pause()", stderr=subprocess.DEVNULL)

    with pytest.raises(RuntimeError, match="sent nothing"):
        hanging.hear()
    hanging.end()

    assert -9 == hanging.process.returncode


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frames_are_cut_wherever_they_were_torn(size: int) -> None:
    """A client finds the messages in what a server sends, however long they are and wherever the bytes were torn."""
    message = b"x" * size
    length = (
        bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2) if size < 65_536 else b"\x7f" + size.to_bytes(8)
    )
    data = (b"\x81" + length + message) * 2
    cut = server_clients.WebSocketClient._cut

    for torn in (0, 1, 2, 3, len(data) // 2, len(data) - 1):
        first, rest = cut(None, data[:torn])  # type: ignore[arg-type]
        second, rest = cut(None, rest + data[torn:])  # type: ignore[arg-type]
        assert ([message] * 2, b"") == ([*first, *second], rest)


def test_all_but_one_in_a_hundred() -> None:
    """The 99th of a hundred samples is the one that is told, and of a few the largest."""
    assert (99, 3) == (server_driver.p99(range(100, 0, -1)), server_driver.p99([3, 1, 2]))


def test_the_dearer_kind_counts() -> None:
    """The ratio of the fan-out is that of the kind of event that costs more beside uvicorn."""
    found = {
        (kind, way): (1.0, cpu)
        for kind, ours in zip(server_load.KINDS, (2.0, 5.0), strict=True)
        for way, cpu in (("ours", ours), ("unix", 1.0), ("bare", 1.0), ("uvicorn", 1.0))
    }

    result = server_load._fan_out_result(found, 1_000_000, 100, 1)

    assert (5, False, 1_000) == (
        result.ratio,
        result.passed,
        result.details["words of one answer, uvicorn, thousand events per second to all"],
    )


def test_the_slowest_end_counts() -> None:
    """One end that takes too long misses the target, however fast the others were."""
    for some, many in (([0.5, 2.5, 1.0], 1.5), ([0.5, 1.0], 2.5)):
        result = server_trouble._shutdown_result(some, 20, many, 1_000)
        assert (1.25, False) == (result.ratio, result.passed)


def test_the_median_round_counts() -> None:
    """A single noisy round decides nothing about a stalled neighbour."""
    calm, noisy = [0.001] * 100, [0.001] * 50 + [1.0] * 50
    result = server_trouble._neighbour_result(
        server_trouble._Latencies([calm, calm, calm], [calm, noisy, calm]), readers=1
    )

    assert (1, True) == (result.ratio, result.passed)
