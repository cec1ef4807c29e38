"""Two connected ends in memory, for tests: nothing waits outside of trio, so an autojump clock works."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from session_core.rpc.connection import NotificationHandler, RpcConnection, ignore_notification, open_connection
from session_core.rpc.request_tasks import RequestHandler, refuse_method


@asynccontextmanager
async def memory_connection_pair(
    left_requests: RequestHandler = refuse_method,
    right_requests: RequestHandler = refuse_method,
    *,
    left_notifications: NotificationHandler = ignore_notification,
    right_notifications: NotificationHandler = ignore_notification,
) -> AsyncGenerator[tuple[RpcConnection, RpcConnection]]:
    """Connect two ends; each pair of handlers belongs to the end it is named after."""
    from trio.testing import memory_stream_pair

    left_stream, right_stream = memory_stream_pair()
    async with (
        left_stream,
        right_stream,
        open_connection(
            left_stream,
            left_stream,
            handle_request=left_requests,
            handle_notification=left_notifications,
            name="left",
        ) as left_end,
        open_connection(
            right_stream,
            right_stream,
            handle_request=right_requests,
            handle_notification=right_notifications,
            name="right",
        ) as right_end,
    ):
        yield left_end, right_end
