"""Reading `mcp.json`: what is right is used, what is wrong is told, and nothing raises."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.mcp.config import (
    MAX_CONFIG_BYTES,
    MAX_SERVERS,
    HttpServer,
    McpConfig,
    Origin,
    StdioServer,
    load_mcp_config,
)
from session_core.mcp.names import is_server_name, tool_names
from session_core.mcp.results import remote_tools

ENVIRONMENT = {"HOME": "/somewhere", "TOKEN": "t0ken", "OTHER": "x"}


def load(folder: Path, user: Any = None, project: Any = None, *, trusted: bool = True) -> McpConfig:
    """Write both files and load them."""
    files = []
    for name, content in (("user.json", user), ("project.json", project)):
        file = folder / name
        if content is not None:
            file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        files.append(file)
    return load_mcp_config(
        folder="/project", trusted=trusted, environment=ENVIRONMENT, user_file=files[0], project_file=files[1]
    )


def only_problem(folder: Path, entry: Any, **top: Any) -> tuple[str, str]:
    """Load one wrong server, and return the field and the sentence."""
    loaded = load(folder, {"mcpServers": {"it": entry}, **top})
    assert () == loaded.servers
    (problem,) = loaded.problems
    return problem.field, problem.message


def test_both_kinds_of_servers_are_read(tmp_path: Path) -> None:
    """Every key arrives where it belongs, from both files."""
    user = {
        "expand": ["TOKEN"],
        "mcpServers": {
            "files": {
                "command": "npx",
                "args": ["-y", "server"],
                "env": {"KEY": "${TOKEN}", "PLACE": "${HOME}/x", "GONE": "${OTHER_HOME:-none}$HOME"},
                "cwd": "sub",
                "allow": ["read_*"],
                "deny": ["read_all"],
                "disabled": True,
                "timeout_ms": 5,
            }
        },
    }
    user["expand"] = ["TOKEN", "OTHER_HOME"]
    project = {"mcpServers": {"web": {"type": "http", "url": "https://x.org/mcp", "headers": {"X-Key": "a ${TOKEN}"}}}}
    assert McpConfig(
        servers=(
            StdioServer(
                name="files",
                command="npx",
                args=("-y", "server"),
                env={"KEY": "t0ken", "PLACE": "/somewhere/x", "GONE": "none$HOME"},
                cwd="/project/sub",
                allow=("read_*",),
                deny=("read_all",),
                disabled=True,
                timeout_ms=5,
            ),
            HttpServer(name="web", origin="project", url="https://x.org/mcp", headers={"X-Key": "a t0ken"}),
        )
    ) == load(tmp_path, user, project)


def test_no_files_are_no_problem(tmp_path: Path) -> None:
    """Most people have none."""
    assert McpConfig() == load(tmp_path)


def test_a_folder_that_is_not_trusted_starts_nothing(tmp_path: Path) -> None:
    """Its file is not looked into, and people are told."""
    loaded = load(tmp_path, None, b"{ not even JSON", trusted=False)
    assert () == loaded.servers
    assert [f"{tmp_path}/project.json: its MCP servers are left out because this folder is not trusted"] == [
        str(problem) for problem in loaded.problems
    ]


def test_where_programs_start(tmp_path: Path) -> None:
    """The user's own start in the folder if it is trusted, else at home, unless their entry names a place."""
    user = {"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "cwd": "sub"}}}

    def places(*, trusted: bool) -> list[str]:
        servers = load(tmp_path, user, trusted=trusted).servers
        return [each.cwd for each in servers if isinstance(each, StdioServer)]

    assert ["/project", "/project/sub"] == places(trusted=True)
    assert ["/somewhere", "/project/sub"] == places(trusted=False)


def test_a_project_can_neither_release_variables_nor_replace_servers(tmp_path: Path) -> None:
    """What came with a folder must not reach for secrets, nor pose as a server of the user."""
    project = {
        "expand": ["TOKEN"],
        "mcpServers": {"mine": {"command": "evil"}, "thief": {"command": "x", "env": {"A": "${TOKEN}"}}},
    }
    loaded = load(tmp_path, {"mcpServers": {"mine": {"command": "good"}}}, project)
    assert ["good"] == [server.command for server in loaded.servers if isinstance(server, StdioServer)]
    assert ["expand", "mcpServers.mine", "mcpServers.thief.env.A"] == [problem.field for problem in loaded.problems]
    assert 'add "expand": ["TOKEN"] at the top of your own mcp.json' in loaded.problems[2].message


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        ("x", "", 'must be an object with a "command" or a "url"'),
        ({}, "", 'needs a "command" to start or a "url" to reach'),
        ({"command": "a", "url": "https://x"}, "", "has both"),
        ({"command": 1}, ".command", "must be a non-empty string"),
        ({"command": "a\0b"}, ".command", "NUL"),
        ({"command": "a", "args": "b"}, ".args", "must be a list of strings"),
        ({"command": "a", "denny": ["x"]}, ".denny", "did you mean 'deny'?"),
        ({"command": "a", "zzz": 1}, ".zzz", "the settings here are type, allow"),
        ({"command": "a", "headers": {}}, ".headers", "does not belong to this kind of server"),
        ({"command": "a", "type": "http"}, ".type", "is 'http', but the server has a \"command\""),
        ({"command": "a", "disabled": "no"}, ".disabled", "must be true or false"),
        ({"command": "a", "timeout_ms": 0}, ".timeout_ms", "whole number from 1"),
        ({"command": "a", "timeout_ms": True}, ".timeout_ms", "whole number from 1"),
        ({"command": "a", "env": {"A": 1}}, ".env.A", "must be a string"),
        ({"command": "a", "env": {"A=B": "1"}}, ".env", "is not the name of a variable"),
        ({"command": "a", "env": {"A": "${HOME"}}, ".env.A", "no matching"),
        ({"command": "a", "env": {"A": "${}"}}, ".env.A", "does not name a variable"),
        ({"command": "a", "env": {"A": "${TMPDIR}"}}, ".env.A", "the variable TMPDIR is not set"),
        ({"url": "https://x", "type": "sse"}, ".type", "the old SSE transport is not supported"),
        ({"url": "ftp://x"}, ".url", "must be an address such as"),
        ({"url": "https://x:port/"}, ".url", "is not an address"),
        ({"url": "https://ann:pw@x.org"}, ".url", "must not contain a name or password"),
        ({"url": "https://x.org/#a"}, ".url", "after '#'"),
        ({"url": "https://x.org/${TOKEN}"}, ".url", "env and headers only"),
        ({"url": "http://x.org", "headers": {"a": "b"}}, ".url", "must start with https"),
        ({"url": "https://x", "headers": {"a b": "c"}}, ".headers.a b", "is not the name of a header"),
        ({"url": "https://x", "headers": {"Host": "c"}}, ".headers.Host", "is set by the protocol itself"),
        ({"url": "https://x", "headers": {"a": "b\r\nc: d"}}, ".headers.a", "without line breaks"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, entry: Any, field: str, words: str) -> None:
    """The problem names the field, and says what is wrong with it."""
    found, message = only_problem(tmp_path, entry)
    assert f"mcpServers.it{field}" == found
    assert words in message


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "a.b", "ü", "x" * 25])
def test_names_that_would_not_be_clear_are_refused(tmp_path: Path, name: str) -> None:
    """The other servers of the file are there all the same."""
    loaded = load(tmp_path, {"mcpServers": {name: {"command": "a"}, "fine_name-1": {"command": "b"}}})
    assert ["fine_name-1"] == [server.name for server in loaded.servers]
    assert "a server's name is made of" in loaded.problems[0].message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"mcpServers": []}', "must be an object"),
        (b'{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "occurs twice"),
        (b'{"mcpservers": {}}', "did you mean 'mcpServers'?"),
        (b'{"expand": ["A B"]}', "is not the name of a variable"),
        (b" " * (MAX_CONFIG_BYTES + 1), "is larger than"),
    ],
)
def test_a_broken_file_is_one_problem(tmp_path: Path, content: bytes, words: str) -> None:
    """Whatever stands in it, loading goes on."""
    loaded = load(tmp_path, content, {"mcpServers": {"it": {"command": "a"}}})
    assert ["it"] == [server.name for server in loaded.servers]
    (problem,) = loaded.problems
    assert words in str(problem)


def test_a_folder_in_place_of_a_file_is_a_problem(tmp_path: Path) -> None:
    """It is said, and not raised."""
    (tmp_path / "user.json").mkdir()
    assert "is not a file" in str(load(tmp_path).problems[0])


def test_there_is_a_most_of_servers(tmp_path: Path) -> None:
    """Those beyond it are left out, each with a problem."""
    loaded = load(tmp_path, {"mcpServers": {f"s{number}": {"command": "a"} for number in range(MAX_SERVERS + 2)}})
    assert (MAX_SERVERS, 2) == (len(loaded.servers), len(loaded.problems))


SERVER_NAMES = st.text("ab-_", min_size=1, max_size=6).filter(is_server_name)


@given(st.lists(SERVER_NAMES, unique=True, max_size=4), st.lists(st.text("ab_.", max_size=70), max_size=6))
def test_tool_names_are_unambiguous(servers: list[str], tools: list[str]) -> None:
    """No two tools of any servers share a name, providers accept all of them, and the server can be read off."""
    named = [(server, name) for server in servers for name in tool_names(server, tools).values()]
    assert len(servers) * len(set(tools)) == len({name for _, name in named})
    for server, name in named:
        assert len(name) <= 64
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
        assert server == name.removeprefix("mcp__").split("__", 1)[0]


@given(st.lists(st.text(max_size=20), max_size=6))
def test_tool_names_do_not_depend_on_the_order(tools: list[str]) -> None:
    """The same tools get the same names every time, or a model would call what it did not mean."""
    assert tool_names("s", tools) == tool_names("s", tools[::-1])


async def test_the_configuration_does_not_load_the_sdk() -> None:
    """Loading it takes more than a second, which is for those who use a server."""
    code = """
import sys, session_core.mcp.config, session_core.mcp.client
print([name for name in ("mcp", "mcp_types", "httpx2", "pydantic", "anyio") if name in sys.modules])
"""
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True)
    assert "[]" == done.stdout.decode().strip()


@pytest.mark.parametrize(
    ("origin", "hints", "effects"),
    [
        ("user", {"readOnlyHint": True}, {"read"}),
        ("project", {"readOnlyHint": True, "openWorldHint": False}, {"execute", "network"}),
        ("user", {"openWorldHint": False}, {"execute"}),
        ("project", {"openWorldHint": False}, {"execute", "network"}),
        ("project", None, {"execute", "network"}),
    ],
)
def test_only_servers_of_the_user_are_believed(
    origin: Origin, hints: dict[str, bool] | None, effects: set[str]
) -> None:
    """That a tool only reads is believed of a server in the user's own file, and never of one a project brings."""
    types = pytest.importorskip("mcp_types")
    tool = types.Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, "annotations": hints})
    server = StdioServer(name="s", origin=origin, command="x", cwd="/")

    [checked], _ = remote_tools(server, [tool])
    assert effects == checked.effects
