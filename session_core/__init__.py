"""session-core: a session service for AI agents that many frontends can watch and steer at once.

This module is the one public door: everything a program needs is a name here, and nothing else is promised. Names are
loaded at their first use, so that `import session_core` costs next to nothing.

Start with `open_session_service`, or read `docs/architecture.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from session_core._version import __version__

if TYPE_CHECKING:
    from session_core.agent.folder_settings import FolderUnusable as FolderUnusable
    from session_core.agent.hooks import Blocked as Blocked
    from session_core.agent.hooks import Hooks as Hooks
    from session_core.agent.standing_grants import StandingGrants as StandingGrants
    from session_core.agent.turn import ToolSource as ToolSource
    from session_core.assembly.config_reload import follow_config as follow_config
    from session_core.assembly.extension_models import build_choice_error as build_choice_error
    from session_core.assembly.extension_models import extension_may_bring as extension_may_bring
    from session_core.assembly.folders.files import list_trust_remarks as list_trust_remarks
    from session_core.assembly.folders.registry import Folders as Folders
    from session_core.assembly.setup import Setup as Setup
    from session_core.assembly.setup import open_home_setup as open_home_setup
    from session_core.assembly.setup import open_setup as open_setup
    from session_core.assembly.surroundings import AgentEnvironment as AgentEnvironment
    from session_core.assembly.surroundings import current_environment as current_environment
    from session_core.checkpoints.store import CheckpointStore as CheckpointStore
    from session_core.config.load import find_project_file as find_project_file
    from session_core.config.load import find_trusted_fingerprint as find_trusted_fingerprint
    from session_core.config.load import load_config as load_config
    from session_core.config.load import read_settings as read_settings
    from session_core.config.origins import ShownSetting as ShownSetting
    from session_core.config.origins import describe_settings as describe_settings
    from session_core.config.problems import ConfigInvalid as ConfigInvalid
    from session_core.config.problems import ConfigProblem as ConfigProblem
    from session_core.config.rules import PermissionRule as PermissionRule
    from session_core.config.tool_names import unknown_tool_names as unknown_tool_names
    from session_core.config.values import Config as Config
    from session_core.config.watch import ConfigChange as ConfigChange
    from session_core.config.watch import ConfigWatcher as ConfigWatcher
    from session_core.errors import Conflict as Conflict
    from session_core.errors import CursorRefused as CursorRefused
    from session_core.errors import Disconnected as Disconnected
    from session_core.errors import ExtensionFailed as ExtensionFailed
    from session_core.errors import FilesChanged as FilesChanged
    from session_core.errors import Forbidden as Forbidden
    from session_core.errors import InternalError as InternalError
    from session_core.errors import InvalidInput as InvalidInput
    from session_core.errors import Lagged as Lagged
    from session_core.errors import NoStore as NoStore
    from session_core.errors import NotAllowed as NotAllowed
    from session_core.errors import NotFound as NotFound
    from session_core.errors import Overloaded as Overloaded
    from session_core.errors import ProtocolError as ProtocolError
    from session_core.errors import ReadOnly as ReadOnly
    from session_core.errors import ServiceClosed as ServiceClosed
    from session_core.errors import SessionCoreError as SessionCoreError
    from session_core.errors import StorageFailed as StorageFailed
    from session_core.errors import StoreDamaged as StoreDamaged
    from session_core.errors import StoreInUse as StoreInUse
    from session_core.errors import StoreUnusable as StoreUnusable
    from session_core.errors import Unavailable as Unavailable
    from session_core.ids import LOCAL_CLIENT as LOCAL_CLIENT
    from session_core.ids import CallId as CallId
    from session_core.ids import ClientId as ClientId
    from session_core.ids import Cursor as Cursor
    from session_core.ids import Epoch as Epoch
    from session_core.ids import MessageId as MessageId
    from session_core.ids import QueueItemId as QueueItemId
    from session_core.ids import RequestId as RequestId
    from session_core.ids import SessionId as SessionId
    from session_core.ids import TurnId as TurnId
    from session_core.ids import WakeupId as WakeupId
    from session_core.ids import new_id as new_id
    from session_core.ids import new_session_id as new_session_id
    from session_core.ids import now_ms as now_ms
    from session_core.mcp.client import McpServers as McpServers
    from session_core.mcp.config import load_mcp_config as load_mcp_config
    from session_core.mcp.content import ServerStatus as ServerStatus
    from session_core.own_errors import ErrorCapture as ErrorCapture
    from session_core.protocols.api import ProtocolBundle as ProtocolBundle
    from session_core.protocols.api import ProtocolFactory as ProtocolFactory
    from session_core.protocols.api import ProtocolSession as ProtocolSession
    from session_core.protocols.api import TurnAdditions as TurnAdditions
    from session_core.protocols.contexts import BeforeCall as BeforeCall
    from session_core.protocols.contexts import BeforeCallContext as BeforeCallContext
    from session_core.protocols.contexts import BuildContext as BuildContext
    from session_core.protocols.contexts import DirectAnswer as DirectAnswer
    from session_core.protocols.contexts import DirectFailed as DirectFailed
    from session_core.protocols.contexts import DirectRequest as DirectRequest
    from session_core.protocols.contexts import FinishNow as FinishNow
    from session_core.protocols.contexts import RefuseTurn as RefuseTurn
    from session_core.protocols.contexts import ReplaceRequest as ReplaceRequest
    from session_core.protocols.contexts import SessionContext as SessionContext
    from session_core.protocols.contexts import SwitchTo as SwitchTo
    from session_core.protocols.contexts import TooManyQuestions as TooManyQuestions
    from session_core.protocols.driver import Actions as Actions
    from session_core.protocols.driver import AskModel as AskModel
    from session_core.protocols.driver import Checkpoint as Checkpoint
    from session_core.protocols.driver import CheckpointKind as CheckpointKind
    from session_core.protocols.driver import CodeDriver as CodeDriver
    from session_core.protocols.driver import Driver as Driver
    from session_core.protocols.driver import DriverView as DriverView
    from session_core.protocols.driver import ExecuteCode as ExecuteCode
    from session_core.protocols.driver import Finish as Finish
    from session_core.protocols.driver import Remember as Remember
    from session_core.protocols.driver import RunTools as RunTools
    from session_core.protocols.driver import SwitchFrame as SwitchFrame
    from session_core.protocols.driver import Tell as Tell
    from session_core.protocols.execution import Cell as Cell
    from session_core.protocols.execution import CellResult as CellResult
    from session_core.protocols.execution import CodeExecutor as CodeExecutor
    from session_core.protocols.execution import Execution as Execution
    from session_core.protocols.execution import KeptState as KeptState
    from session_core.protocols.execution import StateCapture as StateCapture
    from session_core.protocols.faults import CallbackContextExpired as CallbackContextExpired
    from session_core.protocols.faults import ExtensionRejected as ExtensionRejected
    from session_core.protocols.faults import OptionConflict as OptionConflict
    from session_core.protocols.faults import OptionsInvalid as OptionsInvalid
    from session_core.protocols.faults import ProtocolFault as ProtocolFault
    from session_core.protocols.faults import StateNotKeepable as StateNotKeepable
    from session_core.protocols.faults import StateRejected as StateRejected
    from session_core.protocols.faults import UnknownPlugin as UnknownPlugin
    from session_core.protocols.options import PluginOptions as PluginOptions
    from session_core.protocols.options import option as option
    from session_core.protocols.options import read_options as read_options
    from session_core.protocols.prose import ProseProjector as ProseProjector
    from session_core.protocols.prose import ProseStream as ProseStream
    from session_core.protocols.prose import Span as Span
    from session_core.protocols.registry import problem_of_protocol_name as problem_of_protocol_name
    from session_core.protocols.standard import NativeToolDriver as NativeToolDriver
    from session_core.protocols.standard import StandardProtocol as StandardProtocol
    from session_core.providers.base import ModelFailed as ModelFailed
    from session_core.providers.base import ModelFinished as ModelFinished
    from session_core.providers.base import ModelRequest as ModelRequest
    from session_core.providers.base import Provider as Provider
    from session_core.providers.base import ProviderEvent as ProviderEvent
    from session_core.providers.base import TextChunk as TextChunk
    from session_core.providers.base import ThinkingChunk as ThinkingChunk
    from session_core.providers.base import ToolCallChunk as ToolCallChunk
    from session_core.providers.base import ToolCallOpened as ToolCallOpened
    from session_core.providers.catalogue import ModelInfo as ModelInfo
    from session_core.providers.catalogue import Prices as Prices
    from session_core.providers.catalogue import cost_micros as cost_micros
    from session_core.providers.catalogue import find_model as find_model
    from session_core.providers.choose import ModelChoice as ModelChoice
    from session_core.providers.choose import PickedModel as PickedModel
    from session_core.providers.choose import available_models as available_models
    from session_core.providers.choose import default_model as default_model
    from session_core.providers.choose import make_provider as make_provider
    from session_core.providers.choose import probe_ollama as probe_ollama
    from session_core.providers.choose import resolve_model as resolve_model
    from session_core.providers.demo import DemoProvider as DemoProvider
    from session_core.providers.secrets import Secret as Secret
    from session_core.providers.secrets import redact as redact
    from session_core.rpc.broken_lines import glimpse as glimpse
    from session_core.rpc.connection import RpcConnection as RpcConnection
    from session_core.rpc.connection import open_connection as open_connection
    from session_core.rpc.failures import PARSE_ERROR as PARSE_ERROR
    from session_core.rpc.failures import CloseReason as CloseReason
    from session_core.rpc.failures import RpcClosed as RpcClosed
    from session_core.rpc.failures import RpcFailed as RpcFailed
    from session_core.rpc.failures import RpcTimedOut as RpcTimedOut
    from session_core.rpc.failures import method_not_found as method_not_found
    from session_core.rpc.messages import FailureReply as FailureReply
    from session_core.rpc.messages import Notification as Notification
    from session_core.rpc.messages import Request as Request
    from session_core.rpc.messages import SuccessReply as SuccessReply
    from session_core.rpc.messages import encode_failure as encode_failure
    from session_core.rpc.peer import RefusedRequest as RefusedRequest
    from session_core.rpc.peer import RpcPeer as RpcPeer
    from session_core.rpc.peer import SettledRequest as SettledRequest
    from session_core.rpc.peer import encode_refusal as encode_refusal
    from session_core.sandbox.bubblewrap import Bubblewrap as Bubblewrap
    from session_core.sandbox.bubblewrap import NoBubblewrap as NoBubblewrap
    from session_core.sandbox.bubblewrap import find_bubblewrap as find_bubblewrap
    from session_core.sandbox.seccomp import filter_program as filter_program
    from session_core.sandbox.trust import Fingerprint as Fingerprint
    from session_core.sandbox.trust import TooMuchToTrust as TooMuchToTrust
    from session_core.sandbox.trust import TrustStore as TrustStore
    from session_core.sandbox.trust import take_fingerprint as take_fingerprint
    from session_core.sandbox.workspace import Workspace as Workspace
    from session_core.sep.conformance.report import ConformanceReport as ConformanceReport
    from session_core.sep.conformance.report import ConformanceStep as ConformanceStep
    from session_core.sep.conformance.runner import check_extension as check_extension
    from session_core.sep.host.catalogue.consent import Consents as Consents
    from session_core.sep.host.catalogue.discovery import DiscoveredExtension as DiscoveredExtension
    from session_core.sep.host.catalogue.folder_digest import NotDigestible as NotDigestible
    from session_core.sep.host.catalogue.folder_digest import compute_digest as compute_digest
    from session_core.sep.host.catalogue.search_paths import CONSENT_FILE as CONSENT_FILE
    from session_core.sep.host.catalogue.search_paths import SearchPaths as SearchPaths
    from session_core.sep.host.catalogue.search_paths import build_search_paths as build_search_paths
    from session_core.sep.host.catalogue.search_paths import discover_in as discover_in
    from session_core.sep.host.extension import HostedExtension as HostedExtension
    from session_core.sep.host.host import ExtensionHost as ExtensionHost
    from session_core.sep.host.models.credentials import CREDENTIALS_FILE as CREDENTIALS_FILE
    from session_core.sep.host.models.credentials import CredentialFile as CredentialFile
    from session_core.sep.host.process.extension_log import ExtensionLog as ExtensionLog
    from session_core.sep.host.process.launch import prepare_launch as prepare_launch
    from session_core.sep.protocol.manifest import Manifest as Manifest
    from session_core.sep.protocol.manifest import ManifestInvalid as ManifestInvalid
    from session_core.sep.protocol.manifest import read_manifest as read_manifest
    from session_core.sep.protocol.names import HOOKS as HOOKS
    from session_core.sep.protocol.names import is_extension_name as is_extension_name
    from session_core.sep.scaffold.template import NewExtension as NewExtension
    from session_core.sep.scaffold.template import scaffold_extension as scaffold_extension
    from session_core.service.config import ServiceConfig as ServiceConfig
    from session_core.service.extension_api import Extensions as Extensions
    from session_core.service.extension_api import extension_client as extension_client
    from session_core.service.feed import Feed as Feed
    from session_core.service.service import AttachedClient as AttachedClient
    from session_core.service.service import ServiceStatistics as ServiceStatistics
    from session_core.service.service import SessionService as SessionService
    from session_core.service.service import open_session_service as open_session_service
    from session_core.session.message_tree import newest_leaf as newest_leaf
    from session_core.session.message_tree import siblings as siblings
    from session_core.session.session_list import FleetState as FleetState
    from session_core.session.state import SessionState as SessionState
    from session_core.session.state import apply as apply
    from session_core.session.state import fold as fold
    from session_core.storage.base import SessionStore as SessionStore
    from session_core.storage.base import StoredSession as StoredSession
    from session_core.storage.base import StoreReader as StoreReader
    from session_core.storage.home import default_home as default_home
    from session_core.storage.home import prepare_home as prepare_home
    from session_core.storage.home import private_open as private_open
    from session_core.storage.home_lock import HomeLock as HomeLock
    from session_core.storage.home_lock import LockHolder as LockHolder
    from session_core.storage.home_lock import lock_holder as lock_holder
    from session_core.storage.maintenance.export_import import ImportReport as ImportReport
    from session_core.storage.maintenance.export_import import export_session as export_session
    from session_core.storage.maintenance.export_import import import_session as import_session
    from session_core.storage.maintenance.findings import StoreFinding as StoreFinding
    from session_core.storage.maintenance.findings import VerifyReport as VerifyReport
    from session_core.storage.maintenance.rebuild import RebuildReport as RebuildReport
    from session_core.storage.maintenance.rebuild import rebuild_store as rebuild_store
    from session_core.storage.maintenance.store_files import BackupReport as BackupReport
    from session_core.storage.maintenance.store_files import CompactReport as CompactReport
    from session_core.storage.maintenance.store_files import RestoreReport as RestoreReport
    from session_core.storage.maintenance.store_files import StoreStatistics as StoreStatistics
    from session_core.storage.maintenance.store_files import backup_store as backup_store
    from session_core.storage.maintenance.store_files import compact_store as compact_store
    from session_core.storage.maintenance.store_files import restore_store as restore_store
    from session_core.storage.maintenance.store_files import store_statistics as store_statistics
    from session_core.storage.maintenance.verify import verify_store as verify_store
    from session_core.storage.memory import MemoryStore as MemoryStore
    from session_core.storage.settings import Retention as Retention
    from session_core.storage.sqlite import SqliteStore as SqliteStore
    from session_core.storage.sqlite_reader import SqliteReader as SqliteReader
    from session_core.stream.event_stream import EventStream as EventStream
    from session_core.stream.event_stream import StreamStatistics as StreamStatistics
    from session_core.stream.follower import FeedItem as FeedItem
    from session_core.stream.follower import Follower as Follower
    from session_core.stream.follower import Resync as Resync
    from session_core.stream.follower import Snapshot as Snapshot
    from session_core.stream.subscription import Subscription as Subscription
    from session_core.tools.base import CallPreview as CallPreview
    from session_core.tools.base import TaskRequest as TaskRequest
    from session_core.tools.base import Tool as Tool
    from session_core.tools.base import ToolContext as ToolContext
    from session_core.tools.base import ToolFailed as ToolFailed
    from session_core.tools.base import ToolHost as ToolHost
    from session_core.tools.base import ToolOutput as ToolOutput
    from session_core.tools.files import coding_file_tools as coding_file_tools
    from session_core.vocabulary import commands as commands
    from session_core.vocabulary import events as events
    from session_core.vocabulary import replies as replies
    from session_core.vocabulary.client_protocol import CONTRACT as CONTRACT
    from session_core.vocabulary.client_protocol import ErrorInfo as ErrorInfo
    from session_core.vocabulary.client_protocol import Execute as Execute
    from session_core.vocabulary.client_protocol import FeedAnswer as FeedAnswer
    from session_core.vocabulary.client_protocol import FeedBatch as FeedBatch
    from session_core.vocabulary.client_protocol import FeedEnd as FeedEnd
    from session_core.vocabulary.client_protocol import FeedEnded as FeedEnded
    from session_core.vocabulary.client_protocol import FeedPlace as FeedPlace
    from session_core.vocabulary.client_protocol import Follow as Follow
    from session_core.vocabulary.client_protocol import Followed as Followed
    from session_core.vocabulary.client_protocol import Goodbye as Goodbye
    from session_core.vocabulary.client_protocol import Heartbeat as Heartbeat
    from session_core.vocabulary.client_protocol import Hello as Hello
    from session_core.vocabulary.client_protocol import ResyncReason as ResyncReason
    from session_core.vocabulary.client_protocol import ServiceStatus as ServiceStatus
    from session_core.vocabulary.client_protocol import Unfollow as Unfollow
    from session_core.vocabulary.client_protocol import Welcome as Welcome
    from session_core.vocabulary.commands import COMMANDS as COMMANDS
    from session_core.vocabulary.commands import Command as Command
    from session_core.vocabulary.commands import CommandRequest as CommandRequest
    from session_core.vocabulary.commands import reply_type as reply_type
    from session_core.vocabulary.events import Event as Event
    from session_core.vocabulary.events import SessionEvent as SessionEvent
    from session_core.vocabulary.extensions import Completion as Completion
    from session_core.vocabulary.extensions import ExtensionCommand as ExtensionCommand
    from session_core.vocabulary.extensions import ExtensionDisplay as ExtensionDisplay
    from session_core.vocabulary.extensions import ExtensionEntry as ExtensionEntry
    from session_core.vocabulary.extensions import ExtensionInfo as ExtensionInfo
    from session_core.vocabulary.extensions import Shortcut as Shortcut
    from session_core.vocabulary.extensions import UiKind as UiKind
    from session_core.vocabulary.frozen import JsonObject as JsonObject
    from session_core.vocabulary.frozen import JsonValue as JsonValue
    from session_core.vocabulary.frozen import Rope as Rope
    from session_core.vocabulary.frozen import Vector as Vector
    from session_core.vocabulary.messages import CodePart as CodePart
    from session_core.vocabulary.messages import FilePart as FilePart
    from session_core.vocabulary.messages import ImagePart as ImagePart
    from session_core.vocabulary.messages import InterruptedPart as InterruptedPart
    from session_core.vocabulary.messages import LiveTool as LiveTool
    from session_core.vocabulary.messages import Message as Message
    from session_core.vocabulary.messages import Part as Part
    from session_core.vocabulary.messages import PartialMessage as PartialMessage
    from session_core.vocabulary.messages import PartialPart as PartialPart
    from session_core.vocabulary.messages import TextPart as TextPart
    from session_core.vocabulary.messages import ThinkingPart as ThinkingPart
    from session_core.vocabulary.messages import ToolCallPart as ToolCallPart
    from session_core.vocabulary.messages import ToolProgress as ToolProgress
    from session_core.vocabulary.messages import ToolResultPart as ToolResultPart
    from session_core.vocabulary.messages import Usage as Usage
    from session_core.vocabulary.methods import SessionMethods as SessionMethods
    from session_core.vocabulary.models import ListedModel as ListedModel
    from session_core.vocabulary.models import ModelPrices as ModelPrices
    from session_core.vocabulary.prompt_input import TypedCommand as TypedCommand
    from session_core.vocabulary.prompt_input import TypedInput as TypedInput
    from session_core.vocabulary.prompt_input import TypedMessage as TypedMessage
    from session_core.vocabulary.prompt_input import TypedShellLine as TypedShellLine
    from session_core.vocabulary.prompt_input import parse_typed_input as parse_typed_input
    from session_core.vocabulary.protocols import ExecutorPoint as ExecutorPoint
    from session_core.vocabulary.protocols import ExecutorState as ExecutorState
    from session_core.vocabulary.protocols import Frame as Frame
    from session_core.vocabulary.protocols import NewMessage as NewMessage
    from session_core.vocabulary.protocols import ProtocolRecord as ProtocolRecord
    from session_core.vocabulary.protocols import StateLeaf as StateLeaf
    from session_core.vocabulary.replies import SearchHit as SearchHit
    from session_core.vocabulary.replies import StopOutcome as StopOutcome
    from session_core.vocabulary.sessions import Activity as Activity
    from session_core.vocabulary.sessions import ActivityName as ActivityName
    from session_core.vocabulary.sessions import Approval as Approval
    from session_core.vocabulary.sessions import ClientKind as ClientKind
    from session_core.vocabulary.sessions import ClientPresence as ClientPresence
    from session_core.vocabulary.sessions import ClientRole as ClientRole
    from session_core.vocabulary.sessions import Decision as Decision
    from session_core.vocabulary.sessions import DeliverAs as DeliverAs
    from session_core.vocabulary.sessions import Dialog as Dialog
    from session_core.vocabulary.sessions import PermissionMode as PermissionMode
    from session_core.vocabulary.sessions import PlanItem as PlanItem
    from session_core.vocabulary.sessions import QueueItem as QueueItem
    from session_core.vocabulary.sessions import RunningTurn as RunningTurn
    from session_core.vocabulary.sessions import SandboxPolicy as SandboxPolicy
    from session_core.vocabulary.sessions import Settings as Settings
    from session_core.vocabulary.sessions import StoppedWork as StoppedWork
    from session_core.vocabulary.sessions import StopScope as StopScope
    from session_core.vocabulary.sessions import Thinking as Thinking
    from session_core.vocabulary.sessions import TurnLimits as TurnLimits
    from session_core.vocabulary.sessions import TurnOutcome as TurnOutcome
    from session_core.vocabulary.sessions import UsageLine as UsageLine
    from session_core.vocabulary.sessions import Wakeup as Wakeup
    from session_core.vocabulary.snapshots import Bookmark as Bookmark
    from session_core.vocabulary.snapshots import ServiceSnapshot as ServiceSnapshot
    from session_core.vocabulary.snapshots import SessionSnapshot as SessionSnapshot
    from session_core.vocabulary.snapshots import SessionSummary as SessionSummary
    from session_core.vocabulary.tools import Effect as Effect
    from session_core.vocabulary.tools import ToolSpec as ToolSpec
    from session_core.wire.catalogue import wire_tag as wire_tag
    from session_core.wire.codec import decode as decode
    from session_core.wire.codec import encode as encode
    from session_core.wire.codec import encode_event as encode_event
    from session_core.wire.codec import from_json as from_json
    from session_core.wire.codec import to_json as to_json
    from session_core.wire.errors import error_from_info as error_from_info
    from session_core.wire.errors import error_info as error_info
    from session_core.wire.schema import vocabulary_schema as vocabulary_schema

_HOME = {
    "Actions": "session_core.protocols.driver",
    "Activity": "session_core.vocabulary.sessions",
    "ActivityName": "session_core.vocabulary.sessions",
    "Approval": "session_core.vocabulary.sessions",
    "AskModel": "session_core.protocols.driver",
    "AttachedClient": "session_core.service.service",
    "BackupReport": "session_core.storage.maintenance.store_files",
    "BeforeCall": "session_core.protocols.contexts",
    "BeforeCallContext": "session_core.protocols.contexts",
    "Blocked": "session_core.agent.hooks",
    "Bookmark": "session_core.vocabulary.snapshots",
    "Bubblewrap": "session_core.sandbox.bubblewrap",
    "BuildContext": "session_core.protocols.contexts",
    "COMMANDS": "session_core.vocabulary.commands",
    "CONSENT_FILE": "session_core.sep.host.catalogue.search_paths",
    "CONTRACT": "session_core.vocabulary.client_protocol",
    "CREDENTIALS_FILE": "session_core.sep.host.models.credentials",
    "CallId": "session_core.ids",
    "CallPreview": "session_core.tools.base",
    "Cell": "session_core.protocols.execution",
    "CellResult": "session_core.protocols.execution",
    "Checkpoint": "session_core.protocols.driver",
    "CheckpointKind": "session_core.protocols.driver",
    "CheckpointStore": "session_core.checkpoints.store",
    "ClientId": "session_core.ids",
    "ClientKind": "session_core.vocabulary.sessions",
    "ClientPresence": "session_core.vocabulary.sessions",
    "ClientRole": "session_core.vocabulary.sessions",
    "CloseReason": "session_core.rpc.failures",
    "CodeDriver": "session_core.protocols.driver",
    "CodeExecutor": "session_core.protocols.execution",
    "CodePart": "session_core.vocabulary.messages",
    "Command": "session_core.vocabulary.commands",
    "CommandRequest": "session_core.vocabulary.commands",
    "CompactReport": "session_core.storage.maintenance.store_files",
    "Completion": "session_core.vocabulary.extensions",
    "Config": "session_core.config.values",
    "ConfigChange": "session_core.config.watch",
    "ConfigInvalid": "session_core.config.problems",
    "ConfigProblem": "session_core.config.problems",
    "ConfigWatcher": "session_core.config.watch",
    "Conflict": "session_core.errors",
    "ConformanceReport": "session_core.sep.conformance.report",
    "ConformanceStep": "session_core.sep.conformance.report",
    "Consents": "session_core.sep.host.catalogue.consent",
    "CallbackContextExpired": "session_core.protocols.faults",
    "CredentialFile": "session_core.sep.host.models.credentials",
    "Cursor": "session_core.ids",
    "CursorRefused": "session_core.errors",
    "Decision": "session_core.vocabulary.sessions",
    "DeliverAs": "session_core.vocabulary.sessions",
    "DemoProvider": "session_core.providers.demo",
    "Dialog": "session_core.vocabulary.sessions",
    "DirectAnswer": "session_core.protocols.contexts",
    "DirectFailed": "session_core.protocols.contexts",
    "DirectRequest": "session_core.protocols.contexts",
    "Disconnected": "session_core.errors",
    "Driver": "session_core.protocols.driver",
    "DriverView": "session_core.protocols.driver",
    "Effect": "session_core.vocabulary.tools",
    "Epoch": "session_core.ids",
    "ErrorInfo": "session_core.vocabulary.client_protocol",
    "Event": "session_core.vocabulary.events",
    "EventStream": "session_core.stream.event_stream",
    "Execute": "session_core.vocabulary.client_protocol",
    "ExecuteCode": "session_core.protocols.driver",
    "Execution": "session_core.protocols.execution",
    "ExecutorPoint": "session_core.vocabulary.protocols",
    "ExecutorState": "session_core.vocabulary.protocols",
    "HostedExtension": "session_core.sep.host.extension",
    "ExtensionCommand": "session_core.vocabulary.extensions",
    "ExtensionDisplay": "session_core.vocabulary.extensions",
    "ExtensionEntry": "session_core.vocabulary.extensions",
    "ExtensionFailed": "session_core.errors",
    "ExtensionHost": "session_core.sep.host.host",
    "ExtensionInfo": "session_core.vocabulary.extensions",
    "ExtensionLog": "session_core.sep.host.process.extension_log",
    "ExtensionRejected": "session_core.protocols.faults",
    "Extensions": "session_core.service.extension_api",
    "FailureReply": "session_core.rpc.messages",
    "Feed": "session_core.service.feed",
    "FeedAnswer": "session_core.vocabulary.client_protocol",
    "FeedBatch": "session_core.vocabulary.client_protocol",
    "FeedEnd": "session_core.vocabulary.client_protocol",
    "FeedEnded": "session_core.vocabulary.client_protocol",
    "FeedItem": "session_core.stream.follower",
    "FeedPlace": "session_core.vocabulary.client_protocol",
    "FilePart": "session_core.vocabulary.messages",
    "FilesChanged": "session_core.errors",
    "StoreFinding": "session_core.storage.maintenance.findings",
    "Fingerprint": "session_core.sandbox.trust",
    "Finish": "session_core.protocols.driver",
    "FinishNow": "session_core.protocols.contexts",
    "FleetState": "session_core.session.session_list",
    "FolderUnusable": "session_core.agent.folder_settings",
    "Folders": "session_core.assembly.folders.registry",
    "Follow": "session_core.vocabulary.client_protocol",
    "Followed": "session_core.vocabulary.client_protocol",
    "Follower": "session_core.stream.follower",
    "Forbidden": "session_core.errors",
    "DiscoveredExtension": "session_core.sep.host.catalogue.discovery",
    "Frame": "session_core.vocabulary.protocols",
    "Goodbye": "session_core.vocabulary.client_protocol",
    "HOOKS": "session_core.sep.protocol.names",
    "Heartbeat": "session_core.vocabulary.client_protocol",
    "Hello": "session_core.vocabulary.client_protocol",
    "LockHolder": "session_core.storage.home_lock",
    "HomeLock": "session_core.storage.home_lock",
    "Hooks": "session_core.agent.hooks",
    "ImagePart": "session_core.vocabulary.messages",
    "ImportReport": "session_core.storage.maintenance.export_import",
    "InternalError": "session_core.errors",
    "InterruptedPart": "session_core.vocabulary.messages",
    "InvalidInput": "session_core.errors",
    "JsonObject": "session_core.vocabulary.frozen",
    "JsonValue": "session_core.vocabulary.frozen",
    "KeptState": "session_core.protocols.execution",
    "LOCAL_CLIENT": "session_core.ids",
    "Lagged": "session_core.errors",
    "ListedModel": "session_core.vocabulary.models",
    "LiveTool": "session_core.vocabulary.messages",
    "Manifest": "session_core.sep.protocol.manifest",
    "ManifestInvalid": "session_core.sep.protocol.manifest",
    "McpServers": "session_core.mcp.client",
    "MemoryStore": "session_core.storage.memory",
    "Message": "session_core.vocabulary.messages",
    "MessageId": "session_core.ids",
    "ModelChoice": "session_core.providers.choose",
    "ModelFailed": "session_core.providers.base",
    "ModelFinished": "session_core.providers.base",
    "ModelInfo": "session_core.providers.catalogue",
    "ModelPrices": "session_core.vocabulary.models",
    "ModelRequest": "session_core.providers.base",
    "NativeToolDriver": "session_core.protocols.standard",
    "NewExtension": "session_core.sep.scaffold.template",
    "NewMessage": "session_core.vocabulary.protocols",
    "NoBubblewrap": "session_core.sandbox.bubblewrap",
    "NoStore": "session_core.errors",
    "NotAllowed": "session_core.errors",
    "NotDigestible": "session_core.sep.host.catalogue.folder_digest",
    "NotFound": "session_core.errors",
    "Notification": "session_core.rpc.messages",
    "OptionConflict": "session_core.protocols.faults",
    "OptionsInvalid": "session_core.protocols.faults",
    "Overloaded": "session_core.errors",
    "ErrorCapture": "session_core.own_errors",
    "PARSE_ERROR": "session_core.rpc.failures",
    "Part": "session_core.vocabulary.messages",
    "PartialMessage": "session_core.vocabulary.messages",
    "PartialPart": "session_core.vocabulary.messages",
    "PermissionRule": "session_core.config.rules",
    "PermissionMode": "session_core.vocabulary.sessions",
    "PickedModel": "session_core.providers.choose",
    "AgentEnvironment": "session_core.assembly.surroundings",
    "SearchPaths": "session_core.sep.host.catalogue.search_paths",
    "PlanItem": "session_core.vocabulary.sessions",
    "PluginOptions": "session_core.protocols.options",
    "Prices": "session_core.providers.catalogue",
    "ProseProjector": "session_core.protocols.prose",
    "ProseStream": "session_core.protocols.prose",
    "ProtocolBundle": "session_core.protocols.api",
    "ProtocolError": "session_core.errors",
    "ProtocolFactory": "session_core.protocols.api",
    "ProtocolFault": "session_core.protocols.faults",
    "ProtocolRecord": "session_core.vocabulary.protocols",
    "ProtocolSession": "session_core.protocols.api",
    "Provider": "session_core.providers.base",
    "ProviderEvent": "session_core.providers.base",
    "QueueItem": "session_core.vocabulary.sessions",
    "QueueItemId": "session_core.ids",
    "ReadOnly": "session_core.errors",
    "RebuildReport": "session_core.storage.maintenance.rebuild",
    "RefuseTurn": "session_core.protocols.contexts",
    "RefusedRequest": "session_core.rpc.peer",
    "Remember": "session_core.protocols.driver",
    "ReplaceRequest": "session_core.protocols.contexts",
    "Request": "session_core.rpc.messages",
    "RequestId": "session_core.ids",
    "RestoreReport": "session_core.storage.maintenance.store_files",
    "Resync": "session_core.stream.follower",
    "ResyncReason": "session_core.vocabulary.client_protocol",
    "Retention": "session_core.storage.settings",
    "Rope": "session_core.vocabulary.frozen",
    "RpcClosed": "session_core.rpc.failures",
    "RpcConnection": "session_core.rpc.connection",
    "RpcFailed": "session_core.rpc.failures",
    "RpcPeer": "session_core.rpc.peer",
    "RpcTimedOut": "session_core.rpc.failures",
    "RunTools": "session_core.protocols.driver",
    "RunningTurn": "session_core.vocabulary.sessions",
    "SandboxPolicy": "session_core.vocabulary.sessions",
    "SearchHit": "session_core.vocabulary.replies",
    "Secret": "session_core.providers.secrets",
    "ServerStatus": "session_core.mcp.content",
    "ServiceClosed": "session_core.errors",
    "ServiceConfig": "session_core.service.config",
    "ServiceSnapshot": "session_core.vocabulary.snapshots",
    "ServiceStatistics": "session_core.service.service",
    "ServiceStatus": "session_core.vocabulary.client_protocol",
    "SessionContext": "session_core.protocols.contexts",
    "SessionCoreError": "session_core.errors",
    "SessionEvent": "session_core.vocabulary.events",
    "SessionId": "session_core.ids",
    "SessionMethods": "session_core.vocabulary.methods",
    "SessionService": "session_core.service.service",
    "SessionSnapshot": "session_core.vocabulary.snapshots",
    "SessionState": "session_core.session.state",
    "SessionStore": "session_core.storage.base",
    "SessionSummary": "session_core.vocabulary.snapshots",
    "Settings": "session_core.vocabulary.sessions",
    "SettledRequest": "session_core.rpc.peer",
    "Setup": "session_core.assembly.setup",
    "Shortcut": "session_core.vocabulary.extensions",
    "ShownSetting": "session_core.config.origins",
    "Snapshot": "session_core.stream.follower",
    "Span": "session_core.protocols.prose",
    "SqliteReader": "session_core.storage.sqlite_reader",
    "SqliteStore": "session_core.storage.sqlite",
    "StandardProtocol": "session_core.protocols.standard",
    "StandingGrants": "session_core.agent.standing_grants",
    "StateCapture": "session_core.protocols.execution",
    "StateLeaf": "session_core.vocabulary.protocols",
    "StateNotKeepable": "session_core.protocols.faults",
    "StateRejected": "session_core.protocols.faults",
    "StopOutcome": "session_core.vocabulary.replies",
    "StopScope": "session_core.vocabulary.sessions",
    "StoppedWork": "session_core.vocabulary.sessions",
    "StorageFailed": "session_core.errors",
    "StoreDamaged": "session_core.errors",
    "StoreInUse": "session_core.errors",
    "StoreReader": "session_core.storage.base",
    "StoreStatistics": "session_core.storage.maintenance.store_files",
    "StoreUnusable": "session_core.errors",
    "StoredSession": "session_core.storage.base",
    "StreamStatistics": "session_core.stream.event_stream",
    "Subscription": "session_core.stream.subscription",
    "SuccessReply": "session_core.rpc.messages",
    "SwitchFrame": "session_core.protocols.driver",
    "SwitchTo": "session_core.protocols.contexts",
    "TaskRequest": "session_core.tools.base",
    "Tell": "session_core.protocols.driver",
    "TextChunk": "session_core.providers.base",
    "TextPart": "session_core.vocabulary.messages",
    "Thinking": "session_core.vocabulary.sessions",
    "ThinkingChunk": "session_core.providers.base",
    "ThinkingPart": "session_core.vocabulary.messages",
    "TooManyQuestions": "session_core.protocols.contexts",
    "TooMuchToTrust": "session_core.sandbox.trust",
    "Tool": "session_core.tools.base",
    "ToolCallChunk": "session_core.providers.base",
    "ToolCallOpened": "session_core.providers.base",
    "ToolCallPart": "session_core.vocabulary.messages",
    "ToolContext": "session_core.tools.base",
    "ToolFailed": "session_core.tools.base",
    "ToolHost": "session_core.tools.base",
    "ToolOutput": "session_core.tools.base",
    "ToolProgress": "session_core.vocabulary.messages",
    "ToolResultPart": "session_core.vocabulary.messages",
    "ToolSource": "session_core.agent.turn",
    "ToolSpec": "session_core.vocabulary.tools",
    "TrustStore": "session_core.sandbox.trust",
    "TurnAdditions": "session_core.protocols.api",
    "TurnId": "session_core.ids",
    "TurnLimits": "session_core.vocabulary.sessions",
    "TurnOutcome": "session_core.vocabulary.sessions",
    "TypedInput": "session_core.vocabulary.prompt_input",
    "TypedCommand": "session_core.vocabulary.prompt_input",
    "TypedMessage": "session_core.vocabulary.prompt_input",
    "TypedShellLine": "session_core.vocabulary.prompt_input",
    "UiKind": "session_core.vocabulary.extensions",
    "Unavailable": "session_core.errors",
    "Unfollow": "session_core.vocabulary.client_protocol",
    "UnknownPlugin": "session_core.protocols.faults",
    "Usage": "session_core.vocabulary.messages",
    "UsageLine": "session_core.vocabulary.sessions",
    "Vector": "session_core.vocabulary.frozen",
    "VerifyReport": "session_core.storage.maintenance.findings",
    "Wakeup": "session_core.vocabulary.sessions",
    "WakeupId": "session_core.ids",
    "Welcome": "session_core.vocabulary.client_protocol",
    "Workspace": "session_core.sandbox.workspace",
    "list_trust_remarks": "session_core.assembly.folders.files",
    "apply": "session_core.session.state",
    "available_models": "session_core.providers.choose",
    "backup_store": "session_core.storage.maintenance.store_files",
    "check_extension": "session_core.sep.conformance.runner",
    "resolve_model": "session_core.providers.choose",
    "coding_file_tools": "session_core.tools.files",
    "commands": "session_core.vocabulary",
    "compact_store": "session_core.storage.maintenance.store_files",
    "cost_micros": "session_core.providers.catalogue",
    "decode": "session_core.wire.codec",
    "default_home": "session_core.storage.home",
    "default_model": "session_core.providers.choose",
    "discover_in": "session_core.sep.host.catalogue.search_paths",
    "encode": "session_core.wire.codec",
    "encode_event": "session_core.wire.codec",
    "encode_failure": "session_core.rpc.messages",
    "error_from_info": "session_core.wire.errors",
    "error_info": "session_core.wire.errors",
    "events": "session_core.vocabulary",
    "export_session": "session_core.storage.maintenance.export_import",
    "extension_client": "session_core.service.extension_api",
    "extension_may_bring": "session_core.assembly.extension_models",
    "filter_program": "session_core.sandbox.seccomp",
    "find_bubblewrap": "session_core.sandbox.bubblewrap",
    "find_model": "session_core.providers.catalogue",
    "take_fingerprint": "session_core.sandbox.trust",
    "fold": "session_core.session.state",
    "follow_config": "session_core.assembly.config_reload",
    "from_json": "session_core.wire.codec",
    "glimpse": "session_core.rpc.broken_lines",
    "import_session": "session_core.storage.maintenance.export_import",
    "is_extension_name": "session_core.sep.protocol.names",
    "load_config": "session_core.config.load",
    "load_mcp_config": "session_core.mcp.config",
    "lock_holder": "session_core.storage.home_lock",
    "make_provider": "session_core.providers.choose",
    "method_not_found": "session_core.rpc.failures",
    "new_id": "session_core.ids",
    "new_session_id": "session_core.ids",
    "newest_leaf": "session_core.session.message_tree",
    "now_ms": "session_core.ids",
    "open_connection": "session_core.rpc.connection",
    "open_home_setup": "session_core.assembly.setup",
    "open_session_service": "session_core.service.service",
    "open_setup": "session_core.assembly.setup",
    "option": "session_core.protocols.options",
    "build_search_paths": "session_core.sep.host.catalogue.search_paths",
    "prepare_home": "session_core.storage.home",
    "prepare_launch": "session_core.sep.host.process.launch",
    "private_open": "session_core.storage.home",
    "probe_ollama": "session_core.providers.choose",
    "problem_of_protocol_name": "session_core.protocols.registry",
    "find_project_file": "session_core.config.load",
    "read_manifest": "session_core.sep.protocol.manifest",
    "read_options": "session_core.protocols.options",
    "read_settings": "session_core.config.load",
    "parse_typed_input": "session_core.vocabulary.prompt_input",
    "rebuild_store": "session_core.storage.maintenance.rebuild",
    "redact": "session_core.providers.secrets",
    "encode_refusal": "session_core.rpc.peer",
    "build_choice_error": "session_core.assembly.extension_models",
    "replies": "session_core.vocabulary",
    "reply_type": "session_core.vocabulary.commands",
    "restore_store": "session_core.storage.maintenance.store_files",
    "scaffold_extension": "session_core.sep.scaffold.template",
    "describe_settings": "session_core.config.origins",
    "siblings": "session_core.session.message_tree",
    "store_statistics": "session_core.storage.maintenance.store_files",
    "current_environment": "session_core.assembly.surroundings",
    "wire_tag": "session_core.wire.catalogue",
    "compute_digest": "session_core.sep.host.catalogue.folder_digest",
    "to_json": "session_core.wire.codec",
    "find_trusted_fingerprint": "session_core.config.load",
    "unknown_tool_names": "session_core.config.tool_names",
    "verify_store": "session_core.storage.maintenance.verify",
    "vocabulary_schema": "session_core.wire.schema",
}
_MODULES_OF = "session_core.vocabulary"  # whose modules are public as a whole: sc.commands, sc.events, sc.replies

__all__ = [
    "COMMANDS",
    "CONSENT_FILE",
    "CONTRACT",
    "CREDENTIALS_FILE",
    "HOOKS",
    "LOCAL_CLIENT",
    "PARSE_ERROR",
    "Actions",
    "Activity",
    "ActivityName",
    "AgentEnvironment",
    "Approval",
    "AskModel",
    "AttachedClient",
    "BackupReport",
    "BeforeCall",
    "BeforeCallContext",
    "Blocked",
    "Bookmark",
    "Bubblewrap",
    "BuildContext",
    "CallId",
    "CallPreview",
    "CallbackContextExpired",
    "Cell",
    "CellResult",
    "Checkpoint",
    "CheckpointKind",
    "CheckpointStore",
    "ClientId",
    "ClientKind",
    "ClientPresence",
    "ClientRole",
    "CloseReason",
    "CodeDriver",
    "CodeExecutor",
    "CodePart",
    "Command",
    "CommandRequest",
    "CompactReport",
    "Completion",
    "Config",
    "ConfigChange",
    "ConfigInvalid",
    "ConfigProblem",
    "ConfigWatcher",
    "Conflict",
    "ConformanceReport",
    "ConformanceStep",
    "Consents",
    "CredentialFile",
    "Cursor",
    "CursorRefused",
    "Decision",
    "DeliverAs",
    "DemoProvider",
    "Dialog",
    "DirectAnswer",
    "DirectFailed",
    "DirectRequest",
    "Disconnected",
    "DiscoveredExtension",
    "Driver",
    "DriverView",
    "Effect",
    "Epoch",
    "ErrorCapture",
    "ErrorInfo",
    "Event",
    "EventStream",
    "Execute",
    "ExecuteCode",
    "Execution",
    "ExecutorPoint",
    "ExecutorState",
    "ExtensionCommand",
    "ExtensionDisplay",
    "ExtensionEntry",
    "ExtensionFailed",
    "ExtensionHost",
    "ExtensionInfo",
    "ExtensionLog",
    "ExtensionRejected",
    "Extensions",
    "FailureReply",
    "Feed",
    "FeedAnswer",
    "FeedBatch",
    "FeedEnd",
    "FeedEnded",
    "FeedItem",
    "FeedPlace",
    "FilePart",
    "FilesChanged",
    "Fingerprint",
    "Finish",
    "FinishNow",
    "FleetState",
    "FolderUnusable",
    "Folders",
    "Follow",
    "Followed",
    "Follower",
    "Forbidden",
    "Frame",
    "Goodbye",
    "Heartbeat",
    "Hello",
    "HomeLock",
    "Hooks",
    "HostedExtension",
    "ImagePart",
    "ImportReport",
    "InternalError",
    "InterruptedPart",
    "InvalidInput",
    "JsonObject",
    "JsonValue",
    "KeptState",
    "Lagged",
    "ListedModel",
    "LiveTool",
    "LockHolder",
    "Manifest",
    "ManifestInvalid",
    "McpServers",
    "MemoryStore",
    "Message",
    "MessageId",
    "ModelChoice",
    "ModelFailed",
    "ModelFinished",
    "ModelInfo",
    "ModelPrices",
    "ModelRequest",
    "NativeToolDriver",
    "NewExtension",
    "NewMessage",
    "NoBubblewrap",
    "NoStore",
    "NotAllowed",
    "NotDigestible",
    "NotFound",
    "Notification",
    "OptionConflict",
    "OptionsInvalid",
    "Overloaded",
    "Part",
    "PartialMessage",
    "PartialPart",
    "PermissionMode",
    "PermissionRule",
    "PickedModel",
    "PlanItem",
    "PluginOptions",
    "Prices",
    "ProseProjector",
    "ProseStream",
    "ProtocolBundle",
    "ProtocolError",
    "ProtocolFactory",
    "ProtocolFault",
    "ProtocolRecord",
    "ProtocolSession",
    "Provider",
    "ProviderEvent",
    "QueueItem",
    "QueueItemId",
    "ReadOnly",
    "RebuildReport",
    "RefuseTurn",
    "RefusedRequest",
    "Remember",
    "ReplaceRequest",
    "Request",
    "RequestId",
    "RestoreReport",
    "Resync",
    "ResyncReason",
    "Retention",
    "Rope",
    "RpcClosed",
    "RpcConnection",
    "RpcFailed",
    "RpcPeer",
    "RpcTimedOut",
    "RunTools",
    "RunningTurn",
    "SandboxPolicy",
    "SearchHit",
    "SearchPaths",
    "Secret",
    "ServerStatus",
    "ServiceClosed",
    "ServiceConfig",
    "ServiceSnapshot",
    "ServiceStatistics",
    "ServiceStatus",
    "SessionContext",
    "SessionCoreError",
    "SessionEvent",
    "SessionId",
    "SessionMethods",
    "SessionService",
    "SessionSnapshot",
    "SessionState",
    "SessionStore",
    "SessionSummary",
    "Settings",
    "SettledRequest",
    "Setup",
    "Shortcut",
    "ShownSetting",
    "Snapshot",
    "Span",
    "SqliteReader",
    "SqliteStore",
    "StandardProtocol",
    "StandingGrants",
    "StateCapture",
    "StateLeaf",
    "StateNotKeepable",
    "StateRejected",
    "StopOutcome",
    "StopScope",
    "StoppedWork",
    "StorageFailed",
    "StoreDamaged",
    "StoreFinding",
    "StoreInUse",
    "StoreReader",
    "StoreStatistics",
    "StoreUnusable",
    "StoredSession",
    "StreamStatistics",
    "Subscription",
    "SuccessReply",
    "SwitchFrame",
    "SwitchTo",
    "TaskRequest",
    "Tell",
    "TextChunk",
    "TextPart",
    "Thinking",
    "ThinkingChunk",
    "ThinkingPart",
    "TooManyQuestions",
    "TooMuchToTrust",
    "Tool",
    "ToolCallChunk",
    "ToolCallOpened",
    "ToolCallPart",
    "ToolContext",
    "ToolFailed",
    "ToolHost",
    "ToolOutput",
    "ToolProgress",
    "ToolResultPart",
    "ToolSource",
    "ToolSpec",
    "TrustStore",
    "TurnAdditions",
    "TurnId",
    "TurnLimits",
    "TurnOutcome",
    "TypedCommand",
    "TypedInput",
    "TypedMessage",
    "TypedShellLine",
    "UiKind",
    "Unavailable",
    "Unfollow",
    "UnknownPlugin",
    "Usage",
    "UsageLine",
    "Vector",
    "VerifyReport",
    "Wakeup",
    "WakeupId",
    "Welcome",
    "Workspace",
    "__version__",
    "apply",
    "available_models",
    "backup_store",
    "build_choice_error",
    "build_search_paths",
    "check_extension",
    "coding_file_tools",
    "commands",
    "compact_store",
    "compute_digest",
    "cost_micros",
    "current_environment",
    "decode",
    "default_home",
    "default_model",
    "describe_settings",
    "discover_in",
    "encode",
    "encode_event",
    "encode_failure",
    "encode_refusal",
    "error_from_info",
    "error_info",
    "events",
    "export_session",
    "extension_client",
    "extension_may_bring",
    "filter_program",
    "find_bubblewrap",
    "find_model",
    "find_project_file",
    "find_trusted_fingerprint",
    "fold",
    "follow_config",
    "from_json",
    "glimpse",
    "import_session",
    "is_extension_name",
    "list_trust_remarks",
    "load_config",
    "load_mcp_config",
    "lock_holder",
    "make_provider",
    "method_not_found",
    "new_id",
    "new_session_id",
    "newest_leaf",
    "now_ms",
    "open_connection",
    "open_home_setup",
    "open_session_service",
    "open_setup",
    "option",
    "parse_typed_input",
    "prepare_home",
    "prepare_launch",
    "private_open",
    "probe_ollama",
    "problem_of_protocol_name",
    "read_manifest",
    "read_options",
    "read_settings",
    "rebuild_store",
    "redact",
    "replies",
    "reply_type",
    "resolve_model",
    "restore_store",
    "scaffold_extension",
    "siblings",
    "store_statistics",
    "take_fingerprint",
    "to_json",
    "unknown_tool_names",
    "verify_store",
    "vocabulary_schema",
    "wire_tag",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    if home == _MODULES_OF:
        found: object = import_module(f"{home}.{name}")
    else:
        found = getattr(import_module(home), name)
    globals()[name] = found  # the next use does not come here
    return found


def __dir__() -> list[str]:
    return __all__
