from session_core import extensions as extensions
from session_core import maintenance as maintenance
from session_core import protocols as protocols
from session_core import setup as setup
from session_core import testing as testing
from session_core import wire as wire
from session_core._version import __version__ as __version__
from session_core.agent.hooks import Blocked as Blocked
from session_core.agent.hooks import Hooks as Hooks
from session_core.errors import (
    AccessDenied as AccessDenied,
)
from session_core.errors import (
    Conflict as Conflict,
)
from session_core.errors import (
    CursorRefused as CursorRefused,
)
from session_core.errors import (
    Disconnected as Disconnected,
)
from session_core.errors import (
    ExtensionFailed as ExtensionFailed,
)
from session_core.errors import (
    FilesChanged as FilesChanged,
)
from session_core.errors import (
    Forbidden as Forbidden,
)
from session_core.errors import (
    InternalError as InternalError,
)
from session_core.errors import (
    InvalidInput as InvalidInput,
)
from session_core.errors import (
    Lagged as Lagged,
)
from session_core.errors import (
    NoStore as NoStore,
)
from session_core.errors import (
    NotFound as NotFound,
)
from session_core.errors import (
    Overloaded as Overloaded,
)
from session_core.errors import (
    ProtocolError as ProtocolError,
)
from session_core.errors import (
    ReadOnly as ReadOnly,
)
from session_core.errors import (
    ServiceClosed as ServiceClosed,
)
from session_core.errors import (
    SessionCoreError as SessionCoreError,
)
from session_core.errors import (
    StorageFailed as StorageFailed,
)
from session_core.errors import (
    StoreDamaged as StoreDamaged,
)
from session_core.errors import (
    StoreInUse as StoreInUse,
)
from session_core.errors import (
    StoreUnusable as StoreUnusable,
)
from session_core.errors import (
    Unavailable as Unavailable,
)
from session_core.ids import (
    CallId as CallId,
)
from session_core.ids import (
    ClientId as ClientId,
)
from session_core.ids import (
    Cursor as Cursor,
)
from session_core.ids import (
    Epoch as Epoch,
)
from session_core.ids import (
    MessageId as MessageId,
)
from session_core.ids import (
    QueueItemId as QueueItemId,
)
from session_core.ids import (
    RequestId as RequestId,
)
from session_core.ids import (
    SessionId as SessionId,
)
from session_core.ids import (
    TurnId as TurnId,
)
from session_core.ids import (
    WakeupId as WakeupId,
)
from session_core.ids import (
    new_id as new_id,
)
from session_core.ids import (
    now_ms as now_ms,
)
from session_core.permissions.answers import explain_refused_decision as explain_refused_decision
from session_core.permissions.answers import possible_decisions as possible_decisions
from session_core.providers.base import (
    ModelFailed as ModelFailed,
)
from session_core.providers.base import (
    ModelFinished as ModelFinished,
)
from session_core.providers.base import (
    ModelRequest as ModelRequest,
)
from session_core.providers.base import (
    Provider as Provider,
)
from session_core.providers.base import (
    ProviderEvent as ProviderEvent,
)
from session_core.providers.base import (
    TextChunk as TextChunk,
)
from session_core.providers.base import (
    ThinkingChunk as ThinkingChunk,
)
from session_core.providers.base import (
    ToolCallChunk as ToolCallChunk,
)
from session_core.providers.base import (
    ToolCallOpened as ToolCallOpened,
)
from session_core.providers.catalogue import ModelInfo as ModelInfo
from session_core.providers.demo import DemoProvider as DemoProvider
from session_core.service.config import ServiceConfig as ServiceConfig
from session_core.service.feed import Feed as Feed
from session_core.service.service import (
    AttachedClient as AttachedClient,
)
from session_core.service.service import (
    SessionService as SessionService,
)
from session_core.service.service import (
    open_session_service as open_session_service,
)
from session_core.session.session_list import SessionListState as SessionListState
from session_core.session.state import SessionState as SessionState
from session_core.session.state import apply as apply
from session_core.session.state import fold as fold
from session_core.storage.base import SessionStore as SessionStore
from session_core.storage.memory import MemoryStore as MemoryStore
from session_core.storage.sqlite import SqliteStore as SqliteStore
from session_core.storage.sqlite_reader import SqliteReader as SqliteReader
from session_core.stream.event_stream import EventStream as EventStream
from session_core.stream.follower import FeedItem as FeedItem
from session_core.stream.follower import Follower as Follower
from session_core.stream.follower import Resync as Resync
from session_core.stream.subscription import Subscription as Subscription
from session_core.tools.base import (
    CallPreview as CallPreview,
)
from session_core.tools.base import (
    Tool as Tool,
)
from session_core.tools.base import (
    ToolContext as ToolContext,
)
from session_core.tools.base import (
    ToolFailed as ToolFailed,
)
from session_core.tools.base import (
    ToolHost as ToolHost,
)
from session_core.tools.base import (
    ToolOutput as ToolOutput,
)
from session_core.vocabulary import commands as commands
from session_core.vocabulary import events as events
from session_core.vocabulary import replies as replies
from session_core.vocabulary.commands import Command as Command
from session_core.vocabulary.events import Event as Event
from session_core.vocabulary.events import SessionEvent as SessionEvent
from session_core.vocabulary.frozen import JsonObject as JsonObject
from session_core.vocabulary.frozen import JsonValue as JsonValue
from session_core.vocabulary.frozen import Vector as Vector
from session_core.vocabulary.messages import (
    CodePart as CodePart,
)
from session_core.vocabulary.messages import (
    FilePart as FilePart,
)
from session_core.vocabulary.messages import (
    ImagePart as ImagePart,
)
from session_core.vocabulary.messages import (
    InterruptedPart as InterruptedPart,
)
from session_core.vocabulary.messages import (
    LiveTool as LiveTool,
)
from session_core.vocabulary.messages import (
    Message as Message,
)
from session_core.vocabulary.messages import (
    Part as Part,
)
from session_core.vocabulary.messages import (
    PartialMessage as PartialMessage,
)
from session_core.vocabulary.messages import (
    PartialPart as PartialPart,
)
from session_core.vocabulary.messages import (
    Refusal as Refusal,
)
from session_core.vocabulary.messages import (
    TextPart as TextPart,
)
from session_core.vocabulary.messages import (
    ThinkingPart as ThinkingPart,
)
from session_core.vocabulary.messages import (
    ToolCallPart as ToolCallPart,
)
from session_core.vocabulary.messages import (
    ToolResultPart as ToolResultPart,
)
from session_core.vocabulary.messages import (
    Usage as Usage,
)
from session_core.vocabulary.messages import image_type as image_type
from session_core.vocabulary.methods import SessionMethods as SessionMethods
from session_core.vocabulary.models import ListedModel as ListedModel
from session_core.vocabulary.protocols import NewMessage as NewMessage
from session_core.vocabulary.replies import SearchHit as SearchHit
from session_core.vocabulary.replies import StopOutcome as StopOutcome
from session_core.vocabulary.sessions import (
    Activity as Activity,
)
from session_core.vocabulary.sessions import (
    ActivityName as ActivityName,
)
from session_core.vocabulary.sessions import (
    Approval as Approval,
)
from session_core.vocabulary.sessions import (
    ClientKind as ClientKind,
)
from session_core.vocabulary.sessions import (
    ClientPresence as ClientPresence,
)
from session_core.vocabulary.sessions import (
    ClientRole as ClientRole,
)
from session_core.vocabulary.sessions import (
    Decision as Decision,
)
from session_core.vocabulary.sessions import (
    DeliverAs as DeliverAs,
)
from session_core.vocabulary.sessions import (
    Dialog as Dialog,
)
from session_core.vocabulary.sessions import (
    ExtraRight as ExtraRight,
)
from session_core.vocabulary.sessions import (
    PermissionMode as PermissionMode,
)
from session_core.vocabulary.sessions import (
    PlanItem as PlanItem,
)
from session_core.vocabulary.sessions import (
    QueueItem as QueueItem,
)
from session_core.vocabulary.sessions import (
    RunningTurn as RunningTurn,
)
from session_core.vocabulary.sessions import (
    SandboxMode as SandboxMode,
)
from session_core.vocabulary.sessions import (
    SandboxPolicy as SandboxPolicy,
)
from session_core.vocabulary.sessions import (
    Settings as Settings,
)
from session_core.vocabulary.sessions import (
    StoppedWork as StoppedWork,
)
from session_core.vocabulary.sessions import (
    StopScope as StopScope,
)
from session_core.vocabulary.sessions import (
    Thinking as Thinking,
)
from session_core.vocabulary.sessions import (
    TurnLimits as TurnLimits,
)
from session_core.vocabulary.sessions import (
    TurnOutcome as TurnOutcome,
)
from session_core.vocabulary.sessions import (
    UsageLine as UsageLine,
)
from session_core.vocabulary.snapshots import (
    ServiceSnapshot as ServiceSnapshot,
)
from session_core.vocabulary.snapshots import (
    SessionSnapshot as SessionSnapshot,
)
from session_core.vocabulary.snapshots import (
    SessionSummary as SessionSummary,
)
from session_core.vocabulary.tools import Effect as Effect
from session_core.vocabulary.tools import ToolSpec as ToolSpec
