"""session-core: a session service for AI agents that many frontends can watch and steer at once.

This module is the one public door: everything a program needs is a name here, and nothing else is promised. Names are
loaded at their first use, so that `import session_core` costs next to nothing.

Start with `open_session_service`, or read `docs/architecture.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from session_core._version import __version__

if TYPE_CHECKING:
    from session_core.errors import Conflict as Conflict
    from session_core.errors import CursorRefused as CursorRefused
    from session_core.errors import Forbidden as Forbidden
    from session_core.errors import InternalError as InternalError
    from session_core.errors import InvalidInput as InvalidInput
    from session_core.errors import Lagged as Lagged
    from session_core.errors import NoStore as NoStore
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
    from session_core.ids import new_session_id as new_session_id
    from session_core.providers.base import ModelFailed as ModelFailed
    from session_core.providers.base import ModelFinished as ModelFinished
    from session_core.providers.base import ModelRequest as ModelRequest
    from session_core.providers.base import Provider as Provider
    from session_core.providers.base import ProviderEvent as ProviderEvent
    from session_core.providers.base import TextChunk as TextChunk
    from session_core.providers.base import ThinkingChunk as ThinkingChunk
    from session_core.providers.base import ToolCallChunk as ToolCallChunk
    from session_core.providers.base import ToolCallOpened as ToolCallOpened
    from session_core.providers.demo import DemoProvider as DemoProvider
    from session_core.service.config import ServiceConfig as ServiceConfig
    from session_core.service.feed import Feed as Feed
    from session_core.service.service import AttachedClient as AttachedClient
    from session_core.service.service import ServiceStatistics as ServiceStatistics
    from session_core.service.service import SessionService as SessionService
    from session_core.service.service import open_session_service as open_session_service
    from session_core.session.fleet import FleetState as FleetState
    from session_core.session.state import SessionState as SessionState
    from session_core.session.state import apply as apply
    from session_core.session.state import fold as fold
    from session_core.session.tree import newest_leaf as newest_leaf
    from session_core.session.tree import siblings as siblings
    from session_core.storage.base import SessionStore as SessionStore
    from session_core.storage.base import StoredSession as StoredSession
    from session_core.storage.base import StoreReader as StoreReader
    from session_core.storage.home import default_home as default_home
    from session_core.storage.home_lock import Holder as Holder
    from session_core.storage.home_lock import lock_holder as lock_holder
    from session_core.storage.memory import MemoryStore as MemoryStore
    from session_core.storage.settings import HomeSettings as HomeSettings
    from session_core.storage.settings import Retention as Retention
    from session_core.storage.settings import read_settings as read_settings
    from session_core.storage.sqlite import SqliteStore as SqliteStore
    from session_core.storage.sqlite_reader import SqliteReader as SqliteReader
    from session_core.stream.event_stream import EventStream as EventStream
    from session_core.stream.event_stream import StreamStatistics as StreamStatistics
    from session_core.stream.follower import FeedItem as FeedItem
    from session_core.stream.follower import Follower as Follower
    from session_core.stream.follower import Resync as Resync
    from session_core.stream.follower import Snapshot as Snapshot
    from session_core.stream.subscription import Subscription as Subscription
    from session_core.tools.base import Tool as Tool
    from session_core.tools.base import ToolContext as ToolContext
    from session_core.tools.base import ToolFailed as ToolFailed
    from session_core.tools.base import ToolOutput as ToolOutput
    from session_core.upkeep.exchange import ImportReport as ImportReport
    from session_core.upkeep.exchange import export_session as export_session
    from session_core.upkeep.exchange import import_session as import_session
    from session_core.upkeep.finding import Finding as Finding
    from session_core.upkeep.finding import VerifyReport as VerifyReport
    from session_core.upkeep.rebuild import RebuildReport as RebuildReport
    from session_core.upkeep.rebuild import rebuild_store as rebuild_store
    from session_core.upkeep.store_files import BackupReport as BackupReport
    from session_core.upkeep.store_files import CompactReport as CompactReport
    from session_core.upkeep.store_files import RestoreReport as RestoreReport
    from session_core.upkeep.store_files import StoreStatistics as StoreStatistics
    from session_core.upkeep.store_files import backup_store as backup_store
    from session_core.upkeep.store_files import compact_store as compact_store
    from session_core.upkeep.store_files import restore_store as restore_store
    from session_core.upkeep.store_files import store_statistics as store_statistics
    from session_core.upkeep.verify import verify_store as verify_store
    from session_core.vocabulary import commands as commands
    from session_core.vocabulary import events as events
    from session_core.vocabulary import replies as replies
    from session_core.vocabulary.commands import CommandRequest as CommandRequest
    from session_core.vocabulary.events import Event as Event
    from session_core.vocabulary.events import SessionEvent as SessionEvent
    from session_core.vocabulary.frozen import JsonObject as JsonObject
    from session_core.vocabulary.frozen import JsonValue as JsonValue
    from session_core.vocabulary.frozen import Rope as Rope
    from session_core.vocabulary.frozen import Vector as Vector
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
    from session_core.vocabulary.messages import ToolResultPart as ToolResultPart
    from session_core.vocabulary.messages import Usage as Usage
    from session_core.vocabulary.methods import SessionMethods as SessionMethods
    from session_core.vocabulary.replies import SearchHit as SearchHit
    from session_core.vocabulary.replies import StopOutcome as StopOutcome
    from session_core.vocabulary.session_commands import Command as Command
    from session_core.vocabulary.sessions import Activity as Activity
    from session_core.vocabulary.sessions import Approval as Approval
    from session_core.vocabulary.sessions import Decision as Decision
    from session_core.vocabulary.sessions import DeliverAs as DeliverAs
    from session_core.vocabulary.sessions import Dialog as Dialog
    from session_core.vocabulary.sessions import PermissionTier as PermissionTier
    from session_core.vocabulary.sessions import QueueItem as QueueItem
    from session_core.vocabulary.sessions import SandboxPolicy as SandboxPolicy
    from session_core.vocabulary.sessions import Settings as Settings
    from session_core.vocabulary.sessions import StopScope as StopScope
    from session_core.vocabulary.sessions import TurnOutcome as TurnOutcome
    from session_core.vocabulary.sessions import Wakeup as Wakeup
    from session_core.vocabulary.snapshots import Bookmark as Bookmark
    from session_core.vocabulary.snapshots import ServiceSnapshot as ServiceSnapshot
    from session_core.vocabulary.snapshots import SessionSnapshot as SessionSnapshot
    from session_core.vocabulary.snapshots import SessionSummary as SessionSummary
    from session_core.vocabulary.tools import Effect as Effect
    from session_core.vocabulary.tools import ToolSpec as ToolSpec
    from session_core.wire.codec import decode as decode
    from session_core.wire.codec import encode as encode
    from session_core.wire.codec import encode_event as encode_event

_HOME = {
    "Activity": "session_core.vocabulary.sessions",
    "apply": "session_core.session.state",
    "Approval": "session_core.vocabulary.sessions",
    "AttachedClient": "session_core.service.service",
    "backup_store": "session_core.upkeep.store_files",
    "BackupReport": "session_core.upkeep.store_files",
    "Bookmark": "session_core.vocabulary.snapshots",
    "CallId": "session_core.ids",
    "ClientId": "session_core.ids",
    "Command": "session_core.vocabulary.session_commands",
    "CommandRequest": "session_core.vocabulary.commands",
    "commands": "session_core.vocabulary",
    "compact_store": "session_core.upkeep.store_files",
    "CompactReport": "session_core.upkeep.store_files",
    "Conflict": "session_core.errors",
    "Cursor": "session_core.ids",
    "CursorRefused": "session_core.errors",
    "Decision": "session_core.vocabulary.sessions",
    "decode": "session_core.wire.codec",
    "default_home": "session_core.storage.home",
    "DeliverAs": "session_core.vocabulary.sessions",
    "DemoProvider": "session_core.providers.demo",
    "Dialog": "session_core.vocabulary.sessions",
    "Effect": "session_core.vocabulary.tools",
    "encode": "session_core.wire.codec",
    "encode_event": "session_core.wire.codec",
    "Epoch": "session_core.ids",
    "Event": "session_core.vocabulary.events",
    "events": "session_core.vocabulary",
    "EventStream": "session_core.stream.event_stream",
    "export_session": "session_core.upkeep.exchange",
    "Feed": "session_core.service.feed",
    "FeedItem": "session_core.stream.follower",
    "Finding": "session_core.upkeep.finding",
    "FleetState": "session_core.session.fleet",
    "fold": "session_core.session.state",
    "Follower": "session_core.stream.follower",
    "Forbidden": "session_core.errors",
    "Holder": "session_core.storage.home_lock",
    "HomeSettings": "session_core.storage.settings",
    "ImagePart": "session_core.vocabulary.messages",
    "import_session": "session_core.upkeep.exchange",
    "ImportReport": "session_core.upkeep.exchange",
    "InternalError": "session_core.errors",
    "InterruptedPart": "session_core.vocabulary.messages",
    "InvalidInput": "session_core.errors",
    "JsonObject": "session_core.vocabulary.frozen",
    "JsonValue": "session_core.vocabulary.frozen",
    "Lagged": "session_core.errors",
    "LiveTool": "session_core.vocabulary.messages",
    "LOCAL_CLIENT": "session_core.ids",
    "lock_holder": "session_core.storage.home_lock",
    "MemoryStore": "session_core.storage.memory",
    "Message": "session_core.vocabulary.messages",
    "MessageId": "session_core.ids",
    "ModelFailed": "session_core.providers.base",
    "ModelFinished": "session_core.providers.base",
    "ModelRequest": "session_core.providers.base",
    "new_session_id": "session_core.ids",
    "newest_leaf": "session_core.session.tree",
    "NoStore": "session_core.errors",
    "NotFound": "session_core.errors",
    "open_session_service": "session_core.service.service",
    "Overloaded": "session_core.errors",
    "Part": "session_core.vocabulary.messages",
    "PartialMessage": "session_core.vocabulary.messages",
    "PartialPart": "session_core.vocabulary.messages",
    "PermissionTier": "session_core.vocabulary.sessions",
    "ProtocolError": "session_core.errors",
    "Provider": "session_core.providers.base",
    "ProviderEvent": "session_core.providers.base",
    "QueueItem": "session_core.vocabulary.sessions",
    "QueueItemId": "session_core.ids",
    "read_settings": "session_core.storage.settings",
    "ReadOnly": "session_core.errors",
    "rebuild_store": "session_core.upkeep.rebuild",
    "RebuildReport": "session_core.upkeep.rebuild",
    "replies": "session_core.vocabulary",
    "RequestId": "session_core.ids",
    "Resync": "session_core.stream.follower",
    "restore_store": "session_core.upkeep.store_files",
    "RestoreReport": "session_core.upkeep.store_files",
    "Retention": "session_core.storage.settings",
    "Rope": "session_core.vocabulary.frozen",
    "SandboxPolicy": "session_core.vocabulary.sessions",
    "SearchHit": "session_core.vocabulary.replies",
    "ServiceClosed": "session_core.errors",
    "ServiceConfig": "session_core.service.config",
    "ServiceSnapshot": "session_core.vocabulary.snapshots",
    "ServiceStatistics": "session_core.service.service",
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
    "siblings": "session_core.session.tree",
    "Snapshot": "session_core.stream.follower",
    "SqliteReader": "session_core.storage.sqlite_reader",
    "SqliteStore": "session_core.storage.sqlite",
    "StopOutcome": "session_core.vocabulary.replies",
    "StopScope": "session_core.vocabulary.sessions",
    "StorageFailed": "session_core.errors",
    "store_statistics": "session_core.upkeep.store_files",
    "StoreDamaged": "session_core.errors",
    "StoredSession": "session_core.storage.base",
    "StoreInUse": "session_core.errors",
    "StoreReader": "session_core.storage.base",
    "StoreStatistics": "session_core.upkeep.store_files",
    "StoreUnusable": "session_core.errors",
    "StreamStatistics": "session_core.stream.event_stream",
    "Subscription": "session_core.stream.subscription",
    "TextChunk": "session_core.providers.base",
    "TextPart": "session_core.vocabulary.messages",
    "ThinkingChunk": "session_core.providers.base",
    "ThinkingPart": "session_core.vocabulary.messages",
    "Tool": "session_core.tools.base",
    "ToolCallChunk": "session_core.providers.base",
    "ToolCallOpened": "session_core.providers.base",
    "ToolCallPart": "session_core.vocabulary.messages",
    "ToolContext": "session_core.tools.base",
    "ToolFailed": "session_core.tools.base",
    "ToolOutput": "session_core.tools.base",
    "ToolResultPart": "session_core.vocabulary.messages",
    "ToolSpec": "session_core.vocabulary.tools",
    "TurnId": "session_core.ids",
    "TurnOutcome": "session_core.vocabulary.sessions",
    "Unavailable": "session_core.errors",
    "Usage": "session_core.vocabulary.messages",
    "Vector": "session_core.vocabulary.frozen",
    "verify_store": "session_core.upkeep.verify",
    "VerifyReport": "session_core.upkeep.finding",
    "Wakeup": "session_core.vocabulary.sessions",
    "WakeupId": "session_core.ids",
}
_MODULES_OF = "session_core.vocabulary"  # whose modules are public as a whole: sc.commands, sc.events, sc.replies

__all__ = [
    "LOCAL_CLIENT",
    "Activity",
    "Approval",
    "AttachedClient",
    "BackupReport",
    "Bookmark",
    "CallId",
    "ClientId",
    "Command",
    "CommandRequest",
    "CompactReport",
    "Conflict",
    "Cursor",
    "CursorRefused",
    "Decision",
    "DeliverAs",
    "DemoProvider",
    "Dialog",
    "Effect",
    "Epoch",
    "Event",
    "EventStream",
    "Feed",
    "FeedItem",
    "Finding",
    "FleetState",
    "Follower",
    "Forbidden",
    "Holder",
    "HomeSettings",
    "ImagePart",
    "ImportReport",
    "InternalError",
    "InterruptedPart",
    "InvalidInput",
    "JsonObject",
    "JsonValue",
    "Lagged",
    "LiveTool",
    "MemoryStore",
    "Message",
    "MessageId",
    "ModelFailed",
    "ModelFinished",
    "ModelRequest",
    "NoStore",
    "NotFound",
    "Overloaded",
    "Part",
    "PartialMessage",
    "PartialPart",
    "PermissionTier",
    "ProtocolError",
    "Provider",
    "ProviderEvent",
    "QueueItem",
    "QueueItemId",
    "ReadOnly",
    "RebuildReport",
    "RequestId",
    "RestoreReport",
    "Resync",
    "Retention",
    "Rope",
    "SandboxPolicy",
    "SearchHit",
    "ServiceClosed",
    "ServiceConfig",
    "ServiceSnapshot",
    "ServiceStatistics",
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
    "Snapshot",
    "SqliteReader",
    "SqliteStore",
    "StopOutcome",
    "StopScope",
    "StorageFailed",
    "StoreDamaged",
    "StoreInUse",
    "StoreReader",
    "StoreStatistics",
    "StoreUnusable",
    "StoredSession",
    "StreamStatistics",
    "Subscription",
    "TextChunk",
    "TextPart",
    "ThinkingChunk",
    "ThinkingPart",
    "Tool",
    "ToolCallChunk",
    "ToolCallOpened",
    "ToolCallPart",
    "ToolContext",
    "ToolFailed",
    "ToolOutput",
    "ToolResultPart",
    "ToolSpec",
    "TurnId",
    "TurnOutcome",
    "Unavailable",
    "Usage",
    "Vector",
    "VerifyReport",
    "Wakeup",
    "WakeupId",
    "__version__",
    "apply",
    "backup_store",
    "commands",
    "compact_store",
    "decode",
    "default_home",
    "encode",
    "encode_event",
    "events",
    "export_session",
    "fold",
    "import_session",
    "lock_holder",
    "new_session_id",
    "newest_leaf",
    "open_session_service",
    "read_settings",
    "rebuild_store",
    "replies",
    "restore_store",
    "siblings",
    "store_statistics",
    "verify_store",
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
