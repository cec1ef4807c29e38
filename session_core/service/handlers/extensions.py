"""Extensions: list, commands, reload, enable and disable, widget keys, and their own actions in sessions."""

from collections.abc import Awaitable, Callable, Iterable

from session_core import limits
from session_core.agent.streamed_answer import replace_surrogates
from session_core.errors import Conflict, InvalidInput, NotFound, SessionCoreError, Unavailable
from session_core.ids import SessionId
from session_core.rpc.failures import RpcFailed
from session_core.service.core import ServiceCore
from session_core.service.extension_api import ExtensionManager, Extensions, display_owner, extension_of
from session_core.service.handler_api import Caller, Handlers, PendingReply, refuse_if_overtaken
from session_core.service.validation import (
    check_encodable,
    check_queue_room,
    checked_json,
    checked_name,
    checked_path,
    checked_text,
    queue_item,
    text_parts,
    user_message,
)
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.extensions import Completion, ExtensionCommand, ExtensionEntry, ExtensionInfo

_ANSWERING = ("ready", "reloading")  # the old process answers until the new one does


def _extensions(core: ServiceCore) -> Extensions:
    if core.config.extensions is None:
        raise Unavailable("this service was set up without extensions")
    return core.config.extensions


# --- listing ----------------------------------------------------------------------------------------------------------


def list_extensions(core: ServiceCore, _command: c.ListExtensions, _: Caller) -> r.ListExtensionsReply:
    extensions = core.config.extensions
    found = extensions.list() if extensions is not None else ()
    return r.ListExtensionsReply(extensions=found, cursor=core.stream.cursor)


def list_commands(core: ServiceCore, command: c.ListCommands, _: Caller) -> r.ListCommandsReply:
    if command.session_id is not None and command.cwd is not None:
        raise InvalidInput("ask for a session or for a folder, not for both", field="cwd")
    extensions, listed = core.config.extensions, tuple[ExtensionInfo, ...]()
    if command.session_id is not None:
        core.session(command.session_id)
    if extensions is not None and command.cwd is not None:
        listed = extensions.list_in(checked_path(command.cwd))
    elif extensions is not None:
        everywhere = command.session_id is None
        listed = tuple(each for each in extensions.list(command.session_id) if not everywhere or each.folder is None)
    return r.ListCommandsReply(commands=_list_commands(listed), cursor=core.stream.cursor)


def _list_commands(listed: Iterable[ExtensionInfo]) -> tuple[ExtensionCommand, ...]:
    return tuple(command for info in listed if info.state in _ANSWERING for command in info.commands)


def _find_command(
    extensions: Extensions, session_id: SessionId, name: str, extension: str | None
) -> ExtensionCommand | None:
    commands = _list_commands(extensions.list(session_id))
    return next((each for each in commands if each.name == name and extension in (None, each.extension)), None)


# --- running their commands -------------------------------------------------------------------------------------------


def run_command(core: ServiceCore, command: c.RunCommand, caller: Caller) -> PendingReply:
    arguments = _optional_text(command.arguments, "arguments", longest=limits.MAX_TEXT_CHARS)
    session = core.session(command.session_id)
    extensions = _extensions(core)
    found = _find_command(extensions, command.session_id, command.name, command.extension)
    if found is None:
        of_extension = f" of extension {command.extension!r}" if command.extension is not None else ""
        raise NotFound(
            f"there is no command {command.name!r}{of_extension}, or its extension is not running", field="name"
        )
    _refuse_side_work(core, session, caller)
    wait = core.side_tasks.start(
        command.session_id,
        f"the command /{found.extension}.{found.name}",
        lambda: extensions.run_command(command.session_id, found.name, arguments, found.extension),
    )

    async def wait_and_reply() -> r.RunCommandReply:
        said = replace_surrogates((await wait())[: limits.MAX_TEXT_CHARS])
        return r.RunCommandReply(content=said, cursor=core.stream.cursor)

    return PendingReply(wait_and_reply)


def complete_command(core: ServiceCore, command: c.CompleteCommand, _: Caller) -> PendingReply:
    partial = _optional_text(command.partial, "partial", longest=limits.MAX_TEXT_CHARS)
    core.session(command.session_id)
    extensions = _extensions(core)
    found = _find_command(extensions, command.session_id, command.name, command.extension)

    async def complete_and_reply() -> r.CompleteCommandReply:
        completions: tuple[Completion, ...] = ()
        if found is not None:
            try:
                completions = await extensions.complete_command(
                    command.session_id, found.name, partial, found.extension
                )
            except (SessionCoreError, RpcFailed):
                completions = ()  # an error message would only disturb the user's typing
        return r.CompleteCommandReply(completions=completions[: limits.MAX_PAGE], cursor=core.stream.cursor)

    return PendingReply(complete_and_reply)


def press_key(core: ServiceCore, command: c.PressWidgetKey, _: Caller) -> r.Acknowledged:
    widget_id, key = checked_name(command.widget_id, "widget_id"), checked_name(command.key, "key")
    session = core.session(command.session_id)
    extensions = _extensions(core)
    if not any(each.extension == command.extension and each.widget is not None for each in session.state.displays):
        raise NotFound(f"extension {command.extension!r} shows no widget in this session", field="extension")
    extensions.press_key(command.session_id, command.extension, widget_id, key)
    return r.Acknowledged(cursor=session.cursor)


def login(core: ServiceCore, command: c.LoginToProvider, caller: Caller) -> PendingReply:
    session = core.session(command.session_id)
    extensions = _extensions(core)
    if not any(command.provider in info.providers for info in extensions.list(command.session_id)):
        raise NotFound(f"no extension has a provider called {command.provider!r}", field="provider")
    _refuse_side_work(core, session, caller)
    return _acknowledge_after(
        core,
        command.session_id,
        f"the login to {command.provider}",
        lambda: extensions.login(command.session_id, command.provider),
    )


def _refuse_side_work(core: ServiceCore, session: Session, caller: Caller) -> None:
    refuse_if_overtaken(session, caller)
    if len(core.side_tasks.running_for(session.state.session_id)) >= limits.MAX_COMMANDS_AT_ONCE:
        msg = f"{limits.MAX_COMMANDS_AT_ONCE} commands of extensions run in this session already"
        raise Conflict(msg, field="session_id")


# --- extensions themselves --------------------------------------------------------------------------------------------


def reload(core: ServiceCore, command: c.ReloadExtension, _: Caller) -> PendingReply:
    manager = _find_manager(core, command.name, command.folder)
    return _acknowledge_after(
        core, None, f"the reload of extension {command.name}", lambda: manager.reload(command.name)
    )


def enable(core: ServiceCore, command: c.EnableExtension, _: Caller) -> PendingReply:
    manager = _find_manager(core, command.name, command.folder)
    return _acknowledge_after(core, None, f"enabling extension {command.name}", lambda: manager.enable(command.name))


def disable(core: ServiceCore, command: c.DisableExtension, _: Caller) -> PendingReply:
    manager = _find_manager(core, command.name, command.folder)
    return _acknowledge_after(core, None, f"disabling extension {command.name}", lambda: manager.disable(command.name))


def _find_manager(core: ServiceCore, name: str, folder: str | None) -> ExtensionManager:
    extensions = _extensions(core)
    checked_name(name, "name")
    if len(core.side_tasks.running_for(None)) >= limits.MAX_COMMANDS_AT_ONCE:
        raise Conflict("too many extensions are being changed already; try again in a moment", field="name")
    return extensions.find_manager(name, folder)


def _acknowledge_after(
    core: ServiceCore, session_id: SessionId | None, what: str, run: Callable[[], Awaitable[None]]
) -> PendingReply:
    wait = core.side_tasks.start(session_id, what, run)

    async def wait_and_reply() -> r.Acknowledged:
        await wait()
        return r.Acknowledged(cursor=core.stream.cursor)

    return PendingReply(wait_and_reply)


# --- actions of extensions --------------------------------------------------------------------------------------------


def post_message(core: ServiceCore, command: c.PostMessage, caller: Caller) -> r.PostMessageReply:
    parts = text_parts(checked_text(command.text))
    session = core.session(command.session_id)
    if session.work is not None:
        check_queue_room(session, parts)
        item = queue_item(parts, "follow_up", session.now(), caller.client_id, role=command.role, quiet=True)
        session.record(ev.MessageQueued(item=item), caller.client_id)
        return r.PostMessageReply(disposition="queued", queue_item_id=item.item_id, cursor=session.cursor)
    core.deliver_quiet_messages(session)  # earlier posts come first
    source = extension_of(caller.client_id)
    message = user_message(parts, session.state.head, None, session.now(), role=command.role, source=source)
    session.record(ev.MessageAdded(message=message), caller.client_id)
    return r.PostMessageReply(disposition="added", message_id=message.message_id, cursor=session.cursor)


def append_entry(core: ServiceCore, command: c.AppendEntry, caller: Caller) -> r.Acknowledged:
    entry = checked_json(command.entry, "entry", longest=limits.MAX_ENTRY_BYTES)
    session = core.session(command.session_id)
    stored_entry = ExtensionEntry(extension=display_owner(caller.client_id), entry=entry, at=session.now())
    session.record(ev.EntryAppended(entry=stored_entry), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def show_display(core: ServiceCore, command: c.ShowDisplay, caller: Caller) -> r.Acknowledged:
    status = _display_text(command.status, "status")
    title = _display_text(command.title, "title")
    widget = command.widget
    if widget is not None:
        widget = checked_json(widget, "widget", longest=limits.MAX_WIDGET_BYTES)
    session = core.session(command.session_id)
    who = display_owner(caller.client_id)
    displays = session.state.displays
    if len(displays) >= limits.MAX_DISPLAYS and not any(each.extension == who for each in displays):
        msg = f"{limits.MAX_DISPLAYS} extensions show something in this session already"
        raise Conflict(msg, field="session_id")
    display_event = ev.ExtensionDisplayed(extension=who, status=status, widget=widget, title=title)
    session.record(display_event, caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def show_notice(core: ServiceCore, command: c.ShowNotice, caller: Caller) -> r.Acknowledged:
    message = checked_text(command.message, "message", longest=limits.MAX_ERROR_CHARS)
    session = core.session(command.session_id)
    notice = ev.NoticeShown(extension=display_owner(caller.client_id), message=message, level=command.level)
    session.record(notice, caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def _display_text(text: str | None, field: str) -> str | None:
    return None if text is None else _optional_text(text, field, longest=limits.MAX_SUMMARY_CHARS)


def _optional_text(text: str, field: str, *, longest: int) -> str:
    """Return a string that may be empty, but not too long, and can be encoded."""
    if len(text) > longest:
        raise InvalidInput(f"{field} has {len(text):,} characters; the limit is {longest:,}", field=field)
    check_encodable(text, field)
    return text


HANDLERS: Handlers = {
    c.ListExtensions: list_extensions,
    c.ListCommands: list_commands,
    c.RunCommand: run_command,
    c.CompleteCommand: complete_command,
    c.ReloadExtension: reload,
    c.EnableExtension: enable,
    c.DisableExtension: disable,
    c.PressWidgetKey: press_key,
    c.PostMessage: post_message,
    c.AppendEntry: append_entry,
    c.ShowDisplay: show_display,
    c.ShowNotice: show_notice,
    c.LoginToProvider: login,
}
