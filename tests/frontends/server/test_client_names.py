"""Nobody carries the name of somebody else: not the owner's, not the service's, not that of another guest."""

import pytest

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.client_names import RESERVED_NAMES, RESERVED_PREFIXES, choose_client_id, fold_name
from session_core.ids import LOCAL_CLIENT
from session_core.service import retention
from session_core.service.extension_api import extension_client
from tests.frontends.server._world import open_world

c = sc.commands
GUEST = Access(sessions=frozenset({sc.SessionId("ses_a")}))
ALIKE = [
    "http-token",
    " http-token",
    "\u00a0http-token",
    "\u2003http-token",
    "HTTP-token",
    "\uff48ttp-token",
    "h\u200dttp-token",
    "ht\ufe00tp-token",
    "http\uff0dtoken",
    "h ttp-token",
    "extension:x",
    "\u00a0Extension:x",
    "extension\uff1ax",
    "guest:other:me",
    "GUEST:other:me",
    "local",
    "\u3000local",
    "Local",
    "\uff4cocal",
    "lo\u0301cal",
    "retention",
    "RETENTION ",
]


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("access", [EVERYTHING, GUEST, Access(role="observer")])
def test_names_that_look_like_the_servers_own_are_refused(name: str, access: Access) -> None:
    """A name that people take for one of the server's own belongs to the server, whatever it is written with."""
    with pytest.raises(sc.Conflict, match="belong"):
        choose_client_id(name, access, "t1")


@pytest.mark.parametrize("name", ["\u00a0", "\u200b", "\ufe00", "   "])
def test_a_name_must_be_visible(name: str) -> None:
    """Nobody is called nothing."""
    with pytest.raises(sc.InvalidInput):
        choose_client_id(name, EVERYTHING, "")


def test_all_names_of_the_service_are_reserved() -> None:
    """The service's own names are among the reserved ones, and each of them is found."""
    assert {LOCAL_CLIENT, retention.CLIENT} == set(RESERVED_NAMES)
    assert any(extension_client("x").startswith(prefix) for prefix in RESERVED_PREFIXES)
    assert all(fold_name(each) == each for each in (*RESERVED_NAMES, *RESERVED_PREFIXES))


def test_guests_have_a_prefix_of_their_own() -> None:
    """The name of a guest tells its token; who comes back with the whole name keeps it, and the owner has no prefix."""
    assert choose_client_id("ann", EVERYTHING, "") == "ann"
    assert choose_client_id("ann", GUEST, "t1") == "guest:t1:ann"
    assert choose_client_id("guest:t1:ann", GUEST, "t1") == "guest:t1:ann"
    assert choose_client_id("ann", Access(role="observer"), "t2") == "guest:t2:ann"
    assert choose_client_id("", GUEST, "t1").startswith("guest:t1:client_")
    with pytest.raises(sc.Conflict):
        choose_client_id("guest:t1:ann", GUEST, "t2")


@pytest.mark.parametrize("name", ["ann", " ann", "\u00a0ann"])
async def test_a_guest_neither_reads_nor_uses_up_the_keys_of_the_owner(name: str) -> None:
    """With the owner's name and idempotency key a guest gets neither the owner's reply nor the key itself."""
    async with open_world() as world:
        made = await world.service.create_session(name="A")
        rename = c.RenameSession(session_id=made.session_id, name="by the owner")
        other = c.RenameSession(session_id=made.session_id, name="by a guest")
        guest_access = Access(sessions=frozenset({made.session_id}))
        async with world.client(guest_access) as guest:
            await guest.run(other, idempotency_key="later")
        async with world.client(client_id="ann") as owner:
            await owner.run(rename, idempotency_key="k")
            await owner.run(rename, idempotency_key="later")  # was not used up
        async with world.connected(guest_access) as guest:
            welcome = await guest.hello(client_id=name)
            assert welcome.client_id == "guest::ann"
            await guest.run(other, idempotency_key="k")  # no conflict, and no reply of the owner's
        session = await world.service.load_session(made.session_id)
        assert session.name == "by a guest"
