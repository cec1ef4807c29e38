"""An extension that does what none should: the first argument says what, the second is a folder for notes."""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

way, notes = sys.argv[1], Path(sys.argv[2])


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def next_message() -> dict[str, Any]:
    if not (line := sys.stdin.readline()):
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def greet(version: int = 1) -> None:
    send(id=next_message()["id"], result={"protocol_version": version, "extension": {"name": "x", "version": "1"}})


def go_on() -> NoReturn:
    while True:
        message = next_message()
        if "id" in message:
            send(id=message["id"], result={})
            if message["method"] == "shutdown":
                sys.exit(0)


def stay() -> NoReturn:
    while True:
        signal.pause()


def note_pid(name: str) -> None:
    (notes / f"{name}.part").write_text(str(os.getpid()))
    (notes / f"{name}.part").rename(notes / name)


def exits_at_start() -> None:
    say("no luck today")
    sys.exit(3)


def exits_in_initialize() -> None:
    next_message()
    sys.exit(4)


def exits_when_ready() -> None:
    greet()
    say("enough of this")
    sys.exit(5)


def exits_when_asked() -> None:
    greet()
    next_message()
    os.kill(os.getpid(), signal.SIGKILL)


def hangs_in_initialize() -> None:
    next_message()
    stay()


def refuses() -> None:
    send(id=next_message()["id"], error={"code": -32000, "message": "not with you"})
    go_on()


def speaks_version_0() -> None:
    greet(0)
    go_on()


def speaks_version_99() -> None:
    greet(99)
    go_on()


def registers_nonsense() -> None:
    result = {"protocol_version": 1, "registrations": {"tools": [{"name": "a b"}]}}
    send(id=next_message()["id"], result=result)
    go_on()


def closes_stdin() -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 3)
    greet()
    os.close(0)
    note_pid("closed")
    stay()


def closes_stdout() -> None:
    greet()
    os.close(1)
    stay()


def leaves_a_grandchild() -> None:
    greet()
    if os.fork() == 0:
        note_pid("grandchild")
        stay()
    while not (notes / "grandchild").exists():
        pass
    os._exit(0)


def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    greet()
    note_pid("child")
    stay()


def floods_stdout() -> None:
    greet()
    while True:
        os.write(1, b"x\n\n" * 20_000)


def floods_stderr() -> None:
    os.write(2, b"x" * 5_000_000)
    for _ in range(100):
        os.write(2, b"nobody reads this\n" * 3_000)
    say("the end of it")
    greet()
    go_on()


def sends_a_long_line() -> None:
    greet()
    asked = next_message()
    os.write(1, b'{"jsonrpc": "2.0", "id": %d, "result": "' % asked["id"])
    for _ in range(100):
        rest = memoryview(b"x" * 1_000_000)
        while rest:
            rest = rest[os.write(1, rest) :]
    os.write(1, b'"}\n')
    go_on()


def prints_first() -> None:
    sys.stdout.write("hello, I am a program\nnull\n[1]\n\n")
    sys.stdout.write("and I print without an end")
    sys.stdout.write("\n  ")
    greet()
    sys.stdout.write("debug: \x1b[2Jready\n")
    go_on()


def forks_twice() -> None:
    greet()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            note_pid("daemon")
            stay()
        os._exit(0)
    os.wait()
    while not (notes / "daemon").exists():
        pass
    go_on()


def tidies_up_late() -> None:
    greet()
    while (message := next_message())["method"] != "shutdown":
        pass
    send(id=message["id"], result={})
    os.close(1)
    threading.Event().wait(0.8)
    (notes / "tidied").write_text("yes")


def waits_for_the_end_of_stdin() -> None:
    greet()
    while (message := sys.stdin.readline()) != "":
        if json.loads(message).get("method") == "shutdown":
            send(id=json.loads(message)["id"], result={})
    threading.Event().wait(0.3)
    (notes / "tidied").write_text("yes")


globals()[way]()
