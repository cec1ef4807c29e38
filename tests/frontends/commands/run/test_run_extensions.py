"""`run` with real extensions: commands, what they show and ask, flags, and those that are not used."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

import session_core as sc
from frontends.commands.run.extensions import collect_extension_remarks, ui_kinds
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from tests.frontends._paper import NoSignals, Paper, written
from tests.frontends._program import ROOT, environment, program
from tests.frontends.test_terminal import on_terminal
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.sep._service import Home, World, open_world

COMMANDS = [{"name": name, "description": f"about {name}"} for name in ("do", "heard", "pid", "fail")]


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home with an extension to which somebody has agreed."""
    home = Home(tmp_path)
    home.install("tried", registrations={"commands": COMMANDS, "flags": ["loud"]})
    return home


def do(*calls: list[Any]) -> str:
    """What to type so that the extension makes requests."""
    filled = [[method, {"context": "$context", **params}] for method, params in calls]
    return f"/do {json.dumps({'calls': filled})}"


async def run(
    world: World, prompt: str, streams: StandardStreams, interaction: InteractionOptions | None = None
) -> int:
    with world.service.attach("cli", ui=ui_kinds(streams)) as client:
        options = RunOptions(prompt=prompt, interaction=interaction or InteractionOptions())
        return await converse(client, options, streams, NoSignals())


def paper(keyboard: int | None = None) -> StandardStreams:
    return StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)


async def names(world: World) -> list[str]:
    return [each.name for each in (await world.service.load_service()).sessions]


async def test_commands(place: Home) -> None:
    """What a command says goes to stdout, what it shows and sends is shown until the session is at rest."""
    everything = do(
        ["ui/request", {"kind": "notify", "message": "look \x1b[31mhere"}],
        ["session/send_message", {"text": "I say so."}],
        ["session/send_user_message", {"text": "and you?"}],
    )
    said, quiet, empty, failed = paper(), paper(), paper(), paper()
    async with open_world(place, scripted.text("Yes."), scripted.text("Yes.")) as world:
        pid = int((await world.service.run_command(world.session_id, "pid")).content)
        codes = [
            await run(world, everything, said),
            await run(world, everything, quiet, InteractionOptions(quiet=True)),
            await run(world, "/tried.pid", empty),
        ]
        with pytest.RaisesGroup(pytest.RaisesExc(sc.ExtensionFailed, match="^/fail of tried failed: not today$")):
            await run(world, "/fail", failed)
        left = await names(world)

    out, err = written(said)
    results = '[{"result": {}}, {"result": {}}, {"result": {}}]\n'
    assert [0, 0, 0] == codes
    assert {"I say so.", "Yes.", results.strip()} == set(out.splitlines())
    assert "● tried: look here\n● tried says:\n" in err
    assert "● tried asks for you: and you?\n" in err
    assert "✓ completed in" in err
    assert (results + "Yes.\n", "") == written(quiet)
    assert (f"{pid}\n", "") == written(empty)
    assert ["/do", "/do", "the"] == sorted(each.split()[0] for each in left), "where nothing has happened nothing stays"


async def test_json_stays_clean(place: Home) -> None:
    """With --json stdout has a snapshot and events and nothing else; what the command says goes to stderr."""
    streams = paper()
    async with open_world(place) as world:
        assert 0 == await run(
            world, do(["session/append_entry", {"entry": {"a": 1}}]), streams, InteractionOptions(json=True)
        )

    out, err = written(streams)
    first, *events = [json.loads(line) for line in out.splitlines()]
    assert "session_snapshot" == first["type"]
    assert ["entry_appended"] == [each["event"]["type"] for each in events]
    assert '[{"result": {}}]\n' == err


async def test_questions_of_extensions(place: Home) -> None:
    """On a terminal an extension's questions are asked one after the other, and it gets the answers."""
    keyboard, hand = os.pipe()

    answers = [b"y\n", b"5\n", b"blue\n", b"some words\n", b"\n"]

    class Typist(Paper):
        """Types the next answer when asked."""

        async def write(self, data: str | bytes) -> None:
            await super().write(data)
            if isinstance(data, str) and data.endswith("dismisses it: "):
                os.write(hand, answers.pop(0))

    streams = StandardStreams(out=Paper(), err=Typist(), keyboard=keyboard)
    prompt = do(
        ["ui/request", {"kind": "confirm", "prompt": "Sure?"}],
        ["ui/request", {"kind": "select", "prompt": "Which?", "options": ["red", "blue"]}],
        ["ui/request", {"kind": "input", "prompt": "Why?"}],
        ["ui/request", {"kind": "input", "prompt": "Really?"}],
        ["ui/request", {"kind": "set_status", "status": "thinking"}],
    )
    async with open_world(place) as world:
        assert 0 == await run(world, prompt, streams, InteractionOptions(yes=True))
    os.close(keyboard)
    os.close(hand)

    out, err = written(streams)
    replies = [each["result"] for each in json.loads(out)]
    assert [{"confirmed": True}, {"value": "blue"}, {"text": "some words"}, {"cancelled": True}, {}] == replies
    assert "? That is not one of the answers.\n" in err
    assert "· tried: thinking\n" in err


async def test_ctrl_c_ends_a_command(place: Home) -> None:
    """The first Ctrl-C stops a command that does not come to its end; that is told, and is exit code 130."""
    keyboard, hand = os.pipe()
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)
    asked = trio.Event()

    async def when_asked() -> AsyncIterator[int]:
        await asked.wait()
        yield signal.SIGINT
        await trio.sleep_forever()

    async def watch(world: World) -> None:
        async with world.service.subscribe() as events:
            while not asked.is_set():
                if any(isinstance(each.event, sc.events.DialogOpened) for each in await events.receive_batch()):
                    asked.set()

    async with open_world(place) as world, trio.open_nursery() as nursery:
        nursery.start_soon(watch, world)
        with world.service.attach("cli", ui=ui_kinds(streams)) as client:
            prompt = do(["ui/request", {"kind": "confirm", "prompt": "Sure?"}])
            code = await converse(client, RunOptions(prompt=prompt), streams, when_asked())
        assert ["the session"] == await names(world)
    os.close(keyboard)
    os.close(hand)

    assert 130 == code
    assert "/do was stopped before it finished.\n" in written(streams)[1]


async def test_who_is_not_used(place: Home) -> None:
    """Those that cannot start and those nobody has agreed to are told in one sentence; the switched off are not."""
    (place.install("changed") / "more.txt").write_text("something else")
    place.put("broken", "/nowhere/at-all", [])
    off = place.install("off")
    place.consents.set_enabled("off", off, enabled=False)
    async with open_world(place) as world:
        told = collect_extension_remarks([world.host], ["loud", "unknown=1"])
    async with open_world(place, flags={"extensions.flags": ["loud"]}) as world:
        flags = (await world.heard("tried"))[0][1]["flags"]

    assert 1 == len(told), "who has not started may know any flag"
    assert told[0].startswith("2 extensions are not used (see: session-core ext list): broken (")
    assert told[0].endswith("), changed (its files have changed since it was agreed to)")
    assert {"loud": True} == flags
    assert ["no extension runs here, so --flag has no effect: loud"] == collect_extension_remarks([], ["loud=1"])


@pytest.mark.slow
async def test_the_whole_program(home: Path, tmp_path: Path) -> None:
    """`run` starts extensions, tells them of flags and modes, and does their commands; a slip changes nothing."""
    place = Home(tmp_path)
    folder = place.install("tried", registrations={"commands": COMMANDS, "flags": ["loud"]})
    (home / "config.toml").write_text('[extensions]\nflags = ["level=2"]\n')
    done = await program("run", "--no-save", "--flag", "loud", "--flag", "tone=low", "/heard")
    slip = await program("run", "/pidd")
    off = await program("run", "--quiet", "--no-extensions", "/pid")
    place.consents.set_enabled("tried", folder, enabled=False)
    unused = await program("run", "/tried.pid")
    piped = await program("run", "--quiet", "-", stdin=b"/pid")

    assert 0 == done.code, done.err
    greeting = json.loads(done.out)[0][1]
    assert {"level": 2, "loud": True, "tone": "low"} == greeting["flags"]
    assert ("cli", ["notify"]) == (greeting["mode"], greeting["ui_capabilities"])
    assert "● no extension that runs here has a flag called tone\n" in done.err
    assert "demo" not in done.err, "a command uses no model"
    assert (2, True) == (
        unused.code,
        "the extension tried is disabled; to enable it: session-core ext enable tried" in unused.err,
    )
    assert (2, "") == (slip.code, slip.out)
    assert "session-core: there is no command /pidd; did you mean /pid? (to send it to the model: //pidd)" in slip.err
    assert (2, 1) == (off.code, off.err.count("there is no command /pid, because no running extension provides any"))
    assert (0, True) == (piped.code, piped.out.startswith('You said "/pid"')), "what comes from elsewhere is no command"


@pytest.mark.slow
async def test_a_model_of_an_extension(home: Path, tmp_path: Path) -> None:
    """A model that an extension brings can be chosen by its name, and one that nobody brings is refused."""
    place = Home(tmp_path)
    place.put("models", sys.executable, ["-I", "-S", str(SCRIPTS / "models.py")])
    told = await program("run", "--quiet", "--max-steps", "1", "--model", "words/echo", "hello there")
    refused = await program("run", "--quiet", "--model", "sentences/echo", "hello")

    assert "hello there" in told.out
    assert (2, "") == (refused.code, refused.out)
    assert "there is no model called 'sentences/echo'" in refused.err


@pytest.mark.slow
async def test_a_configured_model_of_an_extension(home: Path, tmp_path: Path) -> None:
    """Such a model may stand in `config.toml`: once its extension runs it answers and is listed, else it is refused."""
    place = Home(tmp_path)
    folder = place.put("models", sys.executable, ["-I", "-S", str(SCRIPTS / "models.py")])
    (home / "config.toml").write_text('model = "words/echo"\n')
    no_model = {"SESSION_CORE_MODEL": ""}
    told = await program("run", "--max-steps", "1", "hello there", env=no_model)
    misspelt = await program("run", "--model", "wrods/echo", "hello", env=no_model)
    checked = await program("config", "check", env=no_model)
    listed = await program("models", env=no_model)
    place.consents.set_enabled("models", folder, enabled=False)
    off = await program("run", "hello", env=no_model)
    without = await program("run", "--no-extensions", "hello", env=no_model)

    assert "hello there" in told.out
    assert "demo" not in told.err
    assert "there is no model called 'wrods/echo'; no running extension provides it; they provide words/" in (
        misspelt.err
    )
    open_question = "whether words/echo can be used is known once the extensions run"
    assert (0, 1) == (checked.code, checked.err.count(open_question))
    assert (0, True) == (listed.out.count(open_question), "words/echo" in listed.out)
    for refused in (off, without):
        assert (2, "") == (refused.code, refused.out)
        assert "config.toml, line 1: model: there is no model called 'words/echo'" in refused.err
    assert "no running extension provides it (see: session-core ext list)" in off.err


@pytest.mark.slow
async def test_a_question_on_a_real_terminal(home: Path, tmp_path: Path) -> None:
    """On a terminal an extension's question appears, and what is typed reaches it."""
    place = Home(tmp_path)
    place.install("tried", registrations={"commands": COMMANDS})
    prompt = do(["ui/request", {"kind": "select", "prompt": "Which?", "options": ["red", "blue"]}])
    code, screen = await on_terminal("run", prompt, typed=b"2\n", after="dismisses it: ")

    assert 0 == code
    assert "2\x1b[39m  blue" in screen
    assert '[{"result": {"value": "blue"}}]' in screen


@pytest.mark.slow
async def test_nothing_is_paid_for_extensions_that_are_not_there() -> None:
    """Without any folder of extensions nothing of what runs them is imported."""
    done = await program_imports("run", "--no-save", "--quiet", "count to 1")

    assert "session_core.sep.host.catalogue.search_paths" in done
    rooms = {
        "session_core.sep",
        "session_core.sep.host",
        "session_core.sep.host.catalogue",
        "session_core.sep.protocol",
    }
    assert rooms | {"session_core.sep.protocol.names", "session_core.sep.host.catalogue.search_paths"} == {
        name for name in done if name.startswith("session_core.sep")
    }
    assert "session_core.rpc.connection" not in done


async def program_imports(*arguments: str) -> set[str]:
    """The modules that the program loads."""
    command = [sys.executable, "-X", "importtime", "-m", "frontends.entry", *arguments]
    done = await trio.run_process(command, cwd=ROOT, env=environment(), capture_stdout=True, capture_stderr=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "import time:" in line}
