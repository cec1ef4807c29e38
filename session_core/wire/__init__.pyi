from session_core.error_capture import ErrorCapture as ErrorCapture
from session_core.limits import MAX_SNAPSHOT_LINE as MAX_SNAPSHOT_LINE
from session_core.rpc.broken_lines import peek_message as peek_message
from session_core.rpc.connection import RpcConnection as RpcConnection
from session_core.rpc.connection import open_connection as open_connection
from session_core.rpc.failures import (
    PARSE_ERROR as PARSE_ERROR,
)
from session_core.rpc.failures import (
    RpcClosed as RpcClosed,
)
from session_core.rpc.failures import (
    RpcFailed as RpcFailed,
)
from session_core.rpc.failures import (
    RpcTimedOut as RpcTimedOut,
)
from session_core.rpc.failures import (
    method_not_found as method_not_found,
)
from session_core.rpc.messages import (
    FailureReply as FailureReply,
)
from session_core.rpc.messages import (
    Notification as Notification,
)
from session_core.rpc.messages import (
    Request as Request,
)
from session_core.rpc.messages import (
    SuccessReply as SuccessReply,
)
from session_core.rpc.messages import (
    encode_failure as encode_failure,
)
from session_core.rpc.peer import (
    RefusedRequest as RefusedRequest,
)
from session_core.rpc.peer import (
    RpcPeer as RpcPeer,
)
from session_core.rpc.peer import (
    SettledRequest as SettledRequest,
)
from session_core.rpc.peer import (
    encode_refusal as encode_refusal,
)
from session_core.vocabulary.client_protocol import (
    CONTRACT as CONTRACT,
)
from session_core.vocabulary.client_protocol import (
    ErrorInfo as ErrorInfo,
)
from session_core.vocabulary.client_protocol import (
    Execute as Execute,
)
from session_core.vocabulary.client_protocol import (
    FeedBatch as FeedBatch,
)
from session_core.vocabulary.client_protocol import (
    FeedEnd as FeedEnd,
)
from session_core.vocabulary.client_protocol import (
    FeedEnded as FeedEnded,
)
from session_core.vocabulary.client_protocol import (
    FeedPlace as FeedPlace,
)
from session_core.vocabulary.client_protocol import (
    Follow as Follow,
)
from session_core.vocabulary.client_protocol import (
    Followed as Followed,
)
from session_core.vocabulary.client_protocol import (
    Goodbye as Goodbye,
)
from session_core.vocabulary.client_protocol import (
    Heartbeat as Heartbeat,
)
from session_core.vocabulary.client_protocol import (
    Hello as Hello,
)
from session_core.vocabulary.client_protocol import (
    ServiceStatus as ServiceStatus,
)
from session_core.vocabulary.client_protocol import (
    Unfollow as Unfollow,
)
from session_core.vocabulary.client_protocol import (
    Welcome as Welcome,
)
from session_core.vocabulary.commands import COMMANDS as COMMANDS
from session_core.vocabulary.commands import reply_type as reply_type
from session_core.wire.catalogue import wire_tag as wire_tag
from session_core.wire.codec import (
    decode as decode,
)
from session_core.wire.codec import (
    encode as encode,
)
from session_core.wire.codec import (
    encode_event as encode_event,
)
from session_core.wire.codec import (
    from_json as from_json,
)
from session_core.wire.codec import (
    to_json as to_json,
)
from session_core.wire.errors import error_from_info as error_from_info
from session_core.wire.errors import error_info as error_info
from session_core.wire.schema import vocabulary_schema as vocabulary_schema
