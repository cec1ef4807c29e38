"""The configuration as the rest of the program uses it: frozen values, complete and checked."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import attrs

from session_core.config.problems import ConfigProblem
from session_core.permissions.rules import PermissionRule
from session_core.providers.catalogue import ModelInfo, ProviderSettings
from session_core.storage.retention_settings import Retention
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, Thinking, TurnLimits

LayerName = Literal["default", "user", "project", "environment", "flag"]


@attrs.frozen(kw_only=True)
class SettingSource:
    """The source of a value: a file with its line, a variable, or a flag."""

    layer: LayerName
    place: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.layer == "default":
            return "default"
        return self.place if self.line is None else f"{self.place}:{self.line}"

    def problem(self, key: str, what: str) -> ConfigProblem:
        """Return a problem of the value from here."""
        return ConfigProblem(place=self.place, line=self.line, key=key, what=what)


DEFAULT = SettingSource(layer="default")


def _frozen(sources: Mapping[str, SettingSource]) -> Mapping[str, SettingSource]:
    return MappingProxyType(dict(sources))


@attrs.frozen(kw_only=True)
class Config:
    """The whole configuration.

    Attributes:
        model: The chosen model of new sessions; None means that `default_model` picks one.
        thinking: How much models reason before they answer, if they can.
        protocol: How models act in a turn, in new sessions.
        permission_mode: Which tool calls of new sessions need approval.
        permissions: Rules about single tools, paths and commands; the strictest matching rule decides.
        sandbox: Where tools of new sessions may write, and whether they may use the network.
        limits: The limits of one turn.
        disabled_tools: Tools that the model cannot use.
        providers: The providers of models, and how to reach them.
        models: Every known model, the user's own first.
        compaction_threshold: How full a model's context may be before the conversation is compacted, from 0 to 1.
        mcp_file: The file that lists the user's MCP servers, if it is not the usual one.
        skill_paths: Folders with the user's skills, besides the usual ones.
        extensions: Whether extensions are started.
        extension_flags: The flags passed to them, as `name` or `name=value`.
        watched_extensions: The extensions that are reloaded when their files change.
        retention: How long sessions are kept.
        remarks: Sentences people should see although nothing is wrong.
        ignored: Settings of a project's file that it may not set; `remarks` holds them as sentences.
        sources: The source of each setting by its key; a setting without one has its default.
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
        """Return the source of a setting."""
        return self.sources.get(key, DEFAULT)
