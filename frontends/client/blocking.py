"""The methods of the service without `await`: each has the arguments, the reply and the errors of its model."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import session_core as sc

P = ParamSpec("P")
R = TypeVar("R")


class _Calling:
    def _call(self, method: Callable[..., Awaitable[R]], *args: Any, **kwargs: Any) -> R:
        """Run a method of the client and wait for it."""
        raise NotImplementedError


def _blocking(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[_Calling, P], R]:
    @wraps(method)
    def call(self: _Calling, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(method, *args, **kwargs)

    return call


class BlockingMethods(_Calling):
    """One method for each of `sc.SessionMethods`; a test sees to it that none is missing."""

    def execute(self, command: sc.Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""

        async def run(client: sc.SessionMethods) -> R:
            return await client.execute(command, idempotency_key=idempotency_key)

        return self._call(run)

    create_session = _blocking(sc.SessionMethods.create_session)
    list_sessions = _blocking(sc.SessionMethods.list_sessions)
    list_models = _blocking(sc.SessionMethods.list_models)
    find_files = _blocking(sc.SessionMethods.find_files)
    load_service = _blocking(sc.SessionMethods.load_service)
    load_session = _blocking(sc.SessionMethods.load_session)
    load_messages = _blocking(sc.SessionMethods.load_messages)
    search_messages = _blocking(sc.SessionMethods.search_messages)
    rename_session = _blocking(sc.SessionMethods.rename_session)
    archive_session = _blocking(sc.SessionMethods.archive_session)
    restore_session = _blocking(sc.SessionMethods.restore_session)
    delete_session = _blocking(sc.SessionMethods.delete_session)
    fork_session = _blocking(sc.SessionMethods.fork_session)
    send_user_message = _blocking(sc.SessionMethods.send_user_message)
    start_turn_if_idle = _blocking(sc.SessionMethods.start_turn_if_idle)
    run_shell_line = _blocking(sc.SessionMethods.run_shell_line)
    edit_message = _blocking(sc.SessionMethods.edit_message)
    switch_branch = _blocking(sc.SessionMethods.switch_branch)
    resume_session = _blocking(sc.SessionMethods.resume_session)
    dismiss_outcome = _blocking(sc.SessionMethods.dismiss_outcome)
    wait_for_turn = _blocking(sc.SessionMethods.wait_for_turn)
    clear_context = _blocking(sc.SessionMethods.clear_context)
    compact_context = _blocking(sc.SessionMethods.compact_context)
    restore_to_message = _blocking(sc.SessionMethods.restore_to_message)
    take_back_undo = _blocking(sc.SessionMethods.take_back_undo)
    list_queue = _blocking(sc.SessionMethods.list_queue)
    edit_queue_item = _blocking(sc.SessionMethods.edit_queue_item)
    reorder_queue = _blocking(sc.SessionMethods.reorder_queue)
    remove_queue_item = _blocking(sc.SessionMethods.remove_queue_item)
    take_queue = _blocking(sc.SessionMethods.take_queue)
    switch_model = _blocking(sc.SessionMethods.switch_model)
    change_permission_tier = _blocking(sc.SessionMethods.change_permission_tier)
    change_sandbox_policy = _blocking(sc.SessionMethods.change_sandbox_policy)
    change_working_directory = _blocking(sc.SessionMethods.change_working_directory)
    change_turn_limits = _blocking(sc.SessionMethods.change_turn_limits)
    open_dialog = _blocking(sc.SessionMethods.open_dialog)
    answer_dialog = _blocking(sc.SessionMethods.answer_dialog)
    answer_approval = _blocking(sc.SessionMethods.answer_approval)
    schedule_wakeup = _blocking(sc.SessionMethods.schedule_wakeup)
    cancel_wakeup = _blocking(sc.SessionMethods.cancel_wakeup)
    request_stop = _blocking(sc.SessionMethods.request_stop)
    list_extensions = _blocking(sc.SessionMethods.list_extensions)
    list_commands = _blocking(sc.SessionMethods.list_commands)
    run_command = _blocking(sc.SessionMethods.run_command)
    complete_command = _blocking(sc.SessionMethods.complete_command)
    reload_extension = _blocking(sc.SessionMethods.reload_extension)
    enable_extension = _blocking(sc.SessionMethods.enable_extension)
    disable_extension = _blocking(sc.SessionMethods.disable_extension)
    press_widget_key = _blocking(sc.SessionMethods.press_widget_key)
    post_message = _blocking(sc.SessionMethods.post_message)
    append_entry = _blocking(sc.SessionMethods.append_entry)
    show_display = _blocking(sc.SessionMethods.show_display)
    show_notice = _blocking(sc.SessionMethods.show_notice)
    login_to_provider = _blocking(sc.SessionMethods.login_to_provider)
    list_protocols = _blocking(sc.SessionMethods.list_protocols)
    append_messages = _blocking(sc.SessionMethods.append_messages)
    apply_extension = _blocking(sc.SessionMethods.apply_extension)
