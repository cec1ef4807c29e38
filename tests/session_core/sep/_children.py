"""Real extensions for tests: their folders, a host that remembers what it hears, and looks into /proc."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from session_core.rpc.messages import Notification, Request
from session_core.sep.host.catalogue.consent import digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process_session import ExtensionTimeouts
from session_core.sep.protocol.manifest import read_manifest

SCRIPTS = Path(__file__).with_name("_extensions")
PATIENCE = 300
"""No test should take a fraction of this; what takes longer hangs."""
QUICK = ExtensionTimeouts(start=PATIENCE, stop=20, backoffs=())
"""No second try: the first crash is a failure. And no hurry."""


def found_in(folder: Path, command: str, args: list[str], *, more: str = "", run: str = "") -> DiscoveredExtension:
    """Write the manifest of an extension into a folder, and find it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "extension.toml").write_text(
        f'name = "tried"\nversion = "1"\n{more}\n'
        f"[run]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n{run}"
    )
    return DiscoveredExtension(
        name="tried", folder=folder, scope="user", manifest=read_manifest(folder), digest=digest_of(folder)
    )


def script(tmp_path: Path, name: str, *args: str, more: str = "") -> DiscoveredExtension:
    """Find an extension that is one of our scripts; its last argument is a folder for notes, `tmp_path`."""
    return found_in(
        tmp_path / "extension",
        sys.executable,
        ["-I", "-S", str(SCRIPTS / f"{name}.py"), *args, str(tmp_path)],
        more=more,
    )


class Host:
    """Remembers what it hears from extensions, and lets a test wait for it."""

    def __init__(self) -> None:
        self.history: list[tuple[str, str | None]] = []
        self.requests: list[tuple[int, str]] = []
        self.notifications: list[tuple[int, str]] = []
        self._changed = trio.lowlevel.ParkingLot()

    def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
        return {"protocol_version": 1, "host": {"name": "test", "version": "1"}, "mode": "headless"}

    async def on_request(self, extension: HostedExtension, generation: int, request: Request) -> Any:
        await trio.lowlevel.checkpoint()
        self.requests.append((generation, request.method))
        return {"asked": request.method}

    def on_notification(self, extension: HostedExtension, generation: int, notification: Notification) -> None:
        self.notifications.append((generation, notification.method))
        self._changed.unpark_all()

    def on_changed(self, extension: HostedExtension) -> None:
        self.history.append((extension.state, extension.problem))
        self._changed.unpark_all()

    @property
    def states(self) -> list[str]:
        return [state for state, _ in self.history]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, which only a change can make true."""
        while not holds():
            await self._changed.park()


@asynccontextmanager
async def running(
    found: DiscoveredExtension, *, pace: ExtensionTimeouts = QUICK, log: ExtensionLog | None = None, **settings: Any
) -> AsyncGenerator[tuple[HostedExtension, Host]]:
    """Run an extension for the length of the block."""
    host = Host()
    extension = HostedExtension(found, host, log or ExtensionLog(), pace=pace, **settings)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            await nursery.start(extension.run)
            yield extension, host
            await extension.stop()


def own_descriptors() -> set[tuple[str, str]]:
    """Our pipes."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add((entry.name, str(entry.readlink())))
        except OSError:  # the one by which we look
            continue
    return {each for each in found if each[1].startswith("pipe:")}


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids_with_argument(argument: str) -> list[int]:
    """The processes that have this among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                if argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
