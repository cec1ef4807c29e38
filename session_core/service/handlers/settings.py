"""Settings: model, permission mode, sandbox policy, working directory, limits. Allowed at any time, even in a turn."""

from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers
from session_core.service.handlers.sessions import check_model
from session_core.service.validation import checked_limits, checked_path, checked_sandbox
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r


def switch_model(core: ServiceCore, command: c.SwitchModel, caller: Caller) -> r.SwitchModelReply:
    session = core.session(command.session_id)
    model = check_model(core, command.model, session.state.settings.cwd)
    switched = ev.ModelSwitched(model=model, thinking=command.thinking)
    session.record(switched, caller.client_id)
    return r.SwitchModelReply(effective="now" if session.work is None else "next_model_call", cursor=session.cursor)


def change_mode(core: ServiceCore, command: c.ChangePermissionMode, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    core.tree.change_mode(session, command.mode, caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def change_sandbox(core: ServiceCore, command: c.ChangeSandboxPolicy, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    core.tree.change_sandbox(session, checked_sandbox(command.policy), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def change_directory(core: ServiceCore, command: c.ChangeWorkingDirectory, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.record(ev.WorkingDirectoryChanged(cwd=checked_path(command.cwd)), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def change_limits(core: ServiceCore, command: c.ChangeTurnLimits, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    core.tree.change_limits(session, checked_limits(command.limits), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


HANDLERS: Handlers = {
    c.SwitchModel: switch_model,
    c.ChangePermissionMode: change_mode,
    c.ChangeSandboxPolicy: change_sandbox,
    c.ChangeWorkingDirectory: change_directory,
    c.ChangeTurnLimits: change_limits,
}
