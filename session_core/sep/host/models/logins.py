"""Logging in to providers of extensions, and keeping logins alive.

The extension itself talks to people, by dialogs, and to the provider. What it gets is kept here for it: it is handed
back with every question to one of its models, and renewed by the extension shortly before it runs out. Calls of many
sessions renew a login once.
"""

import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

import trio

from session_core import limits
from session_core.errors import SessionCoreError
from session_core.ids import SessionId
from session_core.providers.failures import excerpt
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.catalogue.discovery import Found
from session_core.sep.host.models.credentials import CredentialFile, Credentials, Login, read_credentials
from session_core.sep.host.registrations import Registrations

EARLY_SECONDS: Final = 60
"""A login is renewed so long before it runs out, as answers take a while."""
_GRACE_SECONDS: Final = 5
"""How long a renewal may go on after a stop: the old token is often used up by then, and the new one would be lost."""

T = TypeVar("T")


class Asked(Protocol):
    """What providers need of an `Extension`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def found(self) -> Found:
        """Where it lies."""
        ...

    @property
    def generation(self) -> int:
        """The number of its present process."""
        ...

    @property
    def state(self) -> str:
        """How it is."""
        ...

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""
        ...

    @property
    def registrations(self) -> Registrations:
        """What it has registered."""
        ...

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None,
    ) -> Coroutine[Any, Any, Any]:
        """Ask it something; see `Extension.request`."""
        ...


class LoginFailed(SessionCoreError):
    """Nobody is logged in to a provider: the extension could not do it, or a login has run out."""

    code = "login_failed"


class Logins:
    """The logins of all extensions; `now` tells the seconds since 1970."""

    def __init__(self, contexts: Contexts, file: CredentialFile, *, now: Callable[[], float] = time.time) -> None:
        self._contexts = contexts
        self._file = file
        self._now = now
        self._locks: dict[Login, trio.Lock] = {}

    async def log_in(self, extension: Asked, provider: str, session_id: SessionId | None = None) -> None:
        """Have an extension log somebody in; its dialogs appear in that session.

        Raises:
            LoginFailed: It could not, or not in time.
            StoreUnusable: What it got cannot be kept.

        Cancellation: the extension is told; what was kept before still is.
        """
        async with self._lock(extension, provider):
            params = {"provider": provider}
            try:
                credentials = await self._ask(
                    extension, "provider/oauth_login", params, session_id, limits.EXTENSION_LOGIN_MS
                )
            except (RpcFailed, SessionCoreError) as error:
                raise LoginFailed(f"the login to {provider} failed: {excerpt(error.message)}") from None
            with trio.CancelScope(shield=True):
                await self._in_thread(lambda: self._file.keep(_login(extension, provider), credentials))

    async def log_out(self, extension: Asked, provider: str) -> bool:
        """Forget a login; tells whether there was one.

        Raises:
            StoreUnusable: The file of logins cannot be written.
        """
        async with self._lock(extension, provider):
            return await self._in_thread(lambda: self._file.forget(_login(extension, provider)))

    async def find(self, extension: Asked, provider: str) -> Credentials | None:
        """Return what is kept of a login, if there is one."""
        return await self._in_thread(lambda: self._file.find(_login(extension, provider)))

    async def fresh(self, extension: Asked, provider: str, session_id: SessionId | None) -> Credentials | None:
        """Return what is kept of a login, renewed if it is about to run out; nothing if nobody is logged in.

        Raises:
            LoginFailed: It has run out, and could not be renewed.
        """
        kept = await self.find(extension, provider)
        if kept is None or not self._runs_out(kept, EARLY_SECONDS):
            return kept
        try:
            return await self.renew(extension, provider, session_id, kept)
        except LoginFailed:
            if self._runs_out(kept, 0):
                raise
            return kept

    async def renew(
        self, extension: Asked, provider: str, session_id: SessionId | None, old: Credentials
    ) -> Credentials:
        """Return credentials that are newer than these; whoever comes first has them renewed, the others wait.

        Raises:
            LoginFailed: They cannot be renewed.

        Cancellation: the renewal goes on for a few seconds, as it may have used up the old token.
        """
        async with self._lock(extension, provider):
            kept = await self.find(extension, provider)
            if kept is not None and kept != old:
                return kept
            if kept is None or old.refresh_token is None:
                raise LoginFailed(f"the login to {provider} has run out; log in again")
            found: list[Credentials | LoginFailed] = []
            renewal = trio.CancelScope(shield=True)

            async def renew_it() -> None:
                with renewal:
                    found.append(await self._renewed(extension, provider, session_id, old))
                done.set()

            done = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(renew_it)
                try:
                    await done.wait()
                finally:
                    renewal.deadline = trio.current_time() + _GRACE_SECONDS
        if isinstance(found[0], LoginFailed):
            raise found[0]
        return found[0]

    async def _renewed(
        self, extension: Asked, provider: str, session_id: SessionId | None, old: Credentials
    ) -> Credentials | LoginFailed:
        assert old.refresh_token is not None
        params = {"provider": provider, "refresh_token": old.refresh_token.reveal()}
        try:
            later = old.renewed(
                await self._ask(extension, "provider/oauth_refresh", params, session_id, limits.EXTENSION_REFRESH_MS)
            )
            await self._in_thread(lambda: self._file.keep(_login(extension, provider), later))
        except (RpcFailed, SessionCoreError) as error:
            why = excerpt(error.message, old.secrets)
            return LoginFailed(f"the login to {provider} could not be renewed, log in again: {why}")
        return later

    async def _ask(
        self, extension: Asked, method: str, params: dict[str, Any], session_id: SessionId | None, most_ms: int
    ) -> Credentials:
        with self._contexts.dispatch(extension.name, extension.generation, session_id) as context:
            answer = await extension.request(method, {**params, "context": context.wire}, timeout=most_ms / 1000)
        return read_credentials(answer)

    def _runs_out(self, credentials: Credentials, seconds: float) -> bool:
        return credentials.expires_at is not None and credentials.expires_at <= self._now() + seconds

    def _lock(self, extension: Asked, provider: str) -> trio.Lock:
        return self._locks.setdefault(_login(extension, provider), trio.Lock())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._file.file is None:  # nothing blocks
            await trio.lowlevel.checkpoint()
            return work()
        return await trio.to_thread.run_sync(work)


def _login(extension: Asked, provider: str) -> Login:
    return Login(extension=extension.name, folder=os.path.realpath(extension.found.folder), provider=provider)
