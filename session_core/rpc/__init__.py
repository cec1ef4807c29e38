"""JSON-RPC 2.0 with another program, one message per line, both sides asking and answering.

Shared by everything that talks this way: extensions (the pipes of a child process), editors (our own stdin and
stdout), clients of our socket. What the methods mean is the business of those.

    async with open_connection(process.stdout, process.stdin, handle_request=answer, handle_notification=note) as peer:
        result = await peer.request("tool/execute", {"tool": "x"}, timeout=120)   # RpcFailed, RpcTimedOut, RpcClosed
        await peer.notify("log", {"message": "hello"})                            # waits while the peer does not read
        peer.push_event("turn_start", {"agent_id": "a"}, context=ctx)             # never waits; the oldest are shed
        closed = await peer.wait_closed()                                         # Closed(kind, detail)

- `failures`: the error codes, `RpcFailed` and its kinds, `Closed`: why a connection has ended
- `line_frames`: `LineSplitter`, from bytes to lines; a line that is too long is passed over and told as `OversizedLine`
- `messages`: `parse`, from a line to `Request | Notification | Success | Failure | Unusable`, and back to bytes
- `fast_json`: strict JSON, quickly
- `broken_lines`: what can still be learned from the beginning of a line that cannot be read
- `peer`: `RpcPeer`, our ids, who waits for which reply, and counts of all that came in and was of no use
- `outbox`: `Outbox`, what waits to be written: the control lane, and the lane of events which may be shed
- `byte_streams`: reading and writing, over file descriptors or over any stream of trio
- `connection`: `open_connection` and `RpcConnection`, which put these together on trio
- `deadlines`: `Deadlines`, one timer for the time limits of all requests
- `request_tasks`: the requests of the other side, each in a task of its own
- `memory`: `memory_connection_pair`, two connected ends for tests

Sans-IO: `line_frames`, `messages`, `fast_json`, `broken_lines`, `peer` and `outbox` know neither trio nor a file.

Promises: each request gets exactly one outcome. Whatever bytes come in, nothing is raised because of them and the
connection goes on. Every buffer is bounded: requests and notifications wait, events are shed and counted. A peer that
does not even read its replies is given up, with a reason, and so is one that says nothing of use any more. The reader
never waits for a handler, and lets others have their turn however much it has to read.
"""
