"""What the service needs of extensions, and by what names they act in it.

Handlers reach extensions through `Extensions` only. Extensions reach the service by ordinary commands, each in the name
of the client `extension:<name>`, a name that nobody else can attach under.
"""

from typing import Final, Protocol

from session_core.ids import ClientId, SessionId
from session_core.vocabulary.extensions import Completion, ExtensionInfo

_PREFIX: Final = "extension:"


class ExtensionKeeper(Protocol):
    """Who starts and ends extensions; fails as `Extensions` does."""

    async def reload(self, name: str) -> None:
        """Let a new process take over; when it fails to start, the old one stays."""
        ...

    async def enable(self, name: str) -> None:
        """Use an extension again, now and after every restart."""
        ...

    async def disable(self, name: str) -> None:
        """Use an extension no longer, now and after every restart."""
        ...


class Extensions(Protocol):
    """The extensions of a service.

    What they fail at is raised as `ExtensionFailed` (or as `RpcFailed`, which becomes one), what does not exist as
    `NotFound`. Every method may be cancelled, and then lets go of whatever it had an extension do.
    """

    def list(self, session_id: SessionId | None = None) -> tuple[ExtensionInfo, ...]:
        """Return the extensions there are, or those with a part in a session, in the order in which they are asked."""
        ...

    def list_in(self, cwd: str) -> tuple[ExtensionInfo, ...]:
        """Return those with a part in sessions that work in a folder, in the order in which they are asked."""
        ...

    def find_keeper(self, name: str, folder: str | None) -> "ExtensionKeeper":
        """Return who reloads the extension of this name and switches it on and off.

        `folder` is the one whose sessions alone it serves. Left out, it is one that serves all sessions, or the only
        one of that name.

        Raises:
            NotFound: There is none.
            Conflict: Several folders have one of that name.
        """
        ...

    async def run_command(self, session_id: SessionId, name: str, arguments: str, extension: str | None) -> str:
        """Have an extension do something, and return what it has to say."""
        ...

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str, extension: str | None
    ) -> tuple[Completion, ...]:
        """Return how the arguments of a command could go on."""
        ...

    def press_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> None:
        """Tell an extension that a key was pressed in a widget; never waits."""
        ...

    def title_of(self, model: str, cwd: str) -> str:
        """Return what an extension calls one of its models in front of people who work in a folder, if anything."""
        ...

    async def why_not_usable(self, provider: str, cwd: str) -> str:
        """Say what people have to do before a provider of an extension can be used in a folder, if anything."""
        ...

    async def login(self, session_id: SessionId, provider: str) -> None:
        """Log in to a provider of models that an extension brings; its questions are asked in the session."""
        ...


def extension_client(name: str) -> ClientId:
    """Return the client in whose name an extension acts."""
    return ClientId(_PREFIX + name)


def extension_of(client_id: ClientId | None) -> str | None:
    """Return which extension acts in the name of a client; None when it is another one."""
    return client_id.removeprefix(_PREFIX) if client_id is not None and client_id.startswith(_PREFIX) else None


def display_owner(client_id: ClientId) -> str:
    """Say who shows or keeps something: the name of an extension, and for others one that no extension can have."""
    return extension_of(client_id) or f"client:{client_id}"


def explain_missing_model(model: str, extensions: Extensions | None) -> str:
    """Say why no extension has brought a model; nothing if it could not come from one."""
    provider, slash, _ = model.partition("/")
    if extensions is None or not slash:
        return ""
    infos = extensions.list()
    for info in infos:
        if info.name == provider and info.state != "ready":
            return f"the extension {info.name} is {info.state}{f': {info.problem}' if info.problem else ''}"
    if starting := [info.name for info in infos if info.state == "starting"]:
        return f"an extension may still bring it: {', '.join(starting)} has not started yet"
    return f"no extension that runs here brings a provider called {provider!r}"
