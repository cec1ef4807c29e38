"""What extensions show beside a conversation, and the keys of their widgets."""

from typing import Any

from textual.strip import Strip

import session_core as sc
from frontends.terminal.panels.extension_widgets import WidgetKey, WidgetPanel, widget_keys
from frontends.terminal.panels.panel import PanelLeft
from session_core.sep.sdk import render
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import PanelApp


def display(extension: str, widget: dict[str, Any] | None = None, **more: str) -> sc.extensions.ExtensionDisplay:
    """What an extension shows."""
    shown = None if widget is None else sc.JsonObject(widget)
    return sc.extensions.ExtensionDisplay(extension=extension, widget=shown, **more)


def test_keys_are_found_in_widgets_within_each_other() -> None:
    """Every widget in a block has its keys, but for those that are ours, and those that are none."""
    inner = render.widget("inner", render.markdown("b"), keys={"x": "do"})
    block = render.widget("outer", render.stack(inner), keys={"space": "pause", "Esc": "stay", "tab": "t", "warp": "?"})

    assert list(widget_keys(block)) == [
        WidgetKey(widget_id="outer", name="space", description="pause"),
        WidgetKey(widget_id="inner", name="x", description="do"),
    ]


def test_what_is_shown_and_which_keys_are_sent() -> None:
    """Titles, statuses and widgets are drawn; with the focus, keys of the marked widget are sent as it calls them."""

    async def scene() -> None:
        panel = WidgetPanel()
        app = PanelApp(panel, keep=[WidgetPanel.WidgetKeyPressed, PanelLeft])
        async with app.run_test(size=(80, 40)) as pilot:
            assert not panel.display
            panel.show(
                (
                    display("clock", render.widget("w", render.markdown("**12**"), keys={"Space": "pause", "+": "up"})),
                    display(
                        "game", render.widget("g", render.markdown("@"), keys={"ArrowLeft": "left"}), title="[b]Game"
                    ),
                    display("quiet", status="fine"),
                )
            )
            await pilot.pause()
            assert [line.strip(" ─") for line in app.lines if line.strip()] == [
                "clock",
                "12",
                "2 keys, F9 to use them",
                "game · [b]Game",
                "@",
                "1 key, F9 to use them",
                "quiet · fine",
            ]
            panel.focus()
            await pilot.press("space", "+", "left", "x")
            assert "Space pause · + up · Esc back" in app.picture
            await pilot.press("tab", "left")
            assert told(app) == [("clock", "w", "Space"), ("clock", "w", "+"), ("game", "g", "ArrowLeft")]
            panel.show(())
            await pilot.pause()
            assert not panel.display
            assert isinstance(app.told[-1], PanelLeft)

    on_asyncio(scene)


def told(app: PanelApp) -> list[tuple[str, str, str]]:
    """Return which keys were sent."""
    return [
        (each.extension, each.widget_id, each.key)
        for each in app.told
        if isinstance(each, WidgetPanel.WidgetKeyPressed)
    ]


def test_a_tall_widget_takes_a_part_of_the_screen() -> None:
    """Of a widget with a hundred lines some are shown, the others are scrolled to, and each is there once."""

    async def scene() -> None:
        panel = WidgetPanel()
        app = PanelApp(panel)
        async with app.run_test(size=(80, 24)) as pilot:
            panel.show((display("long", render.keyvalue({f"row {n}": n for n in range(100)})),))
            panel.focus()
            await pilot.pause()
            assert panel.size.height == 6
            seen = set()
            rows: list[str] = []
            for _ in range(30):
                rows = [line.text.strip() for line in panel.lines(78) if isinstance(line, Strip)]
                seen |= {row.split("  ")[0] for row in rows}
                panel.action_scroll(1)
            assert [n for n in range(100) if f"row {n}" not in seen] == []
            assert rows[-1] == "row 99  99"

    on_asyncio(scene)
