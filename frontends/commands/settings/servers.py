"""`session-core mcp`: the MCP servers, their state, and what keeps them from working."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.shared.figures import format_count, format_path
from frontends.shared.folder_config import load_folder_config
from frontends.shared.mcp_servers import MCP_FILE, ServerListing, read_servers
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.signals import end_on_signal
from frontends.shared.streams import remark
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import Column, columns, table

PATIENCE_S = 10.0
_PARAGRAPH = 100
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


@attrs.frozen(kw_only=True)
class McpServerOverview:
    """The servers, their tools, their output, and the errors in the files."""

    statuses: tuple[sc.setup.ServerStatus, ...] = ()
    tools: Mapping[str, tuple[sc.ToolSpec, ...]] = attrs.field(factory=dict)
    said: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    mistakes: tuple[sc.setup.ConfigProblem, ...] = ()
    remarks: tuple[str, ...] = ()


def list_servers(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `mcp` and return the exit code: 1 if a server cannot be used, or a file is wrong."""
    return trio.run(_list, home, cwd, as_json)


async def _list(home: Path, cwd: Path, as_json: bool) -> int:  # noqa: FBT001 - passed by trio.run
    # Servers are programs: if this one ends early, they must not be left running.
    async with end_on_signal() as start:
        found = await probe_servers(home, cwd, progress=not as_json)
    if start.exit_code is not None:
        return start.exit_code
    if as_json:
        for each in found.statuses:
            print(dump_json(as_object(each, found.said[each.name], found.tools[each.name]), default=dict))
    else:
        _print(home, found)
    style = stream_style(sys.stderr)
    for mistake in found.mistakes:
        sentence = attrs.evolve(mistake, place=format_path(mistake.place)).sentence
        print(f"{style.red(style.symbol('✗'))} {one_line(sentence, _LONGEST)}", file=sys.stderr)
    for sentence in found.remarks:
        remark(sentence)
    failed = any(each.state in {"failed", "connecting"} for each in found.statuses)
    return 1 if failed or found.mistakes else 0


async def probe_servers(home: Path, cwd: Path, *, progress: bool) -> McpServerOverview:
    """Start the servers, give them a moment, and see what they offer."""

    def look() -> ServerListing:
        settings = load_folder_config(home, cwd)
        return read_servers(home, cwd, settings)

    listed = await trio.to_thread.run_sync(look)
    async with sc.setup.open_mcp_servers(listed.servers) as servers:
        await wait_for_servers(servers, PATIENCE_S, progress=progress)
        statuses = servers.statuses()
        tools = [tool.spec for tool in servers.tools()]
        return McpServerOverview(
            statuses=statuses,
            tools={
                each.name: tuple(spec for spec in tools if parse_server_name(spec.name) == each.name)
                for each in statuses
            },
            said={each.name: servers.diagnostics(each.name)[-_MOST_LINES:] for each in statuses},
            mistakes=listed.mistakes,
            remarks=listed.remarks,
        )


async def wait_for_servers(mcp: "sc.setup.McpServers", patience_s: float, *, progress: bool) -> None:
    """Give connecting MCP servers a moment to become ready."""
    waiting = [status.name for status in mcp.statuses() if status.state == "connecting"]
    if not waiting:
        return
    with ProgressLine.on_stderr() if progress else ProgressLine(None) as doing:
        doing(f"connecting to MCP servers: {', '.join(waiting)}")
        with trio.move_on_after(patience_s):
            await mcp.wait_until_settled()


def parse_server_name(tool: str) -> str | None:
    """Return the server of a tool, which is part of its name."""
    start, _, rest = tool.partition("__")
    return rest.partition("__")[0] if start == "mcp" and rest else None


def _print(home: Path, found: McpServerOverview) -> None:
    if not found.statuses:
        if not found.mistakes:
            print(f"No MCP servers; list yours in {format_path(str(home / MCP_FILE))}")
        return
    style = stream_style(sys.stdout)
    width = columns()
    for line in server_lines(style, found.statuses, width=width):
        print(line)
    for each in found.statuses:
        for line in detail_lines(style, each, found.said[each.name], found.tools[each.name], width=width):
            print(line)


def server_lines(style: Style, statuses: Sequence[sc.setup.ServerStatus], *, width: int) -> list[str]:
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


def note(status: sc.setup.ServerStatus) -> str:
    """Describe a server in a few words."""
    if status.state == "connecting":
        return status.reason or "still starting after the wait"
    if status.state != "ready":
        return status.reason
    return format_count(len(status.notes), "remark") if status.notes else ""


def detail_lines(
    style: Style,
    status: sc.setup.ServerStatus,
    said: Sequence[str],
    tools: Sequence[sc.ToolSpec] = (),
    *,
    width: int = _PARAGRAPH,
) -> list[str]:
    """Return the tools of a working server and what was left out, or the output of one that does not work."""
    lines = [f"  {line}" for line in _names(status.name, tools, min(width, _PARAGRAPH) - 2)]
    lines += [f"  {one_line(each, _LONGEST)}" for each in status.notes]
    if status.state == "failed":
        lines += [
            f"  {one_line(status.reason, _LONGEST)}",
            *(style.dim(f"  | {one_line(each, _LONGEST)}") for each in said),
        ]
    return [f"{style.cyan(one_line(status.name, _LONGEST))}:", *lines] if lines else []


def _names(server: str, tools: Sequence[sc.ToolSpec], width: int) -> list[str]:
    """Return the names of tools in lines; their common prefix is printed once."""
    if not tools:
        return []
    start = f"mcp__{server}__"
    names = ", ".join(one_line(each.name.removeprefix(start)) for each in tools)
    return textwrap.wrap(f"{start}* {names}", width, break_long_words=False, break_on_hyphens=False)


def as_object(
    status: sc.setup.ServerStatus, said: Sequence[str], tools: Sequence[sc.ToolSpec] = ()
) -> dict[str, object]:
    """Return a server as a JSON object, with all of its tools."""
    return {
        "name": status.name,
        "state": status.state,
        "origin": status.origin,
        "tools": [
            {"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools
        ],
        "reason": status.reason,
        "notes": list(status.notes),
        "output": list(said),
    }
