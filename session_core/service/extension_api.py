"""What the service needs from extensions, and the client names they act under.

Handlers reach extensions only through `Extensions`. Extensions reach the service by ordinary commands, each in the name
of the client `extension:<name>`, a name that no other client can attach under.
"""

from typing import Final, Protocol

from session_core.ids import ClientId, SessionId
from session_core.vocabulary.extensions import Completion, ExtensionInfo

_PREFIX: Final = "extension:"


class ExtensionManager(Protocol):
    """Starts and ends extensions; raises the same errors as `Extensions`."""

    async def reload(self, name: str) -> None:
        """Replace the process by a new one; if that fails to start, the old one stays."""
        ...

    async def enable(self, name: str) -> None:
        """Enable an extension, now and after every restart."""
        ...

    async def disable(self, name: str) -> None:
        """Disable an extension, now and after every restart."""
        ...


class Extensions(Protocol):
    """The extensions of a service.

    A failing extension raises `ExtensionFailed` (or `RpcFailed`, which becomes one), a missing one `NotFound`.
    Every method may be cancelled, and then abandons whatever it had an extension do.
    """

    def list(self, session_id: SessionId | None = None) -> tuple[ExtensionInfo, ...]:
        """Return all extensions, or those that take part in a session, in the order in which they are asked."""
        ...

    def list_in(self, cwd: str) -> tuple[ExtensionInfo, ...]:
        """Return the extensions that take part in sessions of a folder, in the order in which they are asked."""
        ...

    def find_manager(self, name: str, folder: str | None) -> "ExtensionManager":
        """Return the manager that reloads, enables and disables the extension of this name.

        With `folder`, it is the extension that serves only the sessions of that folder. Without, it is the one that
        serves all sessions, or the only one of that name.

        Raises:
            NotFound: There is none.
            Conflict: Several folders have one of that name.
        """
        ...

    async def run_command(self, session_id: SessionId, name: str, arguments: str, extension: str | None) -> str:
        """Run a command of an extension and return its answer."""
        ...

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str, extension: str | None
    ) -> tuple[Completion, ...]:
        """Return completions for the arguments of a command."""
        ...

    def press_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> None:
        """Tell an extension that a key was pressed in a widget; never blocks."""
        ...

    def title_of(self, model: str, cwd: str) -> str:
        """Return the title that an extension gives one of its models for users of a folder, if any."""
        ...

    async def why_not_usable(self, provider: str, cwd: str) -> str:
        """Describe what the user must do before an extension's provider can be used in a folder, if anything."""
        ...

    async def login(self, session_id: SessionId, provider: str) -> None:
        """Log in to a model provider of an extension; its questions are asked in the session."""
        ...


def extension_client(name: str) -> ClientId:
    """Return the client id that an extension acts under."""
    return ClientId(_PREFIX + name)


def extension_of(client_id: ClientId | None) -> str | None:
    """Return the extension that acts under a client id; None for any other client."""
    return client_id.removeprefix(_PREFIX) if client_id is not None and client_id.startswith(_PREFIX) else None


def display_owner(client_id: ClientId) -> str:
    """Return the owner of a display or entry: an extension, or for other clients a name no extension can have."""
    return extension_of(client_id) or f"client:{client_id}"


def explain_missing_model(model: str, extensions: Extensions | None) -> str:
    """Describe why no extension provides a model; empty if it could not come from one."""
    provider, slash, _ = model.partition("/")
    if extensions is None or not slash:
        return ""
    infos = extensions.list()
    for info in infos:
        if info.name == provider and info.state != "ready":
            return f"the extension {info.name} is {info.state}{f': {info.problem}' if info.problem else ''}"
    if starting := [info.name for info in infos if info.state == "starting"]:
        return f"an extension may still provide it: {', '.join(starting)} has not started yet"
    return f"no extension that runs here has a provider called {provider!r}"
