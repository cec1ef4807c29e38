"""A real terminal: tmux draws what the program draws, and presses keys."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import attrs
import trio

from frontends.client import open_client

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 300
HINT = "Type what you want and press Enter."
"""What there is to see before anything was said."""
_SEEN_BEFORE = "found=$(stty -g)"
_TOLD_AFTER = (
    'code=$?; stty -a | grep -q " echo " && echo "keys are echoed"; '
    '[ "$(stty -g)" = "$found" ] && echo "modes as found"; echo "ended with $code"; exec sleep 600'
)
_STEERING = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[a-zA-Z]|\].*?(?:\x07|\x1b\\))")
_CLOCK = re.compile(r"(\d+):(\d\d) min left")


@attrs.frozen(kw_only=True)
class Screen:
    """A window of a tmux server of its own, and a folder with what belongs to it."""

    folder: Path
    socket: Path

    @property
    def written(self) -> Path:
        """The file with what was written to the window."""
        return self.socket.with_name("written")

    async def tmux(self, *arguments: str) -> str:
        """Tell tmux something."""
        command = ["tmux", "-f", "/dev/null", "-S", str(self.socket), *arguments]
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
        return done.stdout.decode()

    async def open(
        self, home: Path, *arguments: str, size: tuple[int, int] = (100, 30), command: str = "", **variables: str
    ) -> None:
        """Open the terminal in a window of this size; when it ends, the window tells how, and stays."""
        environ = {**_environment(home), **variables}
        exports = [f"{name}={value}" for name, value in environ.items()]
        line = command or shlex.join([sys.executable, "-m", "frontends.entry", *arguments])
        columns, rows = size
        shell = f"cd {shlex.quote(str(self.folder))}; {_SEEN_BEFORE}; {line}; {_TOLD_AFTER}"
        # Several words: tmux gives one to the shell of whoever runs the tests, which may stay in between.
        script = ["env", "-i", *exports, "sh", "-c", shell]
        await self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), *script)
        await self.tmux("pipe-pane", f"cat >> {shlex.quote(str(self.written))}")

    async def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them."""
        await self.tmux("send-keys", *keys)

    async def press_until_told(self, key: str, *texts: str) -> None:
        """Press a key, and wait until these texts have been on the screen, for however short a time."""
        written = trio.Path(self.written)
        before = len(await written.read_bytes()) if await written.exists() else 0
        await self.press(key)
        give_up_at = monotonic() + PATIENCE_S
        while True:
            told = _STEERING.sub(b"", (await written.read_bytes())[before:] if await written.exists() else b"")
            if all(text.encode() in told for text in texts):
                return
            assert monotonic() < give_up_at, f"{texts} were never told; the screen:\n{await self.text()}"
            await trio.sleep(0.05)  # nobody is told when the file grows

    async def type(self, text: str, *keys: str) -> None:
        """Type a text, and press keys after it."""
        await self.tmux("send-keys", "-l", text)
        if keys:
            await self.press(*keys)

    async def paste(self, text: str) -> None:
        """Paste a text, as terminals do for programs that know about it."""
        file = self.folder / "pasted"
        file.write_text(text)
        await self.tmux("load-buffer", str(file))
        await self.tmux("paste-buffer", "-p")

    async def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        await self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    async def answer(self, key: str, meaning: str) -> None:
        """Answer a question by a key; no key counts before the question could be read, and its clock tells when."""
        asked = _left(await self.until(lambda shown: _left(shown) is not None, "a question"))
        assert asked is not None
        await self.until(lambda shown: (_left(shown) or asked) <= asked - 2, "a question to be read")
        await self.type(key)
        await self.until_shown(meaning)
        await self.press("Enter")

    async def close(self) -> None:
        """Close the window, with whatever runs in it."""
        await self.tmux("kill-session")

    async def pid(self) -> int:
        """The process of the program in the window."""
        shell = int(await self.told("pane_pid"))
        children = (await trio.Path(f"/proc/{shell}/task/{shell}/children").read_text()).split()
        assert len(children) == 1, "one program runs in the window"
        return int(children[0])

    async def told(self, variable: str) -> str:
        """What tmux knows of the window."""
        return (await self.tmux("display-message", "-p", f"#{{{variable}}}")).strip()

    async def text(self) -> str:
        """What is on the screen."""
        return await self.tmux("capture-pane", "-p")

    async def painted(self) -> str:
        """What is on the screen, with the colours that the program has asked for."""
        return await self.tmux("capture-pane", "-p", "-e")

    async def until_shown(self, *texts: str) -> str:
        """Wait until the screen shows all these texts, and return it."""
        return await self.until(lambda shown: all(text in shown for text in texts), f"{texts}")

    async def until_gone(self, text: str) -> str:
        """Wait until the screen shows a text no more, and return it."""
        return await self.until(lambda shown: text not in shown, f"the end of {text!r}")

    async def until_ready(self) -> str:
        """Wait until a new session can be begun, and return the screen."""
        return await self.until(lambda shown: HINT in shown and "connecting" not in shown, "a beginning")

    async def until_ended(self, code: int) -> str:
        """Wait until the program has ended with this code, and has left the terminal as it was; return the screen."""
        shown = await self.until_shown("ended with ")
        assert f"ended with {code}\n" in shown
        assert "keys are echoed\nmodes as found\n" in shown, shown
        flags = [await self.told(flag) for flag in ("alternate_on", "cursor_flag", "mouse_any_flag")]
        assert ["0", "1", "0"] == flags, "the first screen, with a cursor, and no mouse"
        await self.paste("pasted afterwards")
        assert "\npasted afterwards\n" in await self.until_shown("pasted afterwards"), "no marks around what is pasted"
        return shown

    async def until(self, holds: Callable[[str], bool], what: str, *, painted: bool = False) -> str:
        """Wait until the screen is as it should be, and return it."""
        give_up_at = monotonic() + PATIENCE_S
        while not holds(shown := await (self.painted() if painted else self.text())):
            assert monotonic() < give_up_at, f"{what} has not come about; the screen:\n{shown}"
            await trio.sleep(0.05)  # tmux tells nobody when a screen changes
        return shown


@contextmanager
def open_screen(folder: Path) -> Generator[Screen]:
    """Have a tmux server for the length of the block; its programs work in this folder."""
    with TemporaryDirectory(prefix="tmux-") as place:  # a short path: sockets have no room for a long one
        screen = Screen(folder=folder, socket=Path(place) / "socket")
        try:
            yield screen
        finally:
            command = ["tmux", "-S", str(screen.socket), "kill-server"]
            subprocess.run(command, check=False, capture_output=True)  # noqa: TID251 - after the loop has ended


def _left(shown: str) -> int | None:
    """How many seconds a question that is asked stays open."""
    clock = _CLOCK.search(shown)
    return None if clock is None else 60 * int(clock[1]) + int(clock[2])


def _environment(home: Path) -> Mapping[str, str]:
    """Where everything is kept, and no key of anybody."""
    return {
        "SESSION_CORE_HOME": str(home),
        "SESSION_CORE_MODEL": "demo",
        "PYTHONPATH": str(ROOT),
        "HOME": str(home.parent / "user"),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TERM": "tmux-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
    }


# --- the service behind it --------------------------------------------------------------------------------------------


async def at_work(home: Path) -> list[str]:
    """The names of the sessions that are at work."""
    async with open_client(home, name="a test", kind="script", wait_s=PATIENCE_S) as client:
        return [each.name for each in (await client.list_sessions(running=True)).sessions]


async def let_rest(home: Path) -> None:
    """Stop whatever is at work, so that the next test finds a service at rest."""
    async with open_client(home, name="a test", kind="script", wait_s=PATIENCE_S) as client:
        for each in (await client.list_sessions(running=True)).sessions:
            await client.request_stop(each.session_id, scope="subtree")
