"""Logging in to providers of extensions, and keeping logins alive."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.ids import SessionId
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, ProviderEvent, TextChunk
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.models.credentials import CREDENTIALS_FILE, CredentialFile
from session_core.sep.host.models.logins import LoginFailed, ProviderLogins
from tests.session_core.providers._contract import collect, request
from tests.session_core.sep._models import Peer, Shop, open_shop

TOKEN = "secret-token-"


class Provider:
    """An extension whose model wants a token, which runs out after a hundred seconds."""

    def __init__(self) -> None:
        self.number = 0
        self.valid = ""
        self.refuses = False
        self.waits = trio.Event()
        self.waits.set()
        self.peer = Peer(complete=self.complete, oauth_login=self.login, oauth_refresh=self.refresh)

    def new(self) -> dict[str, Any]:
        self.number += 1
        self.valid = f"{TOKEN}{self.number}"
        return {"access_token": self.valid, "refresh_token": f"r{self.number}", "expires_at": now() + 100}

    async def login(self, _: Peer, params: dict[str, Any]) -> Any:
        await self.waits.wait()
        if self.refuses:
            raise RpcFailed(-32603, "the person said no")
        return self.new()

    async def refresh(self, _: Peer, params: dict[str, Any]) -> Any:
        expected = f"r{self.number}"
        new = self.new() if not self.refuses and params["refresh_token"] == expected else None
        await self.waits.wait()
        if new is None:
            raise RpcFailed(-32603, f"invalid_grant for {params['refresh_token']}, {self.valid}")
        return new

    async def complete(self, _: Peer, params: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        token = params.get("credentials", {}).get("access_token", "nothing")
        if token != self.valid:
            raise RpcFailed(-32603, f"401 unauthorized: {token}")
        return {"content": "yes"}

    @property
    def methods(self) -> list[str]:
        return [method.partition("/")[2] for method, _ in self.peer.asked]


def now() -> int:
    return 1_000_000 + int(trio.current_time())


@asynccontextmanager
async def open_logins(provider: Provider, file: CredentialFile | None = None) -> AsyncGenerator[Shop]:
    kept = file or CredentialFile()
    async with open_shop(provider.peer, logins=lambda contexts: ProviderLogins(contexts, kept, now=now)) as shop:
        yield shop


async def ask(shop: Shop) -> list[ProviderEvent]:
    question = ModelRequest(model="acme/large", messages=request("hello").messages, cache_key="ses_1")
    return await collect(shop.providers.providers["acme/large"], question)


YES = [TextChunk(text="yes"), ModelFinished()]


async def test_a_login_is_handed_back(autojump_clock: trio.abc.Clock) -> None:
    """After a login, the extension gets what it returned with every question, until somebody logs out."""
    provider, file = Provider(), CredentialFile()
    async with open_logins(provider, file) as shop:
        (failure,) = await ask(shop)
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "auth"
        await shop.providers.log_in("acme")
        assert await shop.providers.why_not_usable("acme") == ""
        assert await ask(shop) == YES
        (login,) = file.all()
        assert file.forget(login)
        assert not file.forget(login)
        assert await shop.providers.why_not_usable("acme") != ""
        assert provider.methods == ["complete", "oauth_login", "complete"]


async def test_a_login_is_renewed_before_it_runs_out(autojump_clock: trio.abc.Clock) -> None:
    """A login that is about to run out is renewed first, and what is new is kept."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        await trio.sleep(50)
        assert await ask(shop) == YES
        assert await ask(shop) == YES
        assert provider.methods == ["oauth_login", "oauth_refresh", "complete", "complete"]


async def test_many_sessions_renew_once(autojump_clock: trio.abc.Clock) -> None:
    """Calls at the same time wait for one renewal: the token for it can be used once only."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        await trio.sleep(500)
        got: list[list[ProviderEvent]] = []

        async def one() -> None:
            got.append(await ask(shop))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)
        assert got == [YES] * 8
        assert provider.methods.count("oauth_refresh") == 1


async def test_a_refused_token_is_renewed_once(autojump_clock: trio.abc.Clock) -> None:
    """A token that the provider no longer takes is renewed and the question asked again, once."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        provider.valid = "withdrawn"
        assert await ask(shop) == YES
        assert provider.methods == ["oauth_login", "complete", "oauth_refresh", "complete"]


async def test_a_renewal_that_fails(autojump_clock: trio.abc.Clock) -> None:
    """A login that is still good for a while is used; one that has run out is a failure without any token in it."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        provider.refuses = True
        await trio.sleep(50)
        assert await ask(shop) == YES
        await trio.sleep(60)
        (failure,) = await ask(shop)
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "auth"
        assert "log in again" in failure.message
        assert TOKEN not in failure.message


async def test_a_stop_does_not_lose_a_renewal(autojump_clock: trio.abc.Clock) -> None:
    """A renewal that has begun is finished after a stop, as the old token is used up, but not for long."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        await trio.sleep(500)
        provider.waits = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, shop)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            provider.waits.set()
        provider.waits = trio.Event()
        assert await ask(shop) == YES
        assert provider.methods.count("oauth_refresh") == 1

        await trio.sleep(500)
        before = trio.current_time()
        with trio.move_on_after(1):
            await ask(shop)
        assert trio.current_time() - before == pytest.approx(6)


async def test_a_login_that_fails(autojump_clock: trio.abc.Clock) -> None:
    """A login that the extension refuses, answers oddly or never answers is a typed error; the old one stays."""
    provider = Provider()
    async with open_logins(provider) as shop:
        await shop.providers.log_in("acme")
        provider.refuses = True
        with pytest.raises(LoginFailed, match="the person said no"):
            await shop.providers.log_in("acme")
        provider.waits = trio.Event()
        with pytest.raises(LoginFailed, match="within 300 s"):
            await shop.providers.log_in("acme")

        async def odd(_: Peer, params: dict[str, Any]) -> Any:
            await trio.lowlevel.checkpoint()
            return {"access_token": 5}

        provider.peer.answers["oauth_login"] = odd
        with pytest.raises(LoginFailed, match="access_token"):
            await shop.providers.log_in("acme")
        provider.refuses = False
        provider.waits.set()
        assert await ask(shop) == YES
        assert provider.methods[-2:] == ["oauth_refresh", "complete"]


async def test_dialogs_of_a_login_appear_in_its_session(autojump_clock: trio.abc.Clock) -> None:
    """During a login the extension may act in the session from which it was asked for."""
    provider = Provider()
    provider.waits = trio.Event()
    async with open_logins(provider) as shop, trio.open_nursery() as nursery:
        nursery.start_soon(shop.providers.log_in, "acme", SessionId("ses_2"))
        await trio.testing.wait_all_tasks_blocked()
        ((_, params),) = provider.peer.asked
        assert shop.contexts.require_dispatch("acme", 1, params["context"]).session_id == "ses_2"
        provider.waits.set()


async def test_logins_outlive_the_service(tmp_path: Path) -> None:
    """What was kept in the home is there for the next service, without another login."""
    path = tmp_path / "home" / CREDENTIALS_FILE
    provider = Provider()
    async with open_logins(provider, CredentialFile(path)) as shop:
        await shop.providers.log_in("acme")
    async with open_logins(provider, CredentialFile(path)) as shop:
        assert await ask(shop) == YES
    assert provider.methods == ["oauth_login", "complete"]
