"""Logging in to providers of extensions, and keeping logins valid.

The extension itself talks to people, through dialogs, and to the provider. The resulting credentials are stored here:
the extension gets them back with every request to one of its models, and renews them shortly before they expire. Calls
of many sessions share one renewal.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import trio

from session_core import limits
from session_core.errors import SessionCoreError
from session_core.ids import SessionId
from session_core.providers.failures import excerpt
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.models.credentials import CredentialFile, LoginKey, StoredCredentials, read_credentials

EARLY_SECONDS: Final = 60
"""How long before its expiry a login is renewed, because answers take a while."""
_GRACE_SECONDS: Final = 5
"""How long a renewal may continue after a stop: it has often used up the old token, and the new one would be lost."""

T = TypeVar("T")


class LoginFailed(SessionCoreError):
    """There is no login to a provider: the extension could not do it, or the login has expired."""

    code = "login_failed"


class ProviderLogins:
    """The logins of all extensions; `now` returns the seconds since 1970."""

    def __init__(self, contexts: Contexts, file: CredentialFile, *, now: Callable[[], float] = time.time) -> None:
        self._contexts = contexts
        self._file = file
        self._now = now
        self._locks: dict[LoginKey, trio.Lock] = {}

    async def log_in(self, extension: HostedExtension, provider: str, session_id: SessionId | None = None) -> None:
        """Let an extension log the user in; its dialogs appear in that session.

        Raises:
            LoginFailed: The login failed, or took too long.
            StoreUnusable: The credentials cannot be stored.

        Cancellation: the extension is told; previously stored credentials stay.
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
                await self._in_thread(lambda: self._file.save(_login(extension, provider), credentials))

    async def find(self, extension: HostedExtension, provider: str) -> StoredCredentials | None:
        """Return the stored login, if there is one."""
        return await self._in_thread(lambda: self._file.find(_login(extension, provider)))

    async def find_fresh(
        self, extension: HostedExtension, provider: str, session_id: SessionId | None
    ) -> StoredCredentials | None:
        """Return the stored login, renewed if it is about to expire; None if there is no login.

        Raises:
            LoginFailed: It has expired and could not be renewed.
        """
        stored = await self.find(extension, provider)
        if stored is None or not self._runs_out(stored, EARLY_SECONDS):
            return stored
        try:
            return await self.renew(extension, provider, session_id, stored)
        except LoginFailed:
            if self._runs_out(stored, 0):
                raise
            return stored

    async def renew(
        self, extension: HostedExtension, provider: str, session_id: SessionId | None, old: StoredCredentials
    ) -> StoredCredentials:
        """Return newer credentials than these; the first caller has them renewed, the others wait.

        Raises:
            LoginFailed: They cannot be renewed.

        Cancellation: the renewal continues for a few seconds, because it may have used up the old token.
        """
        async with self._lock(extension, provider):
            stored = await self.find(extension, provider)
            if stored is not None and stored != old:
                return stored
            if stored is None or old.refresh_token is None:
                raise LoginFailed(f"the login to {provider} has run out; log in again")
            found: list[StoredCredentials | LoginFailed] = []
            renewal = trio.CancelScope(shield=True)

            async def renew_it() -> None:
                with renewal:
                    found.append(await self._request_renewal(extension, provider, session_id, old))
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

    async def _request_renewal(
        self, extension: HostedExtension, provider: str, session_id: SessionId | None, old: StoredCredentials
    ) -> StoredCredentials | LoginFailed:
        assert old.refresh_token is not None
        params = {"provider": provider, "refresh_token": old.refresh_token.reveal()}
        try:
            later = old.merge_renewed(
                await self._ask(extension, "provider/oauth_refresh", params, session_id, limits.EXTENSION_REFRESH_MS)
            )
            await self._in_thread(lambda: self._file.save(_login(extension, provider), later))
        except (RpcFailed, SessionCoreError) as error:
            why = excerpt(error.message, old.secrets)
            return LoginFailed(f"the login to {provider} could not be renewed, log in again: {why}")
        return later

    async def _ask(
        self,
        extension: HostedExtension,
        method: str,
        params: dict[str, Any],
        session_id: SessionId | None,
        most_ms: int,
    ) -> StoredCredentials:
        with self._contexts.dispatch(extension.name, extension.generation, session_id) as context:
            answer = await extension.request(method, {**params, "context": context.wire}, timeout=most_ms / 1000)
        return read_credentials(answer)

    def _runs_out(self, credentials: StoredCredentials, seconds: float) -> bool:
        return credentials.expires_at is not None and credentials.expires_at <= self._now() + seconds

    def _lock(self, extension: HostedExtension, provider: str) -> trio.Lock:
        return self._locks.setdefault(_login(extension, provider), trio.Lock())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._file.file is None:  # nothing blocks
            await trio.lowlevel.checkpoint()
            return work()
        return await trio.to_thread.run_sync(work)


def _login(extension: HostedExtension, provider: str) -> LoginKey:
    return LoginKey(extension=extension.name, folder=os.path.realpath(extension.found.folder), provider=provider)
