"""JSON on a terminal means what it says, and controls nothing; in a file it is what it was."""

import ast
import io
import json
import os
import sys
import tty
import unicodedata
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import frontends
import session_core as sc
from frontends.commands.watch.watch import WatchOptions, _Watching
from frontends.shared.output import Output
from frontends.shared.sanitise import dump_json, escape_json
from frontends.shared.streams import StandardStreams
from tests.frontends._kept import session_core

EVIL = "\x1b]0;x\x07\x9b31m\x85\x7f\u202e\u200b\u2066\ufeff\U000e0041\u2028\xad\0 é 漢 😀"
_DUMPED_ELSEWHERE = {
    "server/daemon/background.py",  # a pipe between two of our own processes
    "shared/conversation/tool_calls.py",  # shown by the terminal, which cleans it
    "shared/conversation/work_lines.py",  # lines for people, which are cleaned as a whole
    "commands/settings/project_effects.py",
    "shared/trial_run.py",  # measured, not printed
    "server/http/openapi.py",  # our own text
    "shared/sanitise.py",
}


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp"} for each in text if each != "\n")


@given(st.text())
def test_escaped_json_means_the_same(text: str) -> None:
    """Whatever a text holds, its JSON loses nothing and nothing in it controls a terminal."""
    for written in (
        escape_json(sc.wire.encode(sc.JsonObject({"text": text})).decode()),
        dump_json({"text": text}),
        dump_json({"text": text}, indent=2),
    ):
        assert json.loads(written) == {"text": text}
        assert is_harmless(written)


def test_what_can_be_read_stays_readable() -> None:
    """Letters of all languages and pictures are not escaped, and what has several lines keeps them."""
    assert escape_json('{"a": "é 漢 😀"}\n{}\n') == '{"a": "é 漢 😀"}\n{}\n'


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_json_on_a_terminal(size: int) -> None:
    """Bytes for a terminal are escaped, wherever they are cut into pieces."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    line = sc.wire.encode(sc.JsonObject({"text": EVIL})) + b"\n"
    with open(theirs, "w", encoding="utf-8") as stream, open(ours, "rb", buffering=0) as reader:  # noqa: ASYNC230, PTH123
        output, said = Output(stream), b""
        for place in range(0, len(line), size):
            await output.write_json(line[place : place + size])
        while not said.endswith(b"\n"):
            said += await trio.to_thread.run_sync(reader.read, 4096)
    assert json.loads(said) == {"text": EVIL}
    assert is_harmless(said.decode())


class Screen(io.TextIOWrapper):
    """A file that says it is a terminal."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.open("wb"), encoding="utf-8")

    def isatty(self) -> bool:
        return True


async def keep_talk(home: Path, folder: Path) -> None:
    """Keep a session in this folder, in which a person has said what a hostile page might say."""
    config = sc.ServiceConfig(
        store=sc.SqliteStore(home), models={"demo": sc.DemoProvider(pace_ms=0)}, cwd=str(folder), tools=()
    )
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session(name="talk")).session_id
        await service.send_user_message(session_id, EVIL)
        await service.wait_for_turn(session_id)


@pytest.mark.parametrize(
    "command",
    [
        ["export", "talk", "-"],
        ["show", "talk", "--json"],
        ["sessions", "--json"],
        ["sessions", "--json", "--search", "é"],
        pytest.param(["run", "--json", "--continue", "go on"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_commands_that_print_json(
    command: list[str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command prints of a session on a terminal is JSON, and nothing in it controls the terminal."""
    folder = tmp_path / "a\x9b31m\x7f\u202eb"
    folder.mkdir()
    monkeypatch.chdir(folder)
    trio.run(keep_talk, home, folder)
    with Screen(tmp_path / "screen") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        assert 0 == session_core(*command)
    said = (tmp_path / "screen").read_text(encoding="utf-8")
    assert all(isinstance(json.loads(line), dict) for line in said.splitlines())
    assert "\\u009b" in said
    assert is_harmless(said)


async def test_watching_prints_json(tmp_path: Path) -> None:
    """The same holds for what `watch --json` prints of all sessions."""
    notice = sc.events.SessionRenamed(name=EVIL)
    event = sc.SessionEvent(seq=1, sseq=1, session_id=sc.SessionId("ses_a"), at=1, event=notice)
    with Screen(tmp_path / "screen") as screen:
        streams = StandardStreams(out=Output(screen), err=Output(None))
        await _Watching(WatchOptions(home=tmp_path, json=True), streams)._write([event], str)
    said = (tmp_path / "screen").read_text(encoding="utf-8")
    assert event == sc.wire.decode(said.strip(), sc.SessionEvent)
    assert is_harmless(said)


async def test_json_in_a_file(tmp_path: Path) -> None:
    """Files and pipes get the bytes as they are."""
    line = sc.wire.encode(sc.JsonObject({"text": EVIL})) + b"\n"
    with (tmp_path / "file").open("w", encoding="utf-8") as stream:
        await Output(stream).write_json(line)
    assert await trio.Path(tmp_path / "file").read_bytes() == line


def test_all_json_for_people_is_written_in_one_place() -> None:
    """No command prints what `json.dumps` or `encode` returns: both leave characters that control a terminal."""
    top = Path(frontends.__file__).parent
    found = set()
    for file in sorted(top.rglob("*.py")):
        for call in (each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)):
            said = ast.unparse(call.func)
            arguments = " ".join(map(ast.unparse, call.args))
            if said == "json.dumps" or (said.endswith(("out.write", "err.write")) and "encode(" in arguments):
                found.add(str(file.relative_to(top)))
    assert found <= _DUMPED_ELSEWHERE, found - _DUMPED_ELSEWHERE


def test_printable_ascii_needs_no_terminal_check() -> None:
    """`dump_json` is the same for everybody: printable ASCII."""
    assert dump_json({"a": EVIL}).isascii()
    assert dump_json({"a": EVIL}).isprintable()
