"""Checks of the small values that owners store under their own keys."""

from collections.abc import Awaitable
from typing import Any

import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.testing.check_store_world import HALF_A_CHARACTER, StoreHarness, expect, list_ids, open_live_sessions

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1.5,
    "",
    "a text",
    "ein Wörtchen 🙂",
    [],
    {},
    {"deep": [{"er": [1, 2, {"x": None}]}]},
)


async def values_come_back(harness: StoreHarness) -> None:
    """An owner's values are there at once and after reopening, only for this owner."""
    async with open_live_sessions(harness.make_store()) as live:
        for number, value in enumerate(VALUES):
            await live.store.kv_set("one", f"key {number}", value)
        await live.store.kv_set("two", "key 5", "of another")
        await live.store.kv_set("two", "key 5", "of another, later")
    async with open_live_sessions(harness.make_store()) as again:
        for number, value in enumerate(VALUES):
            expect(await again.store.kv_get("one", f"key {number}"), value, "a value comes back as it was")
        expect(await again.store.kv_get("two", "key 5"), "of another, later", "the newest value of a key is kept")
        expect(await again.store.kv_get("two", "key 6"), None, "an owner has no values of another")
        expect(await again.store.kv_get("one", "key"), None, "a value that was never stored is not there")
        expect(list_ids(again.opened.summaries), [], "values belong to no session")


async def values_are_listed_and_let_go(harness: StoreHarness) -> None:
    """Keys are listed in order and by prefix, and deleted ones are gone for good."""
    async with open_live_sessions(harness.make_store()) as live:
        for key in ("b", "a/2", "ä", "a/1", "a%", "A/1"):
            await live.store.kv_set("one", key, key)
        await live.store.kv_set("two", "a/3", 3)
        expect(await live.store.kv_list("one"), ("A/1", "a%", "a/1", "a/2", "b", "ä"), "keys are listed in order")
        expect(await live.store.kv_list("one", "a/"), ("a/1", "a/2"), "keys are listed by how they begin")
        expect(await live.store.kv_list("one", "a%"), ("a%",), "how a key begins is taken as it is")
        expect(await live.store.kv_list("three"), (), "an owner without values has no keys")
        await live.store.kv_delete("one", "a/1")
        await live.store.kv_delete("one", "never kept")
        expect(await live.store.kv_get("one", "a/1"), None, "a deleted value is gone")
    async with open_live_sessions(harness.make_store()) as again:
        expect(await again.store.kv_list("one", "a/"), ("a/2",), "a deleted value is gone for good")


async def values_are_durable_when_told_so(harness: StoreHarness) -> None:
    """After a crash, every change that had returned is there, and deleting a session deletes no values."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        await live.store.kv_set("one", "kept", {"n": 1})
        await live.store.kv_set("one", "gone", 2)
        live.delete(session_id)
        await live.store.kv_delete("one", "gone")
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        expect(await again.store.kv_list("one"), ("kept",), "a change that has returned is durable")
        expect(await again.store.kv_get("one", "kept"), {"n": 1}, "a change that has returned is durable")


async def values_of_many_at_once(harness: StoreHarness) -> None:
    """Many tasks may change values concurrently, while sessions are written, and each finds its own."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()

        async def keep(number: int) -> None:
            await live.store.kv_set(f"owner-{number % 3}", f"key {number}", number)
            live.say(session_id, f"message {number}")
            expect(await live.store.kv_get(f"owner-{number % 3}", f"key {number}"), number, "a value is there at once")

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(keep, number)
        await live.wait_durable()
        expect(len(await live.store.kv_list("owner-1")), 10, "no change is lost")


async def values_are_bounded(harness: StoreHarness) -> None:
    """Invalid values are refused with the name of the field, and the previous value stays."""
    async with open_live_sessions(harness.make_store()) as live:
        store = live.store
        await store.kv_set("one", "k", "before")
        too_long, too_large = "k" * (limits.MAX_KV_KEY_CHARS + 1), "v" * limits.MAX_KV_VALUE_BYTES
        await _check_refused(store.kv_set("one", "", 1), "key", "a key is never empty")
        await _check_refused(store.kv_set("one", too_long, 1), "key", "a key is not too long")
        await _check_refused(store.kv_get("one", HALF_A_CHARACTER), "key", "a key can be written down")
        await _check_refused(store.kv_delete("one", "a\0b"), "key", "a key can be written down")
        await _check_refused(store.kv_set("", "k", 1), "owner", "an owner has a name")
        await _check_refused(store.kv_list(HALF_A_CHARACTER), "owner", "an owner has a name that can be written down")
        await _check_refused(store.kv_set("one", "k", too_large), "value", "a value is not too large")
        await _check_refused(store.kv_set("one", "k", {"x": float("nan")}), "value.x", "a value is strict JSON")
        await _check_refused(store.kv_set("one", "k", HALF_A_CHARACTER), "value", "a value can be written down")
        await _check_refused(store.kv_set("one", "k", object()), "value", "a value is plain JSON")
        expect(await store.kv_get("one", "k"), "before", "what is refused changes nothing")
        almost = "v" * (limits.MAX_KV_VALUE_BYTES - 2)  # with its quotes it has the maximum size
        room = limits.MAX_KV_BYTES // limits.MAX_KV_VALUE_BYTES
        async with trio.open_nursery() as nursery:
            for number in range(room):
                nursery.start_soon(store.kv_set, "large", f"{number}", almost)
        await _check_refused(
            store.kv_set("large", "one more", 1), "value", "all values of an owner together are bounded"
        )
        await store.kv_set("large", "0", almost)
        await store.kv_set("large", "0", "small")
        await store.kv_set("large", "one more", 1)
        async with trio.open_nursery() as nursery:
            for number in range(limits.MAX_KV_KEYS):
                nursery.start_soon(store.kv_set, "many", f"{number}", number)
        await _check_refused(store.kv_set("many", "one more", 1), "key", "the keys of an owner are counted")
        await store.kv_set("many", "7", "another")
        await store.kv_delete("many", "8")
        await store.kv_set("many", "one more", 1)
        expect(await store.kv_get("one", "k"), "before", "the limits of one owner do not affect another")
    async with open_live_sessions(harness.make_store()) as again:
        await _check_refused(again.store.kv_set("many", "two more", 1), "key", "keys are counted across openings")


async def _check_refused(change: Awaitable[object], field: str, promise: str) -> None:
    try:
        await change
    except InvalidInput as error:
        expect(error.field, field, promise)
    else:
        raise AssertionError(f"{promise}; but this was not refused")
