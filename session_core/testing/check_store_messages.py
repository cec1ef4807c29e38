"""Checks of the messages that a store returns: pages, paths, search, long and odd contents."""

from session_core.errors import SessionCoreError
from session_core.ids import CallId, MessageId, SessionId
from session_core.testing.check_store_world import (
    HALF_A_CHARACTER,
    LiveSessions,
    StoreHarness,
    check_journal,
    check_loads,
    check_unknown,
    expect,
    open_live_sessions,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Message, ToolResultPart

ODD_TEXTS = (
    "",
    " \n\t ",
    "nul \x00 inside",
    "quotes ' \" ` and \\ backslash; DROP TABLE event; --",
    "日本語 עברית 🏳️‍🌈 e\u0301 \u202e right to left",
    "\ufeff\u2028\u2029\x1b[31m\x7f",
    "percent %s %(x)s {y} $1 ? :name @p",
)
ODD_QUERIES = (
    *ODD_TEXTS,
    *('"', '""', "'", "*", "a*", "-", "- a", "+a", "^a", "a:b", "(", ")", "(a", "{a}", "~", ",", ".", "\\", "%", "_"),
    *("AND", "OR", "NOT", "NEAR", "a AND", "NOT a", "NEAR(a b", "a OR OR b", "text : a", "rank", "\x00", "a\x00b"),
    *("a" * 5_000, "a " * 2_000, HALF_A_CHARACTER, "😀", "\u0301"),
)


async def _grow_a_tree(live: LiveSessions) -> SessionId:
    """Build a conversation with branches, tool steps in several batches, a summary and an import."""
    session_id = live.create()
    root = live.say(session_id, "root " * 10)
    live.answer(session_id, "I shall look", calls=("c1", "c2"))
    first = live.finish_call(session_id, "c1", "one" * 30)
    await live.wait_durable()
    second = live.finish_call(session_id, "c2", "two" * 20)
    live.commit_results(session_id, (second, first))
    fork = live.answer(session_id, "done")
    live.go_to(session_id, root.message_id)
    live.say(session_id, "another way")
    live.answer(session_id, "once more", calls=("c1",))  # call ids may repeat
    live.commit_results(session_id, [live.finish_call(session_id, "c1", "other")])
    await live.wait_durable()
    live.say(session_id, "what was said before, in short", role="summary")
    live.say(session_id, "after the summary")
    live.go_to(session_id, None)
    live.say(session_id, "a second root")
    imported = tuple(
        Message(message_id=MessageId(f"msg_{n}"), parent_id=parent, role="user", parts=(), created_at=n)
        for n, parent in enumerate((fork.message_id, MessageId("msg_0"), MessageId("msg_1")))
    )
    live.bring_back(session_id, imported)
    live.say(session_id, "the last")
    await live.wait_durable()
    return session_id


async def pages_of_messages_fit_together(harness: StoreHarness) -> None:
    """Every page, from any place and of any length, holds exactly the messages right before that place."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = await _grow_a_tree(live)
        everything = tuple(live.messages[session_id])
        for before in range(-1, len(everything) + 3):
            for limit in range(len(everything) + 2):
                page = await live.store.load_messages(session_id, before=before, limit=limit)
                end = max(0, min(before, len(everything)))
                first = max(0, end - limit)
                expect(page.messages, everything[first:end], f"the page of {limit} before {before} is wrong")
                assert page.first == first or not page.messages, f"the page of {limit} before {before} is misplaced"


async def paths_lead_to_the_root(harness: StoreHarness) -> None:
    """The path to any message goes from parent to parent, and stops at a summary or at the given size."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = await _grow_a_tree(live)
    async with open_live_sessions(harness.make_store()) as again:
        for message in live.messages[session_id]:
            for max_chars in (0, 1, 5, 50, 80, 150, 10_000):
                wanted = live.path(session_id, message.message_id, max_chars)
                found = await again.store.load_path(session_id, message.message_id, max_chars=max_chars)
                expect(found, wanted, f"the path to {message.message_id} within {max_chars} characters is wrong")
            leaf = await again.store.newest_leaf(session_id, message.message_id)
            expect(
                leaf, live.newest_leaf(session_id, message.message_id), f"the leaf after {message.message_id} is wrong"
            )
        unknown = MessageId("msg_unknown")
        expect(
            await again.store.load_path(session_id, unknown, max_chars=99), (), "there is no path to an unknown message"
        )
        expect(await again.store.newest_leaf(session_id, unknown), None, "an unknown message has no leaf")


async def messages_that_came_back_keep_their_branches(harness: StoreHarness) -> None:
    """When old messages are appended again, paths and leaves are as if each were there once."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        root = live.say(session_id, "root")
        old = live.say(session_id, "an old branch")
        live.bring_back(session_id, (root,))
        other = live.say(session_id, "another branch")
        live.go_to(session_id, old.message_id)
        end = live.say(session_id, "goes on the old branch")
        for _ in range(2):
            await live.wait_durable()
            for message in (root, old, other, end):
                path = await live.store.load_path(session_id, message.message_id, max_chars=999)
                expect(path, live.path(session_id, message.message_id, 999), "a path is wrong after messages came back")
                leaf = await live.store.newest_leaf(session_id, message.message_id)
                wanted = live.newest_leaf(session_id, message.message_id)
                expect(leaf, wanted, "the newest descendant is not found after messages came back")
            live.bring_back(session_id, (root, old, end))


# --- search -----------------------------------------------------------------------------------------------------------


async def messages_are_found_by_their_words(harness: StoreHarness) -> None:
    """A search finds the messages that contain all of its words, in any order and case, and says where they are."""
    async with open_live_sessions(harness.make_store()) as live:
        here, there = live.create("here"), live.create("there")
        both = live.say(here, "Zephyrine met the quokkaroo by the river")
        live.say(here, "only a zephyrine")
        live.say(here, "only a quokkaroo")
        live.answer(there, "QUOKKAROO and ZEPHYRINE, said the model")
        await live.wait_durable()
        for text in ("zephyrine quokkaroo", "Quokkaroo ZEPHYRINE", "  quokkaroo\n zephyrine "):
            found = await live.store.search(text, limit=9)
            expect(
                {(hit.session_id, hit.role) for hit in found}, {(here, "user"), (there, "assistant")}, "all words count"
            )
            hit = next(hit for hit in found if hit.session_id == here)
            location = (hit.session_name, hit.message_id, hit.created_at)
            expect(location, ("here", both.message_id, both.created_at), "a hit says where it is")
            assert "quokkaroo" in hit.excerpt, f"the excerpt does not show what was found: {hit.excerpt!r}"
        expect(len(await live.store.search("quokkaroo", limit=2)), 2, "no more than asked for")
        expect(await live.store.search("quokkaroo unsaid", limit=9), (), "one word too many finds nothing")
        expect(await live.store.search(" \n ", limit=9), (), "no words find nothing")
    async with open_live_sessions(harness.make_store()) as again:
        expect(len(await again.store.search("zephyrine quokkaroo", limit=9)), 2, "words are found after a restart")


async def odd_searches_are_no_errors(harness: StoreHarness) -> None:
    """Nothing that people type into a search box is an error, and no character in it has a special meaning."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        live.say(session_id, "apples AND pears, NEAR the quince")
        await live.wait_durable()
        for query in ODD_QUERIES:
            try:
                await live.store.search(query, limit=5)
            except (SessionCoreError, ValueError) as error:
                raise AssertionError(f"searching for {query[:40]!a} is an error: {error}") from error
        for query, count in (
            ("apples NOT pears", 0),
            ("apples OR cherries", 0),
            ("apples AND pears", 1),
            ("near quince", 1),
        ):
            expect(len(await live.store.search(query, limit=5)), count, f"words are only words: {query}")


async def names_that_nobody_has_are_unknown(harness: StoreHarness) -> None:
    """Any value is accepted as the id of a session or message; one that does not exist is simply not found."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        live.say(session_id, "here")
        await live.wait_durable()
        for name in (*ODD_TEXTS, HALF_A_CHARACTER, "%", "_", session_id.upper(), session_id + " ", "x" * 100_000):
            nobody, nothing = SessionId(name), MessageId(name)
            try:
                await check_unknown(live.store, nobody, nothing, "an unknown session")
                expect(await live.store.load_path(session_id, nothing, max_chars=9), (), "there is no such message")
                expect(await live.store.newest_leaf(session_id, nothing), None, "there is no such message")
            except (SessionCoreError, ValueError) as error:
                raise AssertionError(f"asking for {name[:40]!a} is an error: {error}") from error


async def results_of_tools_are_found_and_measured_after_a_restart(harness: StoreHarness) -> None:
    """Results recorded before a crash and committed after it make the same message as without the crash."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        live.say(session_id, "please look")
        live.answer(session_id, "I look", calls=("c1", "c2"))
        results = [live.finish_call(session_id, "c1", "narwhalian " * 9)]
        await live.wait_durable()
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        await again.load_session(session_id, live)
        results.append(again.finish_call(session_id, "c2", "second"))
        message = again.commit_results(session_id, results)
        await again.wait_durable()
        await check_loads(again, session_id)
        page = await again.store.load_messages(session_id, before=9, limit=1)
        expect(page.messages, (message,), "results from before the crash are in the message")
        path = await again.store.load_path(session_id, message.message_id, max_chars=60)
        expect(path, (message,), "the message is as long as its results")


# --- contents ---------------------------------------------------------------------------------------------------------


async def odd_and_long_contents_come_back(harness: StoreHarness) -> None:
    """Odd ids and texts, long ones, and images shared by several sessions come back unchanged."""
    picture = ImagePart(media_type="image/png", data="iVBOR" * 20_000)
    async with open_live_sessions(harness.make_store()) as live:
        sessions = [live.create(text[:50], SessionId(f"ses_{number} {text}")) for number, text in enumerate(ODD_TEXTS)]
        for session_id, text in zip(sessions, ODD_TEXTS, strict=True):
            live.say(session_id, text, message_id=f"msg {text}")
            live.say(session_id, text * (2_000_000 // max(1, len(text))))
            result = ToolResultPart(
                call_id=CallId(text),
                name="draw",
                status="success",
                text=text * 3_000,
                images=(picture, picture),
                details=JsonObject({text: [text * 3_000, {"deep": [{"deeper": "x" * 40_000}]}], "none": None}),
            )
            live.record(session_id, ev.ToolCallFinished(result=result))
            live.commit_results(session_id, [result])
            await live.wait_durable()
        live.delete(sessions.pop())
        await live.wait_durable()
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        for session_id in sessions:
            await check_journal(again, session_id, "events come back as they were", truth=live)
            page = await again.store.load_messages(session_id, before=3, limit=3)
            expect(page.messages, tuple(live.messages[session_id]), "messages come back as they were")
            await check_loads(again, session_id, live)
