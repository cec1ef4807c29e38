"""`session-core mcp`: the MCP servers, how they are doing, and what keeps them from working."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

import session_core as sc
from frontends.cli.agent import wait_for_servers
from frontends.console.cells import Column, columns, table
from frontends.console.figures import place
from frontends.console.sanitise import one_line
from frontends.console.style import Style, counted, style_of

PATIENCE_S = 10.0
_LONGEST = 400
_MOST_LINES = 5
_HEADS = (
    Column(title=""),
    Column(title="SERVER", share=2, least=8),
    Column(title="STATE"),
    Column(title="TOOLS"),
    Column(title="FROM"),
    Column(title="NOTE", share=4, least=8),
)
_MARKS = {"ready": "✓", "failed": "✗", "connecting": "…", "disabled": "■"}


def list_servers(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `mcp` and return the exit code: 1 if a server cannot be used."""
    return trio.run(_list, home, cwd, as_json)


async def _list(home: Path, cwd: Path, as_json: bool) -> int:  # noqa: FBT001 - what trio.run passes on
    surroundings = sc.surroundings(home, str(cwd), keeps=False)
    # No model is asked anything here, so none has to have a key.
    async with sc.open_setup(surroundings, flags={"model": "demo"}) as setup:
        await wait_for_servers(setup.mcp, PATIENCE_S, progress=not as_json)
        statuses = setup.mcp.statuses()
        said = {each.name: setup.mcp.diagnostics(each.name)[-_MOST_LINES:] for each in statuses}
        remarks = setup.remarks
    if as_json:
        for each in statuses:
            print(json.dumps(as_object(each, said[each.name])))
    else:
        _print(home, statuses, said)
    style = style_of(sys.stderr)
    for remark in remarks:
        print(f"{style.yellow(style.symbol('●'))} {one_line(remark, _LONGEST)}", file=sys.stderr)
    return 1 if any(each.state in {"failed", "connecting"} for each in statuses) else 0


def _print(home: Path, statuses: Sequence[sc.ServerStatus], said: dict[str, tuple[str, ...]]) -> None:
    if not statuses:
        print(f"No MCP servers; list yours in {place(str(home / 'mcp.json'))}")
        return
    style = style_of(sys.stdout)
    for line in server_lines(style, statuses, width=columns()):
        print(line)
    for each in statuses:
        for line in detail_lines(style, each, said[each.name]):
            print(line)


def server_lines(style: Style, statuses: Sequence[sc.ServerStatus], *, width: int) -> list[str]:
    """Return a table with one line per server."""
    rows = [
        (
            style.symbol(_MARKS[each.state]),
            one_line(each.name, _LONGEST),
            each.state,
            str(each.tools) if each.state == "ready" else "-",
            each.origin,
            one_line(note(each), _LONGEST),
        )
        for each in statuses
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or statuses[row].state == "disabled":
            return style.dim(text)
        if column == 0:
            state = statuses[row].state
            return style.green(text) if state == "ready" else style.red(text) if state == "failed" else text
        return style.cyan(text) if column == 1 else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def note(status: sc.ServerStatus) -> str:
    """Say in a few words what there is to know about a server."""
    if status.state == "connecting":
        return status.reason or "still starting; it was not waited for any longer"
    if status.state != "ready":
        return status.reason
    return counted(len(status.notes), "remark") if status.notes else ""


def detail_lines(style: Style, status: sc.ServerStatus, said: Sequence[str]) -> list[str]:
    """Return what a server that does not work has said, and what was left out of one that does."""
    lines = [f"  {one_line(each, _LONGEST)}" for each in status.notes]
    if status.state == "failed":
        lines += [
            f"  {one_line(status.reason, _LONGEST)}",
            *(style.dim(f"  | {one_line(each, _LONGEST)}") for each in said),
        ]
    return [f"{style.cyan(one_line(status.name, _LONGEST))}:", *lines] if lines else []


def as_object(status: sc.ServerStatus, said: Sequence[str]) -> dict[str, object]:
    """Return a server as a JSON object."""
    return {
        "name": status.name,
        "state": status.state,
        "origin": status.origin,
        "tools": status.tools,
        "reason": status.reason,
        "notes": list(status.notes),
        "output": list(said),
    }
