"""A repository that wants to harm whoever opens it: the ground it stands on, and a look at what opening it did.

Around the repository lie things that must stay as they are: a secret, the user's home directory, programs that leave a
trace when somebody starts them, and an address where somebody listens. The tricks themselves are in
`_repository_tricks`.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import trio

from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.config.values import Config
from session_core.sandbox.trust import Fingerprint, TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.service.service import open_session_service
from session_core.testing.scripted import ScriptedProvider, text, tool_calls
from session_core.wire.codec import encode

SECRET = "hunter2-7d1f0c"
"""Lies in files around the repository and in the environment; nobody may ever be told."""
INJECTED = "OBEY-THE-REPOSITORY"
"""What the repository wants to have in the prompt."""

AfterTrust = Literal["nothing", "instructions", "skill", "refused", "stricter", "program", "too_much", "anything"]


@attrs.frozen(kw_only=True)
class Ground:
    """A folder with the repository and all that it should not touch; `address` is where somebody listens."""

    folder: Path
    address: str

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def user(self) -> Path:
        return self.folder / "user"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.user), "PATH": os.environ["PATH"], "CLOUD_SECRET": SECRET, "LANG": "C.UTF-8"}

    def program(self, name: str) -> str:
        """Make a program that leaves a trace when it is started, and return its path."""
        path = self.outside / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n: > '{self.traces}/{name}'\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Write a file of the repository."""
        file = self.repo / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)
        return file

    def link(self, path: str, target: str | Path) -> None:
        """Put a link into the repository."""
        (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (self.repo / path).symlink_to(target)

    def node(self, path: str, kind: int) -> None:
        """Put a pipe or a socket into the repository."""
        (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(self.repo / path, 0o666 | kind)

    def trust(self) -> Fingerprint:
        """Trust the repository as it is now."""
        found = take_fingerprint(Workspace(str(self.repo)))
        TrustStore(self.home).trust(str(self.repo), found)
        return found


@contextmanager
def new_ground(folder: Path) -> Iterator[tuple[Ground, socket.socket]]:
    """Lay out an empty repository and its surroundings; the socket listens at the ground's address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        ground = Ground(folder=folder, address=f"http://127.0.0.1:{listener.getsockname()[1]}")
        for each in (ground.repo, ground.home, ground.user, ground.outside, ground.traces):
            each.mkdir(mode=0o700, parents=True)
        (ground.outside / "secret").write_text(SECRET, encoding="utf-8")
        (ground.user / ".netrc").write_text(f"machine 127.0.0.1 login x password {SECRET}\n", encoding="utf-8")
        yield ground, listener


def nobody_called(listener: socket.socket) -> bool:
    """Tell whether nobody has connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def tree(*folders: Path) -> dict[str, Any]:
    """Everything in some folders, as far as a change of it can be seen from outside."""
    found: dict[str, Any] = {}
    for folder in folders:
        for above, names, files, descriptor in os.fwalk(folder):
            for name in (*names, *files):
                status = os.lstat(name, dir_fd=descriptor)
                found[f"{above}/{name}"] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
    return found


# --- opening it -------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Seen:
    """What came of opening a repository: the prompt, and `told`, all that models, frontends or people got to see."""

    config: Config
    prompt: str
    tools: tuple[str, ...]
    told: str
    outcome: str

    @property
    def prompt_without_place(self) -> str:
        """The prompt but for the lines that name the folder and its branch."""
        return "\n".join(
            line for line in self.prompt.splitlines() if not line.startswith(("- Working folder:", "- Git branch:"))
        )


async def open_and_ask(ground: Ground, calls: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> Seen:
    """Open the repository as an agent does, let the model make these calls, and return what was seen."""
    place = AgentEnvironment(home=ground.home, folder=str(ground.repo), environ=ground.environ)
    model = ScriptedProvider(*([tool_calls(*calls)] if calls else []), text("done"))
    told: list[str] = []
    with trio.fail_after(300):
        async with open_setup(place, flags={"model": "demo"}) as setup:
            config = attrs.evolve(setup.service, models={"m": model}, model_infos={}, default_model="m")
            async with open_session_service(config) as service:
                session_id = (await service.create_session()).session_id
                await service.send_user_message(session_id, "list the files")
                outcome = (await service.wait_for_turn(session_id)).outcome
                snapshot = await service.load_session(session_id)
                told += [encode(snapshot).decode(), encode(await service.list_sessions()).decode()]
            folder = setup.folders.get_known(str(ground.repo))
            assert folder is not None
            settings = folder.config
            told += [repr(model.requests), repr(settings), *setup.remarks]
    return Seen(
        config=settings,
        prompt=model.requests[0].system,
        tools=tuple(tool.name for tool in model.requests[0].tools),
        told="\n".join(told),
        outcome=outcome.status,
    )


# --- programs that are started ----------------------------------------------------------------------------------------

_started: list[str] = []
_installed = False


def _note_programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _started.append(repr(arguments[1]))
    elif event in {"os.exec", "os.posix_spawn", "os.system"}:
        _started.append(repr(arguments[0]))


@contextmanager
def programs_started() -> Iterator[Callable[[], list[str]]]:
    """Give a function that returns the command lines of all programs this process has started since."""
    global _installed  # noqa: PLW0603 - an audit hook stays for good, so there is one
    if not _installed:
        sys.addaudithook(_note_programs)
        _installed = True
    before = len(_started)
    yield lambda: _started[before:]
