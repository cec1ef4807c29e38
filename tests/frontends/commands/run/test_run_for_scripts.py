"""`run` where nobody sits at a terminal: who says yes, what comes by stdin, and what the exit code tells."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import attrs
import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.approval_text import Approve
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.commands.run.stdin import PromptInput, read_prompt_input
from frontends.shared.attachments import MAX_TEXT_CHARS, PromptAttachments
from frontends.shared.parser import UsageError
from frontends.shared.streams import StandardStreams
from session_core.permissions.rules import PermissionRule
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written
from tests.frontends._program import program

SHAPE = sc.wire.decode(b'{"type":"object","required":["bugs"]}', sc.JsonObject)


def edits() -> scripted.ScriptedTool:
    return scripted.ScriptedTool("edit", effects=["write"])


def calls_edit() -> scripted.ScriptedProvider:
    return scripted.ScriptedProvider(scripted.tool_call("edit", {"x": 1}), scripted.text("After."))


def paper(keyboard: int | None = None) -> StandardStreams:
    return StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)


# --- who says yes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("approve", "sentence"),
    [
        ("never", "■ edit needs approval, and with --approve never there is none: denied."),
        ("rules", "■ edit is not allowed by a permission rule (it changes files): denied."),
    ],
)
async def test_nobody_is_asked(approve: Approve, sentence: str, autojump_clock: trio.testing.MockClock) -> None:
    """Even with a terminal nobody is asked: the call is denied and told, the turn ends, and the exit code is 3."""
    keyboard, hand = os.pipe()
    streams, tool = paper(keyboard), edits()
    async with open_checked_service(config(calls_edit(), tool)) as service:
        code = await converse(
            service,
            RunOptions(prompt="go", cwd="/", interaction=InteractionOptions(approve=approve)),
            streams,
            NoSignals(),
        )
    os.close(hand)
    os.close(keyboard)

    out, err = written(streams)
    assert (3, 0, "After.\n") == (code, len(tool.calls), out)
    assert sentence in err


@pytest.mark.parametrize(
    ("approve", "mode", "rules", "ran"),
    [
        ("never", "auto_edit", (), True),
        ("rules", "auto_edit", (), False),
        ("rules", "full", (), False),
        ("rules", "full", (PermissionRule(decision="allow", tool="edit"),), True),
        ("rules", "ask_writes", (PermissionRule(decision="allow", tool="edit"),), True),
        ("never", "ask_writes", (PermissionRule(decision="allow", tool="edit"),), True),
        ("never", "full", (PermissionRule(decision="deny", tool="edit"),), False),
    ],
)
async def test_rules_alone_allow_changes(
    approve: Approve,
    mode: sc.PermissionMode,
    rules: tuple[PermissionRule, ...],
    ran: bool,  # noqa: FBT001 - given by parametrize
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With `rules` a lenient mode lets no change through, a rule does; with `never` both do; what is denied is 3."""
    tool = edits()
    setting = attrs.evolve(config(calls_edit(), tool), rules=rules, permission_mode=mode)
    async with open_checked_service(setting) as service:
        code = await converse(
            service,
            RunOptions(prompt="go", cwd="/", interaction=InteractionOptions(approve=approve)),
            paper(),
            NoSignals(),
        )

    assert (0 if ran else 3, 1 if ran else 0) == (code, len(tool.calls))


async def test_reading_needs_no_rule(autojump_clock: trio.testing.MockClock) -> None:
    """With `rules` what only reads still runs."""
    tool = scripted.ScriptedTool("look", effects=["read"])
    provider = scripted.ScriptedProvider(scripted.tool_call("look", {}), scripted.text("Seen."))
    async with open_checked_service(config(provider, tool)) as service:
        code = await converse(
            service,
            RunOptions(prompt="go", cwd="/", interaction=InteractionOptions(approve="rules")),
            paper(),
            NoSignals(),
        )

    assert (0, 1) == (code, len(tool.calls))


async def test_a_no_of_ones_own_is_no_failure() -> None:
    """What the person at the terminal refuses themselves leaves the exit code 0."""
    keyboard, hand = os.pipe()
    os.write(hand, b"n\n")
    async with open_checked_service(config(calls_edit(), edits())) as service:
        code = await converse(service, RunOptions(prompt="go", cwd="/"), paper(keyboard), NoSignals())
    os.close(hand)
    os.close(keyboard)

    assert 0 == code


async def test_a_denial_that_was_missed_still_counts(autojump_clock: trio.testing.MockClock) -> None:
    """A display that fell behind learns from the next snapshot that something was denied."""
    rules = (PermissionRule(decision="deny", tool="edit"),)
    provider = scripted.ScriptedProvider(
        scripted.tool_call("edit", {}), scripted.text(*"a long answer " * 20), scripted.text("unused")
    )
    streams = paper()
    err = streams.err
    assert isinstance(err, Paper)
    codes: list[int] = []
    async with open_checked_service(attrs.evolve(config(provider, edits(), capacity=8), rules=rules)) as service:
        async with trio.open_nursery() as nursery:

            async def talk() -> None:
                codes.append(await converse(service, RunOptions(prompt="go", cwd="/"), streams, NoSignals()))

            err.fill()
            streams.out.fill()  # type: ignore[attr-defined]
            nursery.start_soon(talk)
            await trio.testing.wait_all_tasks_blocked()
            (session,) = (await service.load_service()).sessions
            await service.wait_for_turn(session.session_id)
            err.empty()
            streams.out.empty()  # type: ignore[attr-defined]

    assert [3] == codes


# --- what the exit code tells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "limits", "code"),
    [
        ((scripted.text('{"bugs": []}'),), sc.TurnLimits(), 0),
        ((scripted.text("no JSON"),) * 3, sc.TurnLimits(), 5),
        ((scripted.text('{"bug": 1}'),) * 3, sc.TurnLimits(), 5),
        ((scripted.text("no JSON"),) * 3, sc.TurnLimits(steps=2), 4),
        ((scripted.failure("refused", "I will not"),), sc.TurnLimits(), 1),
    ],
)
async def test_exit_codes_of_an_answer_of_a_shape(
    answers: tuple[tuple[scripted.ScriptItem, ...], ...],
    limits: sc.TurnLimits,
    code: int,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An answer that never fits the schema is 5, a limit on the way there 4, and a model that fails 1."""
    setting = attrs.evolve(config(scripted.ScriptedProvider(*answers)), turn_limits=limits)
    options = RunOptions(prompt="go", cwd="/", output_schema=SHAPE, interaction=InteractionOptions(structured=True))
    streams = paper()
    async with open_checked_service(setting) as service:
        ended = await converse(service, options, streams, NoSignals())

    assert code == ended
    assert bool(written(streams)[0]) == (code == 0)


async def test_a_limit_is_exit_code_4(autojump_clock: trio.testing.MockClock) -> None:
    """A turn that had reached one of its limits is told from one that failed."""
    tool = scripted.ScriptedTool("look", effects=["read"])
    setting = attrs.evolve(config(calls_edit(), tool), turn_limits=sc.TurnLimits(steps=1))
    async with open_checked_service(setting) as service:
        assert 4 == await converse(service, RunOptions(prompt="go", cwd="/"), paper(), NoSignals())


# --- what comes by stdin ----------------------------------------------------------------------------------------------


@contextmanager
def piped(data: bytes, tmp_path: Path) -> Iterator[TextIO]:
    source = tmp_path / "stdin"
    source.write_bytes(data)
    with source.open(encoding="utf-8") as file:
        yield file


def test_what_comes_by_stdin(tmp_path: Path) -> None:
    """It is the prompt where there is none, is attached where there is one, and is no command in either case."""
    with piped(b"!rm x", tmp_path) as stdin:
        assert PromptInput(prompt="!rm x", typed=False) == read_prompt_input(None, goes_on=False, stdin=stdin)
    with piped(b"!rm x", tmp_path) as stdin:
        assert PromptInput(prompt="!rm x", typed=False) == read_prompt_input("-", goes_on=False, stdin=stdin)
    with piped(b"!rm x", tmp_path) as stdin:
        assert PromptInput(prompt="!rm x", typed=False) == read_prompt_input(None, goes_on=True, stdin=stdin)
    with piped(b"a bug", tmp_path) as stdin:
        said = read_prompt_input("explain", goes_on=False, stdin=stdin)
    assert PromptInput(prompt="explain", attached=(sc.FilePart(name="stdin", text="a bug"),)) == said
    beside = PromptAttachments(files=(sc.FilePart(name="x", text="y"),))
    assert ["stdin", "x"] == [each.name for each in said.merge_attachments(beside).files]


@pytest.mark.parametrize("given", ["!git status", "/commit now"])
def test_commands_take_nothing_from_stdin(given: str, tmp_path: Path) -> None:
    """A command leaves stdin to whoever else reads it."""
    with piped(b"the rest of a loop", tmp_path) as stdin:
        assert PromptInput(prompt=given) == read_prompt_input(given, goes_on=False, stdin=stdin)
        assert "the rest of a loop" == stdin.read()


@pytest.mark.parametrize("given", [None, "explain"])
def test_an_empty_stdin_is_none(given: str | None, tmp_path: Path) -> None:
    """Nothing but blanks is neither a prompt nor a text, and an interrupted turn can still go on without one."""
    with piped(b" \n", tmp_path) as stdin:
        assert PromptInput(prompt=given) == read_prompt_input(given, goes_on=True, stdin=stdin)
    with Path(os.devnull).open(encoding="utf-8") as stdin:
        assert PromptInput(prompt=given) == read_prompt_input(given, goes_on=True, stdin=stdin)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xfe", "is not valid UTF-8 text"),
        (b"a\0b", "is not text: there are zero bytes in it"),
        (b"x" * (MAX_TEXT_CHARS + 1), "is too long; the limit is 1,000,000 characters"),
        ("é".encode() * (4 * MAX_TEXT_CHARS), "is too long; the limit is 1,000,000 characters"),
    ],
)
@pytest.mark.parametrize("given", [None, "explain", "-"])
def test_a_stdin_that_cannot_be_used(given: str | None, data: bytes, sentence: str, tmp_path: Path) -> None:
    """What is no text, or more than fits, is refused as a whole."""
    with piped(data, tmp_path) as stdin, pytest.raises(UsageError, match=sentence):
        read_prompt_input(given, goes_on=False, stdin=stdin)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, Callable[[], None]]]:
    """A pipe that stays open and silent, and what to call to have its end come."""
    monkeypatch.setattr("frontends.commands.run.stdin.PATIENCE_S", 0.0)
    end, hand = os.pipe()
    open_hands = [hand]

    def close() -> None:
        while open_hands:
            os.close(open_hands.pop())

    with os.fdopen(end, encoding="utf-8") as stdin:
        yield stdin, close
    close()


@pytest.mark.parametrize(("given", "goes_on"), [("explain", False), (None, True)])
def test_a_silent_pipe_holds_nothing_up(
    given: str | None,
    goes_on: bool,  # noqa: FBT001 - given by parametrize
    silent: tuple[TextIO, Callable[[], None]],
) -> None:
    """A stdin that was only left open is not waited for, where there is something to do without it; that is said."""
    told: list[str] = []

    assert PromptInput(prompt=given) == read_prompt_input(given, goes_on=goes_on, stdin=silent[0], remark=told.append)
    assert ["no input on stdin, so it is ignored; add < /dev/null to avoid this wait"] == told


def test_a_prompt_is_waited_for(silent: tuple[TextIO, Callable[[], None]]) -> None:
    """Where the prompt itself has to come by stdin, people are told what is waited for."""
    stdin, close = silent
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        close()

    with pytest.raises(UsageError, match="stdin was empty"):
        read_prompt_input(None, goes_on=False, stdin=stdin, remark=tell)
    assert ["waiting for the prompt on stdin"] == told


@pytest.mark.slow
async def test_a_pipe_and_the_real_program() -> None:
    """A pipe alone is the prompt, beside a prompt it is attached, and both are answered like any other."""
    alone = await program("run", "--quiet", "--no-save", stdin=b"count to 3")
    beside = await program("run", "--no-save", "--json", "count to 2", stdin=b"a piped text")

    assert (0, "1 2 3 Done.\n", "") == (alone.code, alone.out, alone.err)
    assert 0 == beside.code
    assert '"name":"stdin"' in beside.out
    assert "a piped text" in beside.out
