"""One example of every command, for promises that hold for all of them."""

from session_core.ids import MessageId, QueueItemId, RequestId, SessionId, WakeupId
from session_core.vocabulary import commands as c
from session_core.vocabulary.commands import Command
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.sessions import SandboxPolicy, TurnLimits

NOBODY = SessionId("ses_nobody")


def one_of_each(session_id: SessionId) -> list[Command[object]]:
    """One command of every kind that names a session."""
    message_id, item_id, request_id = MessageId("msg_x"), QueueItemId("item_x"), RequestId("req_x")
    return [
        c.LoadSession(session_id=session_id),
        c.LoadMessages(session_id=session_id),
        c.FindFiles(session_id=session_id, query="q"),
        c.RenameSession(session_id=session_id, name="n"),
        c.ArchiveSession(session_id=session_id),
        c.RestoreSession(session_id=session_id),
        c.DeleteSession(session_id=session_id),
        c.ForkSession(session_id=session_id),
        c.SendUserMessage(session_id=session_id, text="t"),
        c.StartTurnIfIdle(session_id=session_id, text="t"),
        c.RunShellLine(session_id=session_id, line="ls"),
        c.EditMessage(session_id=session_id, message_id=message_id, text="t"),
        c.SwitchBranch(session_id=session_id, message_id=message_id),
        c.ResumeSession(session_id=session_id),
        c.DismissOutcome(session_id=session_id),
        c.WaitForTurn(session_id=session_id),
        c.ClearContext(session_id=session_id),
        c.CompactContext(session_id=session_id),
        c.RestoreToMessage(session_id=session_id),
        c.TakeBackUndo(session_id=session_id),
        c.ListQueue(session_id=session_id),
        c.EditQueueItem(session_id=session_id, item_id=item_id, text="t"),
        c.ReorderQueue(session_id=session_id, item_ids=()),
        c.RemoveQueueItem(session_id=session_id, item_id=item_id),
        c.TakeQueue(session_id=session_id),
        c.SwitchModel(session_id=session_id, model="m"),
        c.ChangePermissionMode(session_id=session_id, mode="full"),
        c.ChangeSandboxPolicy(session_id=session_id, policy=SandboxPolicy()),
        c.ChangeWorkingDirectory(session_id=session_id, cwd="/"),
        c.ChangeTurnLimits(session_id=session_id, limits=TurnLimits()),
        c.OpenDialog(session_id=session_id, kind="confirm", title="t"),
        c.AnswerDialog(session_id=session_id, request_id=request_id),
        c.AnswerApproval(session_id=session_id, request_id=request_id, decision="deny"),
        c.ScheduleWakeup(session_id=session_id, delay_ms=1, text="t"),
        c.CancelWakeup(session_id=session_id, wakeup_id=WakeupId("wake_x")),
        c.RequestStop(session_id=session_id),
        c.RunCommand(session_id=session_id, name="n"),
        c.CompleteCommand(session_id=session_id, name="n"),
        c.PressWidgetKey(session_id=session_id, extension="e", widget_id="w", key="k"),
        c.PostMessage(session_id=session_id, text="t"),
        c.AppendEntry(session_id=session_id, entry=JsonObject({"tag": "t"})),
        c.ShowDisplay(session_id=session_id, status="s"),
        c.ShowNotice(session_id=session_id, message="m"),
        c.LoginToProvider(session_id=session_id, provider="p"),
        c.AppendMessages(session_id=session_id, operation_id="o", messages=(NewMessage(role="user", text="t"),)),
        c.ApplyExtension(session_id=session_id, extension=JsonObject({"a": 1})),
    ]


ALL_COMMANDS: list[Command[object]] = [
    c.CreateSession(),
    c.ListSessions(),
    c.LoadService(),
    c.SearchMessages(text="t"),
    c.ListModels(),
    c.ListExtensions(),
    c.ListProtocols(),
    c.ListCommands(),
    c.ReloadExtension(name="n"),
    c.EnableExtension(name="n"),
    c.DisableExtension(name="n"),
    *one_of_each(NOBODY),
]
