"""Asking a person before something is interrupted."""

import os
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.console.output import Output
from frontends.console.streams import Streams
from frontends.serving.ending import _may_interrupt, _terminate


@pytest.mark.parametrize(
    ("typed", "agreed"), [(b"y\n", True), (b"YES\n", True), (b"\n", False), (b"n\n", False), (b"what\n", False)]
)
async def test_a_person_is_asked(*, typed: bytes, agreed: bool, tmp_path: Path) -> None:
    """Only a clear yes interrupts what runs."""
    reading, writing = os.pipe()
    try:
        os.write(writing, typed)
        with (tmp_path / "err").open("w", encoding="utf-8") as err:
            streams = Streams(out=Output(None), err=Output(err), keyboard=reading)
            assert agreed == await _may_interrupt(tmp_path, ["7k2f", "9x3d"], streams)
    finally:
        os.close(reading)
        os.close(writing)
    asked = await trio.Path(tmp_path / "err").read_text()
    assert "? 2 sessions are at work (7k2f, 9x3d). Interrupt them? [y/N] " == asked


async def test_nobody_can_be_asked(tmp_path: Path) -> None:
    """Without a terminal the answer is no, with what to type instead."""
    streams = Streams(out=Output(None), err=Output(None))
    with pytest.raises(sc.Conflict, match=r"a session is at work \(7k2f\); .* session-core shutdown .*--force"):
        await _may_interrupt(tmp_path, ["7k2f"], streams)


@pytest.mark.parametrize(
    "holder", [sc.Holder(pid=0, program="", since=0, host=""), sc.Holder(pid=1, program="x", since=0, host="far-away")]
)
def test_only_a_known_process_of_this_machine_is_signalled(holder: sc.Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else a lock file may say, no process is ended by its number alone."""
    sent: list[object] = []
    monkeypatch.setattr(os, "kill", lambda *about: sent.append(about))
    with pytest.raises(sc.Unavailable, match="cannot be asked to end from here"):
        _terminate(holder)
    assert [] == sent
