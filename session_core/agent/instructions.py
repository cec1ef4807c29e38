"""Instructions for agents: `AGENTS.md` files of the user, of the project, and of folders inside it.

A project's files are untrusted until the user trusts their folder: before that they are not read, and the user is told
that they exist. A file counts only if the bytes that were read are those that were trusted; it is not opened again.
Nothing in them is expanded or included. Everything blocks: call it in a worker thread.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.trust import MAX_TRUSTED_FILE_BYTES, Fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.storage.ownership import WritableByOthers, refuse_writable_by_others

FILE_NAME: Final = "AGENTS.md"
MAX_INSTRUCTION_BYTES: Final = 32_000
"""The limit of one file; longer ones are cut with a remark, as every model call pays for them."""
MAX_INSTRUCTIONS: Final = 16
"""The limit of files at a time: real projects do not nest more folders."""
MAX_ALL_INSTRUCTION_CHARS: Final = 100_000
"""The limit of all files together."""

InstructionSource = Literal["user", "project"]


@attrs.frozen(kw_only=True)
class Instruction:
    """The text of one file; `path` is for model and people."""

    path: str
    text: str
    source: InstructionSource


@attrs.frozen(kw_only=True)
class Instructions:
    """The instructions, the most general first: the nearest has the last word. `remarks` are for people."""

    texts: tuple[Instruction, ...] = ()
    remarks: tuple[str, ...] = ()


def collect_instructions(
    folder: str, *, trust: Mapping[str, Fingerprint], user_file: str | None = None, home: str | None = None
) -> Instructions:
    """Collect what applies to all work in a folder.

    Args:
        folder: The folder that the session works in, absolute.
        trust: What the user trusts in this folder and those above it, by their real paths; trust in a folder says
            nothing about the files above it, nor about what its links lead to elsewhere.
        user_file: The user's own file; by default `.agents/AGENTS.md` in `home`.
        home: The user's home directory, where the search upwards ends.
    """
    home = os.path.realpath(home or os.path.expanduser("~"))  # noqa: PTH111 - unlike Path.home, it never fails
    found: list[Instruction] = []
    remarks: list[str] = []
    user_file = user_file or os.path.join(home, ".agents", FILE_NAME)  # noqa: PTH118
    # Users keep such files elsewhere and link to them.
    place, name = os.path.split(os.path.realpath(user_file))
    try:
        refuse_writable_by_others(user_file, beneath=place)
    except (WritableByOthers, OSError) as error:
        remarks.append(f"your own {FILE_NAME} is not used: {getattr(error, 'strerror', None) or error}")
    else:
        _add(found, remarks, _read(place, None, name=name), user_file, "user")
    top = project_root(folder, home=home)
    below = _folders_between(top, os.path.realpath(folder))
    if trust:
        for inner in below:
            place = os.path.normpath(os.path.join(top, inner))  # noqa: PTH118
            if place in trust:
                path = os.path.join(place, FILE_NAME)  # noqa: PTH118
                _add(found, remarks, _read(place, trust[place]), path, "project")
    elif any(is_there(top, os.path.join(inner, FILE_NAME)) for inner in below):  # noqa: PTH118
        remarks.append(f"the {FILE_NAME} of this project is not used, because the folder is not trusted")
    return _limit_instructions(found, remarks)


def project_root(folder: str, *, home: str) -> str:
    """Return where a project begins: the nearest folder upwards with a `.git`, or else the highest one below `home`.

    A parent folder counts only if it is ours and not writable by others: in a shared place such as /tmp, anybody could
    have put a `.git` and instructions there.
    """
    here = os.path.realpath(folder)
    home = os.path.realpath(home)
    candidate = here
    top = here
    while True:
        if os.path.lexists(os.path.join(candidate, ".git")):  # noqa: PTH118
            return candidate
        above = os.path.dirname(candidate)  # noqa: PTH120
        if above in {candidate, home} or not _is_ours(above):
            return top if _is_beneath(here, home) else here
        candidate = above
        top = candidate


def _folders_between(top: str, folder: str) -> list[str]:
    """Return the folders from the project's root down to this one, relative to the root."""
    relative = os.path.relpath(folder, top)
    names = [] if relative == "." else relative.split("/")
    return [os.path.join(*names[:depth]) if depth else "" for depth in range(len(names) + 1)]  # noqa: PTH118


def _read(folder: str, trust: Fingerprint | None, *, name: str = FILE_NAME) -> tuple[str, bool] | None:
    """Return the text of a file in a folder, and whether it was cut; None if it cannot be read, or is not trusted."""
    most = MAX_INSTRUCTION_BYTES if trust is None else MAX_TRUSTED_FILE_BYTES
    try:
        content = Workspace(folder, read_only=True).read(name, max_bytes=most)
    except (WorkspaceRefused, OSError):
        return None
    if trust is not None and not trust.covers(name, content.data):
        return None
    text = content.data[:MAX_INSTRUCTION_BYTES].decode("utf-8", "replace").removeprefix("\ufeff").replace("\0", "")
    return text.strip(), content.truncated or len(content.data) > MAX_INSTRUCTION_BYTES


def _add(
    found: list[Instruction],
    remarks: list[str],
    read: tuple[str, bool] | None,
    path: str,
    source: InstructionSource,
) -> None:
    if read is None or not read[0]:
        return
    text, cut = read
    if cut:
        text += f"\n[cut here: the file has more than {MAX_INSTRUCTION_BYTES:,} bytes]"
        remarks.append(f"{path} is longer than {MAX_INSTRUCTION_BYTES:,} bytes; the rest of it is not used")
    found.append(Instruction(path=path, text=text, source=source))


def _limit_instructions(found: list[Instruction], remarks: list[str]) -> Instructions:
    retained = list(_take_fitting(found))
    if len(retained) < len(found):
        left_out = ", ".join(each.path for each in found[len(retained) :][:MAX_INSTRUCTIONS])
        remarks.append(f"too many instructions, these are not used: {left_out}")
    return Instructions(texts=tuple(retained), remarks=tuple(remarks))


def _take_fitting(found: list[Instruction]) -> Iterator[Instruction]:
    room = MAX_ALL_INSTRUCTION_CHARS
    for each in found[:MAX_INSTRUCTIONS]:
        room -= len(each.text)
        if room < 0:
            return
        yield each


def is_there(root: str, path: str) -> bool:
    """Return whether a project has something at this path, without reading it."""
    try:
        return Workspace(root).stat(path) is not None
    except (WorkspaceRefused, OSError):
        return False


def _is_ours(folder: str) -> bool:
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def _is_beneath(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
