"""The configuration of a service. Everything has a default that works offline with nothing configured."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from session_core import limits
from session_core.agent.compaction import COMPACT_AT
from session_core.agent.compaction import Compactor as Compactor
from session_core.agent.folder_settings import NO_FOLDER_FILES, FolderSettingsSource, SessionDefaults
from session_core.agent.hooks import NO_HOOKS, Hooks
from session_core.agent.turn import MakePrompt, ToolSource
from session_core.checkpoints.store import CheckpointStore
from session_core.errors import InvalidInput
from session_core.ids import now_ms
from session_core.permissions.rules import PermissionRule
from session_core.permissions.standing_grants import StandingGrants
from session_core.protocols.api import ProtocolFactory
from session_core.protocols.options import PluginOptions
from session_core.protocols.registry import find_factory_problem
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.providers.demo import DemoProvider
from session_core.providers.model_choice import ModelChoice
from session_core.service.extension_api import Extensions
from session_core.storage.base import SessionStore
from session_core.storage.retention_settings import Retention
from session_core.storage.sqlite import SqliteStore
from session_core.tools.background_jobs import BackgroundJobs
from session_core.tools.base import Tool
from session_core.tools.files import file_tools
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import STANDARD
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, Thinking, TurnLimits
from session_core.vocabulary.tools import ToolSpec

if TYPE_CHECKING:
    from session_core.service.service import SessionService

BackgroundTask = Callable[["SessionService"], Awaitable[None]]
"""A task that runs beside a service, such as a periodic check of its configuration."""

SYSTEM_PROMPT = "You are a careful assistant that works in the user's project. Use the tools you are given."


def _demo_models() -> Mapping[str, Provider]:
    return {"demo": DemoProvider()}


_AT_LEAST_ONE = (
    "stream_capacity",
    "session_stream_capacity",
    "mailbox_capacity",
    "approval_timeout_ms",
    "stop_patience_ms",
    "session_stay_ms",
)


@attrs.frozen(kw_only=True)
class ServiceConfig:
    """Settings of a service.

    Attributes:
        models: Providers by model name; the offline demo model by default.
        default_model: The model of new sessions; the first of `models` by default.
        tools: Tools every session may use.
        cwd: Working directory of new sessions.
        permission_mode: Which tools need approval in new sessions.
        sandbox: Confinement of tools in new sessions.
        compactor: Writes summaries; by default the session's own model does.
        compact_at: How full a model's context may get before its conversation is compacted.
        model_infos: Known facts about the models: context, prices, abilities.
        catalogue: All models a user could use, with the reason why some are not available.
        tool_sources: Tools that come and go while the service runs.
        thinking: How much the models of new sessions reason before they answer.
        turn_limits: What one turn of a new session may use.
        rules: The user's rules for single tools, paths and commands; `LiveRules` may change while the service runs.
        folders: The rules, tools and defaults for new sessions that each folder brings; by default none brings any.
        hooks: Extensions that take part in turns.
        extensions: The extensions that users can run; None means there are none.
        protocols: Further protocols, besides the built-in and installed ones.
        protocol: The protocol of new sessions that name none; native tool calling by default.
        protocol_options: Options for all sessions, by protocol id.
        checkpoints: Where files are saved before they are changed; without it nothing can be undone.
        standing: Calls that are always allowed.
        jobs: Commands that continue in the background; a stop of a whole session ends that session's jobs.
        hidden: Places that no tool may touch, such as the service's own home.
        outputs: A folder for tool output that is too long for a result; each session gets its own folder in it.
        store: Where sessions are kept: by default in the home (`$SESSION_CORE_HOME`, or the platform's place for data).
        system_prompt: The system prompt of every model, or a function that builds it.
        stream_capacity: Events kept for readers of all sessions.
        session_stream_capacity: Events kept for readers of one session.
        mailbox_capacity: Commands that may wait; one more is refused.
        approval_timeout_ms: How long an approval or a dialog waits for an answer.
        stop_patience_ms: How long a stop waits for the stopped work to end before it replies.
        retention: What is archived and deleted automatically; nothing by default.
        session_stay_ms: How long an unused session stays in memory.
        background_tasks: Tasks that run beside the service while it is open; if one ends or fails, nothing else ends.
        wakeups: Whether wake-ups fire; a program that opens a home only to change something leaves them to the next.
        now: The wall clock in milliseconds.
    """

    models: Mapping[str, Provider] = attrs.field(factory=_demo_models)
    default_model: str | None = None
    tools: tuple[Tool, ...] = attrs.field(factory=file_tools)
    tool_sources: tuple[ToolSource, ...] = ()
    system_prompt: str | MakePrompt = SYSTEM_PROMPT
    model_infos: Mapping[str, ModelInfo] = attrs.field(factory=dict)
    catalogue: tuple[ModelChoice, ...] = ()
    thinking: Thinking = "off"
    turn_limits: TurnLimits = attrs.field(factory=TurnLimits)
    rules: Sequence[PermissionRule] = ()
    folders: FolderSettingsSource = NO_FOLDER_FILES
    hooks: Hooks = NO_HOOKS
    extensions: Extensions | None = None
    protocols: tuple[ProtocolFactory, ...] = ()
    protocol: str = STANDARD
    protocol_options: PluginOptions = attrs.field(factory=PluginOptions)
    checkpoints: CheckpointStore | None = None
    standing: StandingGrants = attrs.field(factory=StandingGrants)
    jobs: BackgroundJobs | None = None
    outputs: str | None = None
    hidden: tuple[str, ...] = ()
    compact_at: float = COMPACT_AT
    cwd: str = attrs.field(factory=os.getcwd)
    permission_mode: PermissionMode = "ask_writes"
    sandbox: SandboxPolicy = attrs.field(factory=SandboxPolicy)
    compactor: Compactor | None = None
    store: SessionStore = attrs.field(factory=SqliteStore)
    stream_capacity: int = limits.STREAM_CAPACITY
    session_stream_capacity: int = limits.SESSION_STREAM_CAPACITY
    mailbox_capacity: int = limits.MAILBOX_CAPACITY
    approval_timeout_ms: int = limits.APPROVAL_TIMEOUT_MS
    stop_patience_ms: int = limits.STOP_PATIENCE_MS
    retention: Retention = attrs.field(factory=Retention)
    session_stay_ms: int = limits.REMEMBERED_SESSIONS_MS
    background_tasks: tuple["BackgroundTask", ...] = ()
    wakeups: bool = True
    now: Callable[[], int] = now_ms

    @property
    def model(self) -> str:
        """The model of new sessions."""
        return self.default_model or next(iter(self.models))

    @property
    def session_defaults(self) -> SessionDefaults:
        """The defaults of new sessions, before their folder adds its own."""
        return SessionDefaults(
            permission_mode=self.permission_mode,
            sandbox=self.sandbox,
            thinking=self.thinking,
            limits=self.turn_limits,
        )

    def check(self) -> None:
        """Raise `InvalidInput` naming the setting that cannot work."""
        if not self.models:
            raise InvalidInput("models must name at least one model", field="models")
        may_come = self.extensions is not None and "/" in self.model  # once the extension that provides it runs
        if self.model not in self.models and not may_come:
            raise InvalidInput(
                f"default_model is {self.model!r}, which is not among the models: {', '.join(self.models)}",
                field="default_model",
            )
        if not self.cwd.startswith("/"):
            raise InvalidInput(f"cwd must be an absolute path, not {self.cwd!r}", field="cwd")
        if any("\ud800" <= each <= "\udfff" for each in self.cwd):
            raise InvalidInput(
                f"cwd is {self.cwd!r}, a name that is not text in UTF-8; sessions cannot work there", field="cwd"
            )
        for name, provider in self.models.items():
            if not callable(getattr(provider, "stream", None)):
                raise InvalidInput(
                    f"models: {name!r} is not a provider: it has no method called stream", field="models"
                )
        for tool in self.tools:
            if not isinstance(getattr(tool, "spec", None), ToolSpec) or not callable(getattr(tool, "run", None)):
                raise InvalidInput(f"tools: {tool!r} is not a tool: it needs spec, effects and run", field="tools")
        names = [tool.spec.name for tool in self.tools]
        if len(set(names)) != len(names):
            raise InvalidInput(f"two tools share a name: {', '.join(sorted(names))}", field="tools")
        self._check_protocols()
        for field in _AT_LEAST_ONE:
            if getattr(self, field) < 1:
                raise InvalidInput(f"{field} must be at least 1", field=field)

    def _check_protocols(self) -> None:
        given: object = self.protocols
        if not isinstance(given, tuple):
            raise InvalidInput(
                f"protocols must be a tuple of protocols, not a {type(given).__name__}", field="protocols"
            )
        for factory in given:
            if isinstance(factory, type):
                raise InvalidInput(
                    f"protocols: {factory.__name__} is a class; give the protocol itself: {factory.__name__}()",
                    field="protocols",
                )
            if not isinstance(factory, ProtocolFactory):
                raise InvalidInput(f"protocols: {factory!r:.100} is not a ProtocolFactory", field="protocols")
            if (problem := find_factory_problem(factory)) is not None:
                raise InvalidInput(f"protocols: {type(factory).__name__} {problem}", field="protocols")
        options: object = self.protocol_options
        if not isinstance(options, PluginOptions):
            kind = type(options).__name__
            raise InvalidInput(
                f"protocol_options must be a PluginOptions, not a {kind} (see PluginOptions.for_plugin)",
                field="protocol_options",
            )
        wrong = [name for name, stated in options.plugins.items() if not _is_a(stated, JsonObject)]
        if wrong:
            raise InvalidInput(
                f"protocol_options: those of {wrong[0]!r} must be a JsonObject; PluginOptions.for_plugin makes one",
                field="protocol_options",
            )
        if not _is_a(self.protocol, str):
            raise InvalidInput(
                f"protocol must be the id of a protocol, not a {type(self.protocol).__name__}", field="protocol"
            )


def _is_a(given: object, kind: type) -> bool:
    return isinstance(given, kind)
