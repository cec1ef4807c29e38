"""Unknown tool names in a configuration: mistakes that would otherwise go unnoticed.

A rule about a missing tool forbids nothing. Tools of MCP servers and extensions come and go, so names that look like
theirs, such as `mcp__server__tool` and `extension.tool`, are not checked.
"""

from collections.abc import Iterable
from typing import Final

from session_core.config.layers import format_suggestion
from session_core.config.problems import ConfigProblem
from session_core.config.setting_kinds import format_value
from session_core.config.settings import RULES
from session_core.config.values import Config, SettingSource
from session_core.permissions.rules import matches_tool

_OF_SERVERS: Final = "mcp__"
_OF_EXTENSIONS: Final = "."
"""Separates an extension from its tool; no built-in tool has one in its name."""
_WITHOUT_CLASS: Final = ("mcp_list_resources", "mcp_read_resource")
"""Tools for the resources of all MCP servers; their module is not worth loading for two names."""


def built_in_tool_names() -> tuple[str, ...]:
    """Return the names of all built-in tools, whether they are available now or not."""
    from session_core.tools.files import coding_file_tools, file_tools
    from session_core.tools.job_tools import ListJobs, ReadJob, StopJob
    from session_core.tools.plan import PlanTool
    from session_core.tools.shell import ShellTool
    from session_core.tools.skills import SkillTool
    from session_core.tools.task import TaskTool
    from session_core.tools.web_fetch import WebFetch

    made = tuple(tool.spec.name for tool in (*coding_file_tools(), *file_tools()))
    classes = (ShellTool, ReadJob, StopJob, ListJobs, WebFetch, PlanTool, TaskTool, SkillTool)
    return (*made, *(each.spec.name for each in classes), *_WITHOUT_CLASS)


def unknown_tool_names(config: Config, known: Iterable[str] | None = None) -> tuple[ConfigProblem, ...]:
    """Return a warning for each unknown tool name in rules and in `tools.disabled`.

    Args:
        config: The configuration.
        known: The names of all tools; by default those of the built-in tools.
    """
    names = tuple(built_in_tool_names() if known is None else known)
    disabled = config.source("tools.disabled")
    given: list[tuple[str, str, SettingSource]] = [("tools.disabled", name, disabled) for name in config.disabled_tools]
    for number, rule in enumerate(config.permissions, start=1):
        if rule.tool is not None:
            key = f"{RULES}[{number}]"
            given.append((f"{key}.tool", rule.tool, config.source(key)))
    return tuple(
        source.problem(key, _describe_unknown(name, names)) for key, name, source in given if not _is_known(name, names)
    )


def is_disabled(config: Config, tool: str) -> bool:
    """Return whether a tool is disabled, by its name or by a pattern such as `mcp__github__*`."""
    return any(matches_tool(pattern, tool) for pattern in config.disabled_tools)


def _is_known(name: str, known: tuple[str, ...]) -> bool:
    comes_and_goes = name.startswith(_OF_SERVERS) or _OF_EXTENSIONS in name
    return comes_and_goes or any(matches_tool(name, each) for each in known)


def _describe_unknown(name: str, known: tuple[str, ...]) -> str:
    return f"there is no tool called {format_value(name)}, so this has no effect{format_suggestion(name, known)}"
