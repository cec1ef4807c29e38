"""The current state of a file, and the one name under which it is recorded.

A tool may reach one file by several names: through a link, with `..`, or by its absolute path. The recorded name has
all links resolved, so each file is saved once per turn. Resolving only chooses the name; the workspace decides whether
the file may be touched, each time it is opened.
"""

import os
import stat

from session_core.checkpoints.blobs import digest
from session_core.checkpoints.values import MISSING, CheckpointLimits, FileState
from session_core.sandbox.file_values import OutsideWorkspace
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.openat import FOLDER_ONLY, open_beneath
from session_core.sandbox.workspace import Workspace

PERMISSIONS = 0o777  # nothing more is ever restored: an undo must not make a file set-uid again


def remembered_name(workspace: Workspace, path: str) -> str:
    """Return the name of a file in the records: relative to the workspace's root if it is inside, else absolute.

    Raises:
        OutsideWorkspace: It is in no root of the workspace.
    """
    location = workspace.locate(path)
    root = os.path.realpath(location.root)
    resolved = os.path.realpath(os.path.join(root, location.relative))  # noqa: PTH118 - text only, nothing is opened
    home = os.path.realpath(workspace.root)
    if is_beneath(resolved, (home,)):
        return os.path.relpath(resolved, home)
    if is_beneath(resolved, (root,)):
        return os.path.join(location.root, os.path.relpath(resolved, root))  # noqa: PTH118
    raise OutsideWorkspace(f"{path!r} leads outside of the folders that this session may use")


def read_file_state(workspace: Workspace, path: str, *, limit: int) -> tuple[FileState, bytes | None]:
    """Return the current state of a file, with its content if it is a regular file of at most `limit` bytes.

    Raises:
        OutsideWorkspace: The path leads out of the workspace now.
    """
    try:
        status = workspace.stat(path)
        if status is None:
            return MISSING, None
        if status.kind != "file":
            return FileState(kind="not_saved", mode=status.mode & PERMISSIONS, why=_is_now(status.kind)), None
        mode = status.mode & PERMISSIONS
        if status.size > limit:
            return _too_large(status.size, mode, status.mtime_ns, limit), None
        content = workspace.read(path, max_bytes=limit)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING, None
    except OSError as error:
        return FileState(kind="not_saved", why=f"it cannot be read: {error.strerror or error}"), None
    if content.truncated:
        return _too_large(content.size, content.mode & PERMISSIONS, content.mtime_ns, limit), None
    state = FileState(
        kind="content",
        sha256=digest(content.data),
        size=len(content.data),
        mode=content.mode & PERMISSIONS,
    )
    return state, content.data


def present_state(workspace: Workspace, path: str, limits: CheckpointLimits) -> FileState:
    """Return the current state of a file of any kind, also of one that leads out of the workspace by now."""
    try:
        return read_file_state(workspace, path, limit=limits.file_bytes)[0]
    except OutsideWorkspace as error:
        return FileState(kind="not_saved", why=str(error))


def set_mode(workspace: Workspace, path: str, mode: int) -> None:
    """Restore the permissions of a regular file; only for a file that the workspace has just let us write."""
    location = workspace.locate(path)
    folder = os.open(location.root, FOLDER_ONLY | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = open_beneath(folder, location.relative, flags, whole_disk=location.root == "/")
        try:
            found = os.fstat(descriptor).st_mode
            if stat.S_ISREG(found) and stat.S_IMODE(found) != mode:
                os.fchmod(descriptor, mode & PERMISSIONS)
        finally:
            os.close(descriptor)
    finally:
        os.close(folder)


def _too_large(size: int, mode: int, mtime_ns: int, limit: int) -> FileState:
    why = f"it has {size:,} bytes, and files are kept up to {limit:,}"
    return FileState(kind="too_large", size=size, mode=mode, mtime_ns=mtime_ns, why=why)


def _is_now(kind: str) -> str:
    words = {"folder": "it is a folder", "link": "it is a link"}
    return words.get(kind, "it is not an ordinary file")
