"""What the rest of the program gets to see of the configuration: frozen values, complete and checked."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import attrs

from session_core.config.problems import ConfigProblem
from session_core.config.rules import PermissionRule
from session_core.providers.catalogue import ModelInfo, ProviderSettings
from session_core.storage.settings import Retention
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, Thinking, TurnLimits

LayerName = Literal["default", "user", "project", "environment", "flag"]


@attrs.frozen(kw_only=True)
class SettingSource:
    """Where a value came from: a file with its line, a variable, or a flag."""

    layer: LayerName
    place: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.layer == "default":
            return "default"
        return self.place if self.line is None else f"{self.place}:{self.line}"


DEFAULT = SettingSource(layer="default")


def _frozen(sources: Mapping[str, SettingSource]) -> Mapping[str, SettingSource]:
    return MappingProxyType(dict(sources))


@attrs.frozen(kw_only=True)
class Config:
    """The whole configuration.

    Attributes:
        model: The model of new sessions, as it was chosen; None means that one is found (`default_model`).
        thinking: How much models reason beforehand, those that can.
        protocol: How models act in a turn, in new sessions.
        permission_mode: Which tool calls of new sessions need a yes.
        permissions: Rules about single tools, paths and commands; the strictest that fits decides.
        sandbox: Where tools of new sessions may write, and whether they may use the network.
        limits: What one turn may use.
        disabled_tools: Tools that are not on offer.
        providers: How to reach those who have models.
        models: Every model that is known, the user's own first.
        compaction_threshold: How full a model's context may be before the conversation is summed up, from 0 to 1.
        mcp_file: Where the user's MCP servers are listed, if not in the usual place.
        skill_paths: Folders with the user's skills, besides the usual ones.
        extensions: Whether extensions are started.
        extension_flags: What they are told, as `name` or `name=value`.
        watched_extensions: Those that are reloaded when their files change.
        retention: How long sessions are kept.
        remarks: Sentences people should see although nothing is wrong.
        ignored: What a project's file says and may not, and is passed over; `remarks` has it as sentences.
        sources: Where each setting came from, by its key; what is not in it is a default.
    """

    model: str | None
    thinking: Thinking
    protocol: str
    permission_mode: PermissionMode
    permissions: tuple[PermissionRule, ...]
    sandbox: SandboxPolicy
    limits: TurnLimits
    disabled_tools: tuple[str, ...]
    providers: tuple[ProviderSettings, ...]
    models: tuple[ModelInfo, ...] = attrs.field(repr=False)
    compaction_threshold: float
    mcp_file: str | None
    skill_paths: tuple[str, ...]
    extensions: bool
    extension_flags: tuple[str, ...]
    watched_extensions: tuple[str, ...]
    retention: Retention
    remarks: tuple[str, ...] = ()
    ignored: tuple[ConfigProblem, ...] = ()
    sources: Mapping[str, SettingSource] = attrs.field(factory=dict, converter=_frozen, eq=False, repr=False)

    def source(self, key: str) -> SettingSource:
        """Tell where a setting came from."""
        return self.sources.get(key, DEFAULT)
