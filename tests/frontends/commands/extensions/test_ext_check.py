"""`session-core ext check`: a table for people, JSON for scripts, and an exit code for both."""

import json
import sys
from pathlib import Path

import pytest

import session_core as sc
from frontends.commands.extensions.check import report_lines
from frontends.shared.style import Style
from tests.frontends._kept import session_core
from tests.session_core.sep.conformance._broken import BROKEN, TRUSTING, WHOLE, in_folder

Said = pytest.CaptureFixture[str]
PLAIN = [sys.executable, "-I", "-S"]


def broken(name: str) -> str:
    return next(each for each in BROKEN if each.name == name).source()


def test_a_good_one(tmp_path: Path, capfd: Said) -> None:
    """An extension that keeps to the protocol gets a table of what was tried, one sentence, and exit code 0."""
    folder = in_folder(tmp_path / "good", WHOLE.read_text())

    code = session_core("ext", "check", str(folder))
    lines = capfd.readouterr().out.splitlines()

    assert 0 == code
    assert "subject 1.0" == lines[0]
    assert ["STEP", "TIME", "SEEN"] == lines[1].split()
    assert any(line.startswith("✓  handshake") for line in lines)
    assert lines[-1].startswith("It follows the protocol: ")
    assert "To be changed:" not in lines


def test_a_broken_one(tmp_path: Path, capfd: Said) -> None:
    """What has to be changed stands below the table with what was expected, and the exit code is 1."""
    folder = in_folder(tmp_path / "bad", broken("hook outcome of an unknown action"))

    code = session_core("ext", "check", str(folder))
    out = capfd.readouterr().out

    assert 1 == code
    assert "To be changed:\n✗ hook tool_call: its answer to hook does not fit the protocol: action: " in out
    assert "  expected: an action: continue, block or modify\n" in out
    assert "It does not follow the protocol: " in out


def test_advice(tmp_path: Path, capfd: Said) -> None:
    """What only makes an extension more robust stands below the table as advice, and the exit code is 0."""
    folder = in_folder(tmp_path / "trusting", TRUSTING.source())

    code = session_core("ext", "check", str(folder))
    out = capfd.readouterr().out

    assert 0 == code
    assert "Advice:\n● tool echo without the required argument" in out
    assert "To be changed:" not in out
    assert "It follows the protocol: " in out


def test_json_of_a_command_line(tmp_path: Path, capfd: Said) -> None:
    """A command line is checked with its own options after two dashes, and the report is one JSON object."""
    script = tmp_path / "it.py"
    script.write_text(broken("takes an unknown method for done"))

    code = session_core("ext", "check", "--json", "--timeout", "9", "--", *PLAIN, str(script))
    report = json.loads(capfd.readouterr().out)

    assert 1 == code
    assert {"target", "name", "version", "steps", "stderr", "counts", "good"} == set(report)
    assert (False, 1) == (report["good"], report["counts"]["failed"])
    assert ["unknown method"] == [step["name"] for step in report["steps"] if step["outcome"] == "failed"]
    assert {"name", "outcome", "expected", "seen", "milliseconds"} == set(report["steps"][0])


def test_what_cannot_be_started_is_told(tmp_path: Path, capfd: Said) -> None:
    """A folder without a manifest and a program that is missing are exit code 1 with a sentence, and no traceback."""
    assert 1 == session_core("ext", "check", str(tmp_path))
    assert "there is no extension.toml in this folder" in capfd.readouterr().out
    assert 1 == session_core("ext", "check", "no-such-program-anywhere")
    assert "there is no program 'no-such-program-anywhere'" in capfd.readouterr().out


@pytest.mark.parametrize("words", [[], [" "], ["x", "--timeout", "soon"], ["x", "--nonsense"]])
def test_a_wrong_command_line(words: list[str], capfd: Said) -> None:
    """A command line that makes no sense is exit code 2."""
    assert 2 == session_core("ext", "check", *words)


def test_help_has_examples(capfd: Said) -> None:
    """The help shows how to check a folder and a command line."""
    assert 0 == session_core("ext", "check", "--help")
    out = capfd.readouterr().out
    assert "session-core ext check ./gate" in out
    assert "Exit code 0" in out


def test_one_that_is_known_by_name(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """A known extension is checked by its name; a wrong interpreter and a program that just ends are told as such."""
    monkeypatch.chdir(tmp_path)
    for name, source in (("idle", "pass"), ("without", "import sys; sys.exit(\"No module named 'session_core'\")")):
        folder = home / "extensions" / name
        in_folder(folder, source)
        manifest = folder / "extension.toml"
        manifest.write_text(manifest.read_text().replace('"subject"', f'"{name}"', 1))

    assert 1 == session_core("ext", "check", "idle")
    idle = capfd.readouterr().out
    assert 1 == session_core("ext", "check", "without")
    without = capfd.readouterr().out

    assert 1 == idle.count("initialize was not answered: hosts give up on it; does the program call ext.serve()?\n")
    assert 1 == without.count("the Python that run.command names does not have session-core: write the path of one")


def test_a_fault_is_told_once_and_whole() -> None:
    """What several steps have seen stands there once, below the table, neither cut nor escaped."""
    seen = "she said: größer… " * 20 + "the end"
    steps = [
        sc.extensions.ConformanceStep(name=name, outcome="failed", expected="e", seen=seen) for name in ("one", "two")
    ]
    report = sc.extensions.ConformanceReport(target="t", steps=tuple(steps))

    told = report_lines(Style(), report, width=100)

    assert [f"✗ one, two: {seen}"] == [line for line in told if "größer" in line]


def test_foreign_text_is_made_inert() -> None:
    """What an extension says drives no terminal, wherever in the report it stands."""
    evil = "\x1b]0;owned\x07\x1b[2Jbad\r\n\u202e"
    step = sc.extensions.ConformanceStep(name=evil, outcome="failed", expected=evil, seen=evil)
    report = sc.extensions.ConformanceReport(target=evil, name=evil, version=evil, steps=(step,), stderr=(evil,))

    told = "\n".join(report_lines(Style(), report, width=100))

    assert not any(character in told for character in "\x1b\x07\r\u202e")
    assert "bad" in told
