"""The measurements of extensions: each one asks a real program, all ways ask the same, and what is missing is said."""

import math
import shutil
from pathlib import Path

import pytest
import trio

from bench import __main__ as program
from bench import extension_holds, extension_ways, extensions, peer_host, spawn, store_material
from bench.measure import NotMeasured, Result, needing
from session_core.sep.host.extension import HostedExtension
from tests._needs import needs_node


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
@needs_node
async def test_a_host_is_measured_beside_the_peer() -> None:
    """The case, in small, measures our host, the obvious one and the peer's with one and the same extension."""
    try:
        peer_host.check_there_is_a_peer()
    except NotMeasured as missing:
        pytest.skip(str(missing))

    best = await extensions._asked(4, 8, 1)

    assert {(op, way) for op in extension_ways.OPS for way in ("ours", "obvious", "peer")} == set(best)
    check_measured(extensions._result("extensions", 4, 1.8, best))


@needs_node
@pytest.mark.slow
async def test_extensions_that_are_not_asked_are_measured() -> None:
    """A tool call is timed without extensions, with some that are not asked, and with one that is."""
    check_measured(await extensions._unasked(2, 1))


@needs_node
@pytest.mark.slow
async def test_our_way_really_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of request reaches the extension as often as it was to be made."""
    asked: list[str] = []
    request = HostedExtension.request

    async def counted(extension: HostedExtension, method: str, *args: object, **settings: object) -> object:
        asked.append(method)
        return await request(extension, method, *args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(HostedExtension, "request", counted)
    async with extension_ways.running(extension_ways.add_extension(tmp_path, "tried", "tool_call")) as (extension,):
        for op in extension_ways.OPS:
            await extension_ways.our_way(extension).take(op, 2, 3)

    assert [*["ping"] * 6, *["tool/execute"] * 6, *["hook"] * 6] == asked


def test_the_slowest_kind_counts() -> None:
    """The ratio of a comparison is that of the kind of request that gains least."""
    best: extensions.Best = {
        (op, way): (wall, 1.0)
        for op, ours in zip(extension_ways.OPS, (10.0, 40.0, 20.0), strict=True)
        for way, wall in (("ours", ours), ("obvious", 80.0), ("peer", 60.0))
    }

    result = extensions._result("extensions", 32, 1.8, best)

    assert (1.5, False) == (result.ratio, result.passed)
    assert (100_000, 6) == (
        result.details["ping, our host, requests per second"],
        result.details["ping, our host / the peer's"],
    )


@pytest.mark.parametrize("missing", ["node", peer_host.PACKAGE])
def test_what_is_missing_is_said(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without node or the peer's package the comparison is not measured, says why, and fails nothing."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else f"/bin/{name}")
    monkeypatch.setattr(peer_host, "_MODULE", "no_such_module")

    assert 0 == program.main(["--only", "extensions"])
    assert f"not measured: {missing} is not installed" in capsys.readouterr().out


def test_a_case_that_needs_a_program() -> None:
    """A case that needs a program which is not there is not run; one whose program is there is."""
    result = Result(name="x", title="x", ratio=1, target=1, comparison="at most")

    assert result == needing("sh", lambda: result)()
    with pytest.raises(NotMeasured, match="no-such-program is not installed"):
        needing("no-such-program", lambda: result)()


@pytest.mark.slow
@needs_node
async def test_starts_are_measured(scratch: Path) -> None:
    """An extension with the SDK, bare Python processes and a bare Node peer are all started and all answer."""
    await trio.Path(scratch).mkdir()
    node = shutil.which("node")
    assert node is not None

    best = await spawn.measure_starts(spawn.programs_in(scratch, node), 1)

    assert {"sdk", "trio", "python", "node"} == best.keys()
    assert all(0 < seconds < math.inf for seconds in best.values())
    assert best["python"] < best["sdk"], "loading libraries takes time"


@pytest.mark.slow
async def test_a_hold_of_the_loop_is_measured() -> None:
    """The case, in small, runs a turn in which an extension misbehaves, and measures some CPU of the loop."""
    assert 0 < await extension_holds._hold_of("bus") < 60
    assert "extension_holds" in program.CASES
