"""Requests to answer in tests."""

from typing import Literal

import session_core as sc

Kind = Literal["confirm", "select", "input", "notify"]

ME = sc.ClientId("client_me")
HELPER = sc.SessionId("ses_0123456789abcdef")
NOW = 1_000_000
APPROVAL = sc.Approval(
    request_id=sc.RequestId("req_write"),
    call_id=sc.CallId("call_1"),
    tool_name="write",
    summary="change a.py (+1 -1)",
    arguments=sc.JsonObject({"path": "a.py", "text": "new"}),
    requested_at=NOW,
    expires_at=NOW + 272_000,
    shown="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new",
    reason="it changes a file",
    grant="changes of a.py",
    fingerprint="print",
)
COMMAND = sc.Approval(
    request_id=sc.RequestId("req_run"),
    call_id=sc.CallId("call_2"),
    tool_name="bash",
    summary="run: make test",
    arguments=sc.JsonObject({"command": "make test"}),
    requested_at=NOW + 1,
    expires_at=NOW + 300_000,
    shown="make test\n\nfolder: /srv\nnetwork: off",
    reason="it runs a program",
    grant="run in /srv: make test",
)


def dialog(kind: Kind, number: int = 1, **more: object) -> sc.Dialog:
    """A question of an extension."""
    values = {"title": "Which one?", "opened_at": NOW + 10 + number, "expires_at": NOW + 60_000, "extension": "notes"}
    return sc.Dialog(request_id=sc.RequestId(f"req_dialog_{number}"), kind=kind, **{**values, **more})  # type: ignore[arg-type]
