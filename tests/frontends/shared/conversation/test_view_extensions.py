"""What extensions put into a conversation and show beside it, and lines for the shell, as `run` shows them."""

import attrs
import pytest
import trio

import session_core as sc
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.attachments import PromptAttachments
from frontends.shared.conversation.view import View
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written

ev = sc.events


def posted(role: str, text: str, source: str | None = "gate") -> ev.MessageAdded:
    message = sc.Message(
        message_id=sc.MessageId(f"msg_{role}"),
        parent_id=None,
        role=role,  # type: ignore[arg-type]
        parts=(sc.TextPart(text=text),),
        created_at=0,
        source=source,
    )
    return ev.MessageAdded(message=message)


def shown(*events: sc.Event, quiet: bool = False) -> dict[str, str]:
    view = View(Style(), Style(), shared=False, live=False)
    for number, event in enumerate(events, 1):
        envelope = sc.SessionEvent(number, number, sc.SessionId("ses_test"), 0, event)
        view.warning(envelope) if quiet else view.event(envelope)
    pieces = view.take_pieces()
    return {target: "".join(text for to, text in pieces if to == target) for target in ("out", "err")}


def test_what_extensions_say() -> None:
    """What one says as an answer goes to stdout, all else to stderr, and nothing of it can steer a terminal."""
    assert {"out": "So it is.", "err": "● gate says:\n"} == shown(posted("assistant", "So \x1b[31mit is."))
    assert {"out": "", "err": "● gate asks for you: do it now\n"} == shown(posted("user", "do it\nnow"))
    assert {"out": "", "err": ""} == shown(posted("user", "typed by somebody", source=None))


def test_what_the_protocol_says() -> None:
    """What the session's protocol has told the model is told as that; the output of a cell was shown as it came."""
    view = View(Style(), Style(), shared=False, live=False)
    view.begin_after(snapshot_of("gate"))
    told = posted("user", "Sure?")
    cell = attrs.evolve(told, ended_call_id=sc.CallId("call_1"))
    for number, event in enumerate((told, cell), 1):
        view.event(sc.SessionEvent(number, number, sc.SessionId("ses_test"), 0, event))
    assert [("err", "● protocol gate says: Sure?\n")] == view.take_pieces()


def snapshot_of(protocol: str) -> sc.SessionSnapshot:
    """The state of a new session that has this protocol."""
    state = sc.SessionState(session_id=sc.SessionId("ses_test"), protocol=sc.protocols.ProtocolRecord(name=protocol))
    return state.snapshot(sc.Cursor(epoch=sc.Epoch("e"), seq=0))


def test_what_extensions_show() -> None:
    """Notices and a status are a line each; an empty status is none, and --quiet leaves out what is no warning."""
    events = (
        ev.NoticeShown(extension="gate", message="all is\nwell"),
        ev.NoticeShown(extension="gate", message="mind this", level="warn"),
        ev.NoticeShown(extension="gate", message="it broke", level="error"),
        ev.ExtensionDisplayed(extension="gate", status="thinking\x1b[2J"),
        ev.ExtensionDisplayed(extension="gate", status=""),
        ev.ExtensionDisplayed(extension="gate", title="a title"),
    )
    warnings = "■ gate: mind this\n✗ gate: it broke\n"

    assert {"out": "", "err": f"● gate: all is well\n{warnings}· gate: thinking\n"} == shown(*events)
    assert {"out": "", "err": warnings} == shown(*events, quiet=True)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (sc.ToolOutput(text="hi\n"), 0),
        (sc.ToolOutput(text="hi\n", details=sc.JsonObject({"exit_code": 3})), 1),
    ],
)
async def test_a_line_for_the_shell(output: sc.ToolOutput, code: int) -> None:
    """What the line prints goes to stdout, and its failure is that of the program."""

    async def run(_: sc.JsonObject, _context: sc.ToolContext) -> sc.ToolOutput:
        await trio.lowlevel.checkpoint()
        return output

    shell = scripted.ScriptedTool("bash", run=run)
    streams = StandardStreams(out=Paper(), err=Paper())
    async with open_checked_service(config(scripted.ScriptedProvider(), shell)) as service:
        options = RunOptions(prompt="!echo hi", interaction=InteractionOptions(quiet=True))
        assert code == await converse(service, options, streams, NoSignals())

    assert ("hi\n", "") == written(streams)
    assert [{"command": "echo hi"}] == [dict(each) for each in shell.calls]


async def test_files_do_not_go_along_with_a_command() -> None:
    """What goes along with a message is refused with a command, before a session is made."""
    attached = PromptAttachments(files=(sc.FilePart(name="a", text="b"),))
    streams = StandardStreams(out=Paper(), err=Paper())
    async with open_checked_service(config(scripted.ScriptedProvider())) as service:
        with pytest.raises(Exception, match="need a message, and this is a command"):
            await converse(service, RunOptions(prompt="!ls", attached=attached), streams, NoSignals())
        assert () == (await service.load_service()).sessions
