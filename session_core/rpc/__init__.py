"""JSON-RPC 2.0 with another program, one message per line; both sides send requests.

Shared by all JSON-RPC connections: extensions (the pipes of a child process), editors (our own stdin and stdout),
clients of our socket. The meaning of the methods is up to them.

    async with open_connection(process.stdout, process.stdin, handle_request=answer, handle_notification=note) as peer:
        result = await peer.request("tool/execute", {"tool": "x"}, timeout=120)   # RpcFailed, RpcTimedOut, RpcClosed
        await peer.notify("log", {"message": "hello"})                            # waits while the peer does not read
        peer.push_event("turn_start", {"agent_id": "a"}, context=ctx)             # never waits; the oldest are shed
        closed = await peer.wait_closed()                                         # CloseReason(kind, detail)

- `failures`: the error codes, `RpcFailed` and its subclasses, `CloseReason`: why a connection has ended
- `line_frames`: `LineSplitter`, from bytes to lines; a line that is too long is skipped and reported as `OversizedLine`
- `messages`: `parse`, from a line to `Request`, `Notification`, `SuccessReply`, `FailureReply` or `UnusableLine`, and
  back to bytes
- `fast_json`: fast strict JSON
- `broken_lines`: what the beginning of an unreadable line still reveals
- `peer`: `RpcPeer`, our request ids, the waiter of each reply, and counts of all useless input
- `outbox`: `Outbox`, frames that wait to be written: the control lane, and the lane of events, which may be shed
- `byte_streams`: reading and writing, over file descriptors or over any stream of trio
- `connection`: `open_connection` and `RpcConnection`, which combine these on trio
- `deadlines`: `Waiter`, a caller that waits for its reply, and `Deadlines`, one timer for the time limits of all
- `request_tasks`: the other side's requests, each in its own task
- `memory`: `memory_connection_pair`, two connected ends for tests

Sans-IO: `line_frames`, `messages`, `fast_json`, `broken_lines`, `peer` and `outbox` use neither trio nor files.

Promises: each request gets exactly one outcome. No incoming bytes raise an exception or end the connection. Every
buffer is bounded: requests and notifications wait, events are shed and counted. The connection to a peer that does not
even read its replies, or that sends only useless data, is closed with a reason. The reader never waits for a handler,
and lets other tasks run however much it has to read.
"""
