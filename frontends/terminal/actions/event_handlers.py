"""Handlers of keys, clicks and commands: each calls `service_actions`, a screen or a widget. A part of the app."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import attrs
from textual import events, on
from textual.app import App
from textual.binding import Binding
from textual.widget import Widget

import session_core as sc
from frontends.terminal.actions import slash_commands
from frontends.terminal.actions.stop_and_quit import LeavingActions
from frontends.terminal.composer.completion import ParsedInput
from frontends.terminal.composer.drafts import PromptSubmission
from frontends.terminal.composer.keys import TABLE
from frontends.terminal.options import EditTarget
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.plan import PlanPanel
from frontends.terminal.panels.shortcut_keys import usable_shortcuts
from frontends.terminal.panels.sidebar import Sidebar
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.view import Transcript

SIDEBAR_NEEDS: Final = 100
"""The least number of columns at which the session list opens automatically."""


def bound_keys(app: App[None]) -> list[str]:
    """Return the keys that are already bound, in the app and in the composer."""
    bindings = (each for kind in type(app).__mro__ for each in vars(kind).get("BINDINGS", ()))
    ours = [each.key if isinstance(each, Binding) else each[0] for each in bindings]
    return [*ours, *(key for row in TABLE for key in row.keys.split())]


class TerminalHandlers(LeavingActions):
    """The handlers of the app; `service_actions`, `terminal_state` and the widgets belong to the app."""

    # --- the composer -------------------------------------------------------------------------------------------------

    def submit(self, entered: ParsedInput, submission: PromptSubmission) -> None:
        """Do what was typed; one that needs the service also reaches one that has to be started again first."""
        if entered.kind == "command":
            with self.reporting_errors():
                self._run_slash_command(entered.text, entered.arguments, submission)
            return
        self.action_reconnect()
        if not submission.text and not submission.attached:
            return
        if self.service_actions.target.is_same(submission.target):
            self.transcript.action_newest()
        if entered.kind == "message":
            work = self.service_actions.send_submission(submission)
        else:  # a shell line, which a service that has to be started again first does not run later
            work = self.service_actions.run_line(entered.text, submission.target)
        self.run_in_background(work, unsent=submission)

    def _run_slash_command(self, name: str, arguments: str, submission: PromptSubmission) -> None:
        """Run the command typed after `/`: our own commands first, then those of extensions."""
        command = slash_commands.find_command(name, self.service_actions.commands)
        if command is not None and (refused := slash_commands.check_arguments(command, arguments)) is not None:
            self.tell(refused, "warning")
            self.restore_unsent(submission)
        elif command is not None:
            getattr(self, f"action_{command.action}")(*command.arguments_of(arguments))
        elif slash_commands.is_extension_command(name, self.service_actions.commands):
            wish = self.service_actions.run_command(name, arguments, submission.target)
            self.run_in_background(wish, unsent=submission)
        else:
            self.tell(slash_commands.describe_unknown(name, self.service_actions.commands), "warning")
            self.restore_unsent(submission)

    # --- requests, queue, extensions ----------------------------------------------------------------------------------

    @on(RequestPanel.ApprovalDecided)
    def decide_approval(self, event: RequestPanel.ApprovalDecided) -> None:
        """Answer an approval."""
        answering = self.service_actions.approve(event, self.service_actions.drawn_session())
        self.run_in_background(self._answer(event.approval.request_id, answering))

    @on(RequestPanel.DialogValueGiven)
    def answer_dialog(self, event: RequestPanel.DialogValueGiven) -> None:
        """Answer a dialog of an extension."""
        answering = self.service_actions.answer(event, self.service_actions.drawn_session())
        self.run_in_background(self._answer(event.dialog.request_id, answering))

    async def _answer(self, request_id: sc.RequestId, answering: Awaitable[object]) -> None:
        """Send an answer, and ask again if that fails."""
        if not self.request_panel.has_question:
            self.composer.focus()
        try:
            await answering
        except sc.SessionCoreError:
            self.request_panel.reopen(request_id)
            raise

    @on(RequestPanel.RequestPostponed)
    def postpone_request(self) -> None:
        """Leave the question open and go back to the composer."""
        if self.is_fully_mounted:
            self.composer.focus()

    @on(QueuePanel.QueueEditRequested)
    def edit_queued(self, event: QueuePanel.QueueEditRequested) -> None:
        """Edit a queued message."""
        state, item = self.service_actions.state, event.item
        if state is None or all(each.item_id != item.item_id for each in state.queue):
            raise sc.NotFound("this message is no longer in the queue of the viewed session", field="item_id")
        files = tuple(part.name for part in item.parts if isinstance(part, sc.FilePart))
        parts = (part for part in item.parts if not isinstance(part, sc.FilePart))
        self.composer.edit_message(EditTarget(item_id=item.item_id, files=files), parts)
        self.composer.focus()
        self.redraw()

    @on(QueuePanel.QueueRemoveRequested)
    def remove_queued(self, event: QueuePanel.QueueRemoveRequested) -> None:
        """Remove a queued message."""
        self.run_in_background(
            self.service_actions.client.remove_queue_item(self.service_actions.drawn_session(), event.item.item_id)
        )

    @on(QueuePanel.QueueMoveRequested)
    def move_queued(self, event: QueuePanel.QueueMoveRequested) -> None:
        """Reorder the queue."""
        self.run_in_background(self._reorder(self.service_actions.drawn_session(), event.item_ids))

    async def _reorder(self, session_id: sc.SessionId, item_ids: tuple[sc.QueueItemId, ...]) -> None:
        try:
            await self.service_actions.client.reorder_queue(session_id, item_ids)
        except sc.SessionCoreError:
            self.screen_stack[0].query_one(QueuePanel).restore_order()
            raise

    @on(QueuePanel.QueueSendRequested)
    def send_queued(self, event: QueuePanel.QueueSendRequested) -> None:
        """Steer the running turn with a queued message."""
        self.run_in_background(
            self.service_actions.send_now(
                event.item, self.service_actions.target_of(self.service_actions.drawn_session())
            )
        )

    @on(WidgetPanel.WidgetKeyPressed)
    def send_widget_key(self, event: WidgetPanel.WidgetKeyPressed) -> None:
        """Send a key to an extension."""
        session_id = self.service_actions.drawn_session()
        self.run_in_background(
            self.service_actions.client.press_widget_key(session_id, event.extension, event.widget_id, event.key)
        )

    @on(QueuePanel.QueueEmptied)
    @on(WidgetPanel.WidgetsEmptied)
    def leave_empty_panel(self) -> None:
        """Go back to the composer, as the panel has nothing left to show."""
        if self.is_fully_mounted:  # otherwise the terminal is closing
            self.composer.focus()

    def on_key(self, event: events.Key) -> None:
        """Run the extension command bound to a key that nothing else handled."""
        extensions = [each for each in self.service_actions.extensions if each.shortcuts]
        if not extensions or self.screen is not self.screen_stack[0]:
            return
        bound = usable_shortcuts(extensions, bound_keys(self)).get(event.key)
        if bound is not None:
            event.stop()
            extension, command = bound
            self.run_in_background(
                self.service_actions.run_command(f"{extension}.{command}", "", self.service_actions.target)
            )

    # --- the conversation ---------------------------------------------------------------------------------------------

    @on(Transcript.OlderWanted)
    def load_older(self) -> None:
        """Load older messages."""
        if self.terminal_state.viewed is not None:
            self.run_in_background(self.terminal_state.load_older(self.terminal_state.viewed))

    @on(Transcript.EditWanted)
    def edit_chosen_message(self, event: Transcript.EditWanted) -> None:
        """Edit a message."""
        self.edit_message(self.service_actions.message(event.block.message_id))

    @on(Transcript.BranchWanted)
    def switch_to_other_branch(self, event: Transcript.BranchWanted) -> None:
        """Switch to another branch at this message."""
        other = self.service_actions.other_branch(event.block.message_id)
        self.run_in_background(self.service_actions.client.switch_branch(self.service_actions.viewed_session(), other))

    @on(Transcript.CopyWanted)
    def copy_chosen_text(self, event: Transcript.CopyWanted) -> None:
        """Copy a text to the clipboard."""
        self.copy(event.text)

    @on(Transcript.OpenWanted)
    def open_subagent(self, event: Transcript.OpenWanted) -> None:
        """View the session of a subagent."""
        self.view(event.session_id)
        self.composer.focus()

    # --- the list of sessions -----------------------------------------------------------------------------------------

    @on(Sidebar.SessionChosen)
    def view_chosen_session(self, event: Sidebar.SessionChosen) -> None:
        """View a session; where room is short, the list closes."""
        self.view(event.session_id)
        if self.size.width < SIDEBAR_NEEDS:
            self.screen_stack[0].query_one(Sidebar).remove_class("open")
        self.composer.focus()

    @on(Sidebar.StopWanted)
    def stop_chosen_session(self, event: Sidebar.StopWanted) -> None:
        """Stop a session, which need not be the viewed one."""
        self.run_in_background(self.service_actions.stop(event.session_id, event.scope))

    @on(Sidebar.RenameWanted)
    def rename_chosen_session(self, event: Sidebar.RenameWanted) -> None:
        """Rename a session."""
        self.ask_name(event.session_id)

    @on(Sidebar.ArchiveWanted)
    def archive_chosen_session(self, event: Sidebar.ArchiveWanted) -> None:
        """Archive a session."""
        self.archive(event.session_id)

    @on(Sidebar.DeleteWanted)
    def delete_chosen_session(self, event: Sidebar.DeleteWanted) -> None:
        """Delete a session after a confirmation."""
        self.ask_delete(event.session_id)

    @on(Sidebar.NewWanted)
    def begin_new_session(self) -> None:
        """Begin a new session."""
        self.action_new()

    # --- keys ---------------------------------------------------------------------------------------------------------

    def action_sidebar(self) -> None:
        """Show the session list and focus it, or hide it."""
        side = self.screen_stack[0].query_one(Sidebar)
        if side.has_class("open") and side.has_focus_within:
            side.remove_class("open")
            self.composer.focus()
        else:
            side.add_class("open")
            side.focus_list()
        if self.size.width >= SIDEBAR_NEEDS:
            self.remember(attrs.evolve(self.preferences, sidebar=side.has_class("open")))

    def action_focus_transcript(self) -> None:
        """Focus the conversation, to choose a block."""
        if self._can_go_to(self.transcript, "there is no conversation yet"):
            self.screen.set_focus(self.transcript)
            self.transcript.action_choose(0)

    def action_focus_queue(self) -> None:
        """Focus the queue."""
        panel = self.screen_stack[0].query_one(QueuePanel)
        if self._can_go_to(panel, "the queue is empty"):
            self.screen.set_focus(panel)

    def action_focus_widgets(self) -> None:
        """Focus the widgets of extensions, which then receive keys."""
        panel = self.screen_stack[0].query_one(WidgetPanel)
        if self._can_go_to(panel, "no extension shows anything here"):
            self.screen.set_focus(panel)

    def _can_go_to(self, place: Widget, message_if_hidden: str) -> bool:
        """Return whether a widget is visible; keys sent to a hidden one would be lost."""
        if not place.display:
            self.tell(message_if_hidden)
        return place.display

    def action_toggle_plan(self) -> None:
        """Toggle between the whole plan and its current step."""
        self.screen_stack[0].query_one(PlanPanel).toggle()

    def action_focus_request(self) -> None:
        """Focus the open question."""
        self.request_panel.focus_question()

    def action_new(self) -> None:
        """Begin a new session with the next message."""
        self.view(None)
        self.composer.focus()

    def action_switch(self, step: int) -> None:
        """View the next or previous session of the list."""
        order = self.screen_stack[0].query_one(Sidebar).order
        viewed = self.service_actions.session_id
        if order:
            index = order.index(viewed) + step if viewed is not None and viewed in order else 0
            self.view(order[index % len(order)])

    def action_switch_to(self, number: int) -> None:
        """View a session by its position in the list."""
        order = self.screen_stack[0].query_one(Sidebar).order
        if number <= len(order):
            self.view(order[number - 1])

    def action_expand(self) -> None:
        """Expand or collapse all blocks."""
        self.transcript.expand_all(expanded=not self.transcript.expanded)

    def action_page(self, step: int) -> None:
        """Scroll the conversation."""
        if step < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)

    def action_oldest(self) -> None:
        """Scroll to the beginning of the conversation."""
        self.transcript.action_oldest()

    def action_newest(self) -> None:
        """Scroll to the end of the conversation."""
        self.transcript.action_newest()
