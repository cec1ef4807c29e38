"""Which commands a guest may send: a client that is let in to some sessions only.

Every command has a row. One without a row, such as a new one, is for the owner alone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import session_core as sc

_c = sc.commands

GuestRight = Literal["observer", "controller", "owner"]
"""Who may send a command about a session: whoever may see it, whoever may act in it, or only its owner."""

GUEST_RIGHTS: Final[Mapping[type[object], GuestRight]] = MappingProxyType(
    {
        # sessions
        _c.CreateSession: "owner",
        _c.ListSessions: "owner",
        _c.LoadService: "owner",
        _c.LoadSession: "observer",
        _c.LoadMessages: "observer",
        _c.SearchMessages: "owner",
        _c.ListModels: "observer",
        _c.FindFiles: "observer",
        _c.RenameSession: "controller",
        _c.ArchiveSession: "controller",
        _c.RestoreSession: "controller",
        _c.DeleteSession: "owner",
        _c.ForkSession: "owner",
        _c.RunShellLine: "controller",  # confined like the commands of the model
        # the conversation and its turns
        _c.SendUserMessage: "controller",
        _c.StartTurnIfIdle: "controller",
        _c.EditMessage: "controller",
        _c.SwitchBranch: "controller",
        _c.ResumeSession: "controller",
        _c.DismissOutcome: "controller",
        _c.WaitForTurn: "observer",
        _c.ClearContext: "controller",
        _c.CompactContext: "controller",
        _c.RestoreToMessage: "controller",
        _c.TakeBackUndo: "controller",
        # extensions
        _c.ListExtensions: "owner",
        _c.ListCommands: "observer",
        _c.RunCommand: "controller",
        _c.CompleteCommand: "observer",
        _c.ReloadExtension: "owner",
        _c.EnableExtension: "owner",
        _c.DisableExtension: "owner",
        _c.PressWidgetKey: "controller",
        _c.LoginToProvider: "owner",
        # what extensions do in sessions
        _c.PostMessage: "owner",  # speaks in the name of others
        _c.AppendEntry: "controller",
        _c.ShowDisplay: "controller",
        _c.ShowNotice: "controller",
        # protocols
        _c.ListProtocols: "owner",
        _c.AppendMessages: "owner",  # speaks in the name of others
        _c.ApplyExtension: "controller",
        # the queue
        _c.ListQueue: "observer",
        _c.EditQueueItem: "owner",  # what is queued keeps the name of whoever queued it
        _c.ReorderQueue: "controller",
        _c.RemoveQueueItem: "controller",
        _c.TakeQueue: "controller",
        # settings: what binds a session, what it costs, and who gets to read it
        _c.SwitchModel: "owner",
        _c.ChangePermissionMode: "owner",
        _c.ChangeSandboxPolicy: "owner",
        _c.ChangeWorkingDirectory: "owner",
        _c.ChangeTurnLimits: "owner",
        # requests to people, wake-ups, stop
        _c.OpenDialog: "controller",
        _c.AnswerDialog: "controller",
        _c.AnswerApproval: "controller",  # but see `access` for the answers that reach further
        _c.ScheduleWakeup: "owner",  # acts when the guest's token has long expired
        _c.CancelWakeup: "controller",
        _c.RequestStop: "controller",
    }
)

_RESTRICTIONS: Final = "change the restrictions of a session; its owner can"
_REACHES_OUT: Final = "do anything that reaches beyond this session"
_OTHERS: Final = "speak in the name of others"
REFUSALS: Final[Mapping[type[object], str]] = MappingProxyType(
    {
        _c.CreateSession: "create sessions",
        _c.ListSessions: "see the list of all sessions",
        _c.LoadService: "see the list of all sessions",
        _c.DeleteSession: "delete a session; its owner can",
        _c.ForkSession: _REACHES_OUT,
        _c.LoginToProvider: _REACHES_OUT,
        _c.SwitchModel: "switch the model; the owner of the session can",
        _c.ChangePermissionMode: _RESTRICTIONS,
        _c.ChangeSandboxPolicy: _RESTRICTIONS,
        _c.ChangeWorkingDirectory: _RESTRICTIONS,
        _c.ChangeTurnLimits: _RESTRICTIONS,
        _c.PostMessage: _OTHERS,
        _c.AppendMessages: _OTHERS,
        _c.EditQueueItem: _OTHERS,
        _c.ScheduleWakeup: "schedule anything for later",
    }
)
"""What a guest may not do, in words for people."""
DEFAULT_REFUSAL: Final = "act outside of its own sessions"
