"""`session-core ext doctor` and `ext reload`: real programs, started, greeted and ended."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.frontends._extensions import GOOD, GREETING, LOOP, make_extension
from tests.frontends._kept import session_core
from tests.frontends._program import PROGRAM, ROOT, environment

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No extension of whoever runs the tests is seen."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("SMOOTH_HOME", raising=False)
    monkeypatch.delenv("SMOOTH_EXTENSIONS_ALLOW", raising=False)
    monkeypatch.chdir(tmp_path)


def agreed(home: Path, program: str, *, more: str = "") -> Path:
    folder = make_extension(home / "extensions", "echo", program, more=more)
    assert 0 == session_core("ext", "trust", "echo", "--yes")
    return folder


def report(capfd: Said) -> tuple[int, Any]:
    capfd.readouterr()
    code = session_core("ext", "doctor", "echo", "--json")
    return code, json.loads(capfd.readouterr().out)


def test_a_healthy_one(home: Path, capfd: Said) -> None:
    """One that works is started, greeted, pinged and shut down, and what it offers is told."""
    agreed(home, GOOD)
    capfd.readouterr()

    assert 0 == session_core("ext", "doctor", "echo")
    lines = [line.partition(" (")[0] for line in capfd.readouterr().out.splitlines()]
    assert [
        "echo 1.2",
        "✓ it started and answered initialize",
        "✓ it answered a ping",
        "✓ it shut down and exited",
        "  tools       echo.say",
        "  commands    /hello",
        "  events      turn_start",
        "  hooks       tool_call",
    ] == lines


def test_reload_without_a_service(home: Path, capfd: Said) -> None:
    """Where nothing runs, a reload is a check, and says so."""
    agreed(home, GOOD)
    capfd.readouterr()

    assert 0 == session_core("ext", "reload", "echo")
    told = capfd.readouterr()
    assert "✓ it answered a ping" in told.out
    assert "● no service is running in this home, so there is nothing to reload" in told.err


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("raise SystemExit('no paper')", "it did not start: its process ended with exit status 1"),
        (GOOD.replace('"protocol_version": 1', '"protocol_version": 0'), "it speaks version 0 of the protocol"),
        (GOOD.replace('"name": "say"', '"name": "s a y"'), "cannot be used at tools[0].name: "),
    ],
)
def test_one_that_does_not_start(home: Path, program: str, sentence: str, capfd: Said) -> None:
    """What keeps an extension from starting is exit code 1 and a sentence."""
    agreed(home, program)
    code, told = report(capfd)
    (step,) = told["steps"]

    assert (1, False, "initialize", False) == (code, told["healthy"], step["what"], step["good"])
    assert sentence in step["sentence"]


def test_the_error_above_its_last_lines(home: Path, capfd: Said) -> None:
    """The error of an extension that crashes stands in the sentence, even if much was written after it."""
    crash = (
        "print('Error: no key is set', *(f'    at step{n} (main.mjs:{n}:1)' for n in range(20)), 'Node.js v20.20.2',"
        " sep='\\n', file=sys.stderr); sys.exit(1)\n"
    )
    agreed(home, f"import sys\n{crash}")
    _, told = report(capfd)

    (step,) = told["steps"]
    ended = "its process ended with exit status 1, before it was ready"
    assert step["sentence"] == f"it did not start: {ended}; it said: Error: no key is set"


def test_one_that_dies_of_a_ping(home: Path, capfd: Said) -> None:
    """An extension that ends when it is pinged fails both the ping and the shutdown."""
    agreed(home, GREETING + LOOP.replace("    message = ", "    if '\"ping\"' in line: break\n    message = "))
    code, told = report(capfd)

    assert 1 == code
    assert [True, False, False] == [step["good"] for step in told["steps"]]


def test_what_it_says_and_asks_for(home: Path, capfd: Said) -> None:
    """Lines that are no messages, its stderr and what it asked of the host are told, harmless to print."""
    asks = 'print("hi \\x1b[31m")\nprint("oops \\u202e", file=sys.stderr, flush=True)\n'
    kv = (
        'asked = [("kv/set", {"key": "a", "value": 1}), ("kv/get", {"key": "b"}), ("ui/request", {}), '
        '("bus/publish", {"topic": "t"}), ("no/such", {})]\n'
        "replies = []\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        '    if "method" not in message:\n'
        '        replies.append(message.get("result", message.get("error", {}).get("code")))\n'
        "        if len(replies) == len(asked):\n"
        "            print(replies, file=sys.stderr, flush=True)\n"
        '            send({"id": ping, "result": {}})\n'
        '    elif message["method"] == "ping":\n'
        '        ping = message["id"]\n'
        '        for n, (method, params) in enumerate(asked): send({"id": n, "method": method, "params": params})\n'
        "    else:\n"
        '        send({"id": message["id"], "result": answer(message)})\n'
        '        if message["method"] == "shutdown": break\n'
    )
    agreed(home, GREETING.replace('"hooks": ["tool_call"],', "") + asks + kv)
    capfd.readouterr()

    assert 0 == session_core("ext", "doctor", "echo")
    told = capfd.readouterr().out
    assert all(line.isprintable() for line in told.split("\n"))
    assert "● it does not list its hooks" in told
    assert "● it wrote lines to stdout that are not messages (1 line)" in told
    for method in ("kv/set", "kv/get", "ui/request", "bus/publish", "no/such"):
        assert f"● it asked for {method}, 1 time\n" in told
    assert "-32001" in told
    assert "-32601" in told
    assert "{'value': None}" in told


def test_what_its_manifest_does_not_allow(home: Path, capfd: Said) -> None:
    """A group of methods that the manifest leaves out is refused, as a host would."""
    kv = (
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        '    if "method" not in message:\n'
        '        print(message["error"]["code"], file=sys.stderr, flush=True); send({"id": ping, "result": {}})\n'
        '    elif message["method"] == "ping":\n'
        '        ping = message["id"]; send({"id": 1, "method": "kv/get", "params": {"key": "a"}})\n'
        "    else:\n"
        '        send({"id": message["id"], "result": answer(message)})\n'
        '        if message["method"] == "shutdown": break\n'
    )
    agreed(home, GREETING + kv, more="[capabilities]\nui = true\n")
    code, told = report(capfd)

    assert 0 == code
    assert "stderr: -32004" in told["said"]


def test_nothing_starts_without_consent(home: Path, tmp_path: Path, capfd: Said) -> None:
    """An extension that nobody has agreed to, or whose files have changed since, is not even started to look at it."""
    mark = tmp_path / "it-ran"
    program = f"open({str(mark)!r}, 'w').close()\n"
    folder = make_extension(home / "extensions", "echo", program)
    elsewhere = make_extension(tmp_path / "other", "other", program)

    assert 2 == session_core("ext", "doctor", "echo")
    assert "echo is not started: nobody has agreed to it yet; to review it: " in capfd.readouterr().err
    assert 2 == session_core("ext", "doctor", str(elsewhere))
    assert 0 == session_core("ext", "trust", "echo", "--yes")
    (folder / "program.py").write_text(program + "\n", encoding="utf-8")
    assert 2 == session_core("ext", "reload", "echo")
    assert "its files have changed since it was agreed to" in capfd.readouterr().err
    assert 0 == session_core("ext", "disable", "echo")
    assert 2 == session_core("ext", "doctor", "echo")
    assert "you have not consented to it" in capfd.readouterr().err
    assert not mark.exists()


def test_one_that_is_switched_off_can_be_checked(home: Path, capfd: Said) -> None:
    """Being switched off keeps an extension from running, not from being looked at by somebody who agreed to it."""
    agreed(home, GOOD)
    session_core("ext", "disable", "echo")
    code, told = report(capfd)
    assert (0, True) == (code, told["healthy"])


async def test_leaving_early_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    """A signal while an extension hangs in its greeting ends it too, and the exit code says so."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    program = f"import os, time\nopen({str(pipe)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    await trio.to_thread.run_sync(agreed, home, program)
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(
            [*PROGRAM, "ext", "doctor", "echo"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment(),
        )
        await trio.lowlevel.wait_readable(reading)
        pid = int(os.read(reading, 100))
        os.close(reading)
        process.send_signal(signal.SIGTERM)
        assert 128 + signal.SIGTERM == await process.wait()
    assert not await trio.Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_one_that_does_not_leave(home: Path, capfd: Said) -> None:
    """An extension that neither answers shutdown nor leaves is killed after five seconds, and that is a problem."""
    stays = LOOP.replace("    message = ", "    if '\"shutdown\"' in line: continue\n    message = ")
    agreed(home, GREETING + stays + "import time\ntime.sleep(600)\n")
    code, told = report(capfd)

    assert 1 == code
    assert "it did not exit within 5 s of shutdown, and was killed" == told["steps"][-1]["sentence"]


def test_what_stands_in_the_wrong_place(home: Path, capfd: Said) -> None:
    """What is registered beside `registrations` is named, as it has no effect; and it is said where the log is."""
    moved = GOOD.replace('"registrations": {', '"registrations": {},').replace(
        '"subscriptions": ["turn_start"],\n            },', '"subscriptions": ["turn_start"],'
    )
    agreed(home, moved)
    capfd.readouterr()

    assert 0 == session_core("ext", "doctor", "echo")
    told = capfd.readouterr()
    sentence = "● tools, commands, subscriptions, hooks: ignored, because it is outside of `registrations`\n"
    assert 1 == told.out.count(sentence)
    assert f"{home / 'logs' / 'extensions' / 'echo.log'}; to read it: session-core ext logs echo" in told.err


def test_why_it_does_not_start_is_told_once(home: Path, capfd: Said) -> None:
    """What it wrote to stderr is told once; a missing version of the protocol is named as the field it is."""
    agreed(home, "raise SystemExit('no paper')")
    capfd.readouterr()
    assert 1 == session_core("ext", "doctor", "echo")
    silent = capfd.readouterr().out
    (home / "extensions" / "echo" / "program.py").write_text(GOOD.replace('"protocol_version": 1,', ""))
    session_core("ext", "trust", "echo", "--yes")
    capfd.readouterr()
    assert 1 == session_core("ext", "doctor", "echo")

    assert (1, 1) == (silent.count("no paper"), silent.count("exit status 1"))
    assert "protocol_version: is missing in its answer to initialize" in capfd.readouterr().out
