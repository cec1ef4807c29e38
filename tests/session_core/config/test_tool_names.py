"""Slips in the names of tools are noticed, and switching tools off takes patterns."""

from pathlib import Path

from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.config.tool_names import built_in_tool_names, is_disabled, unknown_tool_names
from tests.session_core.config._documents import load

USER = """
[tools]
disabled = ["bas", "mcp__x__y", "mail.send"]
[[permissions]]
tool = "wrote"
decision = "deny"
[[permissions]]
tool = "web_*"
decision = "ask"
[[permissions]]
tool = "nothing_like_it"
decision = "ask"
[[permissions]]
path = "x"
decision = "deny"
"""


def test_names_that_no_tool_has(tmp_path: Path) -> None:
    """Each unknown name is told with its place and what was probably meant; tools that come and go are not."""
    place = str(tmp_path / "home" / "config.toml")

    assert [
        (place, 3, "tools.disabled", "there is no tool called 'bas', so this has no effect; did you mean bash?"),
        (
            place,
            4,
            "permissions[1].tool",
            "there is no tool called 'wrote', so this has no effect; did you mean write?",
        ),
        (place, 10, "permissions[3].tool", "there is no tool called 'nothing_like_it', so this has no effect"),
    ] == [(each.place, each.line, each.key, each.what) for each in unknown_tool_names(load(tmp_path, user=USER))]


def test_tools_known_by_others(tmp_path: Path) -> None:
    """Whoever knows of other tools says so."""
    config = load(tmp_path, user=USER)

    assert () == unknown_tool_names(config, ("bas", "wrote", "web_fetch", "nothing_like_it"))


def test_patterns_switch_off(tmp_path: Path) -> None:
    """A tool is switched off by its name or by a pattern that fits it."""
    config = load(tmp_path, user='[tools]\ndisabled = ["bash", "mcp__git__*"]\n')

    off = [is_disabled(config, tool) for tool in ("bash", "bashes", "mcp__git__push", "mcp__gitty__push")]
    assert [True, False, True, False] == off


async def test_all_built_in_tools_are_known(tmp_path: Path) -> None:
    """The names are those of the tools that a whole agent has, and of those for resources."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    place = AgentEnvironment(
        home=tmp_path / "home", folder=str(tmp_path / "project"), environ={"HOME": str(tmp_path)}, is_persistent=False
    )
    async with open_setup(place, flags={"model": "demo"}) as setup:
        offered = {tool.spec.name for tool in setup.service.tools}

    assert offered | {"mcp_list_resources", "mcp_read_resource"} == set(built_in_tool_names())


def test_a_renamed_tool(tmp_path: Path) -> None:
    """The earlier name of a tool still switches it off, in a pattern too, and is not taken for a mistake."""
    text = '[tools]\ndisabled = ["shell"]\n[[permissions]]\ntool = "shel*"\ndecision = "deny"\n'
    config = load(tmp_path, user=text)
    assert ([True, False], ()) == ([is_disabled(config, tool) for tool in ("bash", "read")], unknown_tool_names(config))
