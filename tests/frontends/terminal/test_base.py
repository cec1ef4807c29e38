"""What all parts of the app share: telling, copying, and the session that is viewed."""

import base64
import re
from pathlib import Path

import session_core as sc
from frontends.terminal.context import COPY_CHARS
from frontends.terminal.panels.notices import Notice
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._staged import Stage, conversation, open_stage, session, summary


def copied(stage: Stage) -> str:
    """Return what the terminal was given to keep."""
    found = re.findall(r"\x1b\]52;c;([^\a]*)\a", stage.driver.take())
    return base64.b64decode(found[-1]).decode()


def test_copied_text_steers_nothing_where_it_is_pasted(tmp_path: Path) -> None:
    """No end of a paste, no Enter and no bell is copied; what cannot be encoded is no reason to fail."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            stage.app.context.copy("a\x1b[201~;rm -rf ~\r\x07\tb\nc\ud800")
            assert copied(stage) == "a;rm -rf ~\tb\nc\ufffd"
            stage.app.copy_to_clipboard("\x1b[201~x")
            assert copied(stage) == "x"

    on_asyncio(scene)


def test_so_much_is_copied_and_no_more(tmp_path: Path) -> None:
    """A text that is too long for a terminal is cut, and that is told."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            stage.app.context.copy("x" * (COPY_CHARS + 1))
            assert len(copied(stage)) == COPY_CHARS
            await stage.settle()
            assert "the first 100,000 of 100,001 characters" in stage.text

    on_asyncio(scene)


def test_what_an_extension_replies_is_bounded(tmp_path: Path) -> None:
    """The reply to a command of an extension is signed and takes a part of the screen only."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(80, 40)) as stage:
            await stage.show(session(conversation(("user", [sc.TextPart(text="hi")]))))
            notice = Notice(who="/notes.list", text="row\n" * 500, seconds=12, rows=12, chars=1_000)
            stage.app.context.notices.add(notice)
            stage.app.redraw()
            await stage.settle()
            rows = [line for line in stage.text.split("\n") if "row" in line]
            assert len(rows) == 12
            assert "…" in rows[-1]
            assert "/notes.list" in stage.text

    on_asyncio(scene)


def test_a_task_leads_to_its_helper(tmp_path: Path) -> None:
    """With o on the card of a task, the session of the helper that does it is viewed."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            call = sc.ToolCallPart(call_id=sc.CallId("c"), name="task", arguments=sc.JsonObject({"prompt": "look"}))
            result = sc.ToolResultPart(
                call_id=sc.CallId("c"),
                name="task",
                status="success",
                text="found it",
                details=sc.JsonObject({"session_id": "ses_helper"}),
            )
            said = conversation(("user", [sc.TextPart(text="hi")]), ("assistant", [call]), ("tool", [result]))
            await stage.show(session(said), summary("ses_helper", "a helper"))
            await stage.pilot.press("f6", "o")
            await stage.settle()
            assert stage.app.current.session_id == "ses_helper"
            assert stage.app.composer.has_focus_within

    on_asyncio(scene)
