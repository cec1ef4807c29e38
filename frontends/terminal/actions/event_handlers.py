"""What keys, clicks and typed commands mean: each is handed to `doing`, a screen or a widget. A part of the app."""

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
from frontends.terminal.composer.composer import Composer
from frontends.terminal.composer.keys import TABLE
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.plan import PlanPanel
from frontends.terminal.panels.shortcut_keys import usable_shortcuts
from frontends.terminal.panels.sidebar import Sidebar
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.view import Transcript

SIDEBAR_NEEDS: Final = 100
"""Columns from which on the list of sessions is shown by itself."""


def bound_keys(app: App[None]) -> list[str]:
    """The keys that mean something already, in the app and where people type."""
    bindings = (each for kind in type(app).__mro__ for each in vars(kind).get("BINDINGS", ()))
    ours = [each.key if isinstance(each, Binding) else each[0] for each in bindings]
    return [*ours, *(key for row in TABLE for key in row.keys.split())]


class TerminalHandlers(LeavingActions):
    """The handlers of the app; `doing`, `desk` and the widgets are the app's."""

    # --- the composer -------------------------------------------------------------------------------------------------

    @on(Composer.MessageSubmitted)
    def send_submitted(self, event: Composer.MessageSubmitted) -> None:
        """Send what was typed, also to a service that has to be started again first."""
        self.action_reconnect()
        self._show_newest(event.submission.target)
        self.run_in_background(self.service_actions.send_submission(event.submission), unsent=event.submission)

    @on(Composer.EmptySubmitted)
    def retry_connection(self) -> None:
        """Try to connect again, if that has failed."""
        self.action_reconnect()

    @on(Composer.MessageHeld)
    def show_held(self, event: Composer.MessageHeld) -> None:
        """Show what would go along before it goes."""
        self.restore_unsent(event.submission)
        self.tell(event.why, "warning", seconds=12)

    @on(Composer.ShellLineSubmitted)
    def run_shell_line(self, event: Composer.ShellLineSubmitted) -> None:
        """Run what was typed after `!`."""
        self._show_newest(event.submission.target)
        self.run_in_background(
            self.service_actions.run_line(event.line, event.submission.target), unsent=event.submission
        )

    def _show_newest(self, target: MessageTarget) -> None:
        if self.service_actions.target.is_same(target):
            self.transcript.action_newest()

    @on(Composer.SlashSubmitted)
    async def run_slash_command(self, event: Composer.SlashSubmitted) -> None:
        """Do what was typed after `/`: our own commands first, then those of extensions."""
        command = slash_commands.find_command(event.name, self.service_actions.commands)
        if command is not None and (refused := slash_commands.check_arguments(command, event.arguments)) is not None:
            self.tell(refused, "warning")
            self.restore_unsent(event.submission)
        elif command is not None:
            await self.run_action(command.action_for(event.arguments), self)
        elif slash_commands.is_extension_command(event.name, self.service_actions.commands):
            wish = self.service_actions.run_command(event.name, event.arguments, event.submission.target)
            self.run_in_background(wish, unsent=event.submission)
        else:
            self.tell(slash_commands.describe_unknown(event.name, self.service_actions.commands), "warning")
            self.restore_unsent(event.submission)

    # --- requests, queue, extensions ----------------------------------------------------------------------------------

    @on(RequestPanel.ApprovalDecided)
    def decide_approval(self, event: RequestPanel.ApprovalDecided) -> None:
        """Answer a question about a tool."""
        answering = self.service_actions.approve(event, self.service_actions.drawn_session())
        self.run_in_background(self._answer(event.approval.request_id, answering))

    @on(RequestPanel.DialogValueGiven)
    def answer_dialog(self, event: RequestPanel.DialogValueGiven) -> None:
        """Answer a question of an extension."""
        answering = self.service_actions.answer(event, self.service_actions.drawn_session())
        self.run_in_background(self._answer(event.dialog.request_id, answering))

    async def _answer(self, request_id: sc.RequestId, answering: Awaitable[object]) -> None:
        """Give an answer, and ask again if it could not be given."""
        if not self.request_panel.has_question:
            self.composer.focus()
        try:
            await answering
        except sc.SessionCoreError:
            self.request_panel.reopen(request_id)
            raise

    @on(RequestPanel.RequestPostponed)
    def postpone_request(self) -> None:
        """Leave a question open."""
        if self.is_fully_mounted:
            self.composer.focus()

    @on(QueuePanel.QueueEditRequested)
    def edit_queued(self, event: QueuePanel.QueueEditRequested) -> None:
        """Rewrite a message that waits."""
        state, item = self.service_actions.state, event.item
        if state is None or all(each.item_id != item.item_id for each in state.queue):
            raise sc.NotFound("this message waits no more in the session that is viewed", field="item_id")
        files = tuple(part.name for part in item.parts if isinstance(part, sc.FilePart))
        parts = (part for part in item.parts if not isinstance(part, sc.FilePart))
        self.composer.edit_message(EditTarget(item_id=item.item_id, files=files), parts)
        self.composer.focus()
        self.redraw()

    @on(QueuePanel.QueueRemoveRequested)
    def remove_queued(self, event: QueuePanel.QueueRemoveRequested) -> None:
        """Throw a message away that waits."""
        self.run_in_background(
            self.service_actions.client.remove_queue_item(self.service_actions.drawn_session(), event.item.item_id)
        )

    @on(QueuePanel.QueueMoveRequested)
    def move_queued(self, event: QueuePanel.QueueMoveRequested) -> None:
        """Put the messages that wait into another order."""
        self.run_in_background(self._reorder(self.service_actions.drawn_session(), event.item_ids))

    async def _reorder(self, session_id: sc.SessionId, item_ids: tuple[sc.QueueItemId, ...]) -> None:
        try:
            await self.service_actions.client.reorder_queue(session_id, item_ids)
        except sc.SessionCoreError:
            self.screen_stack[0].query_one(QueuePanel).restore_order()
            raise

    @on(QueuePanel.QueueSendRequested)
    def send_queued(self, event: QueuePanel.QueueSendRequested) -> None:
        """Have the agent read a message that waits within its turn."""
        self.run_in_background(
            self.service_actions.send_now(
                event.item, self.service_actions.target_of(self.service_actions.drawn_session())
            )
        )

    @on(WidgetPanel.WidgetKeyPressed)
    def send_widget_key(self, event: WidgetPanel.WidgetKeyPressed) -> None:
        """Tell an extension of a key."""
        session_id = self.service_actions.drawn_session()
        self.run_in_background(
            self.service_actions.client.press_widget_key(session_id, event.extension, event.widget_id, event.key)
        )

    @on(QueuePanel.QueueEmptied)
    @on(WidgetPanel.WidgetsEmptied)
    def leave_empty_panel(self) -> None:
        """Go back to the composer, as there is nothing to look at any more."""
        if self.is_fully_mounted:  # else the terminal is being closed
            self.composer.focus()

    def on_key(self, event: events.Key) -> None:
        """Have an extension do what it has bound to a key that nobody else wanted."""
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
    def older_wanted(self) -> None:
        """Have older messages."""
        if self.terminal_state.viewed is not None:
            self.run_in_background(self.terminal_state.load_older(self.terminal_state.viewed))

    @on(Transcript.EditWanted)
    def edit_wanted(self, event: Transcript.EditWanted) -> None:
        """Say something differently."""
        self.edit_message(self.service_actions.message(event.block.message_id))

    @on(Transcript.BranchWanted)
    def branch_wanted(self, event: Transcript.BranchWanted) -> None:
        """Show what else was said here."""
        other = self.service_actions.other_branch(event.block.message_id)
        self.run_in_background(self.service_actions.client.switch_branch(self.service_actions.viewed_session(), other))

    @on(Transcript.CopyWanted)
    def copy_wanted(self, event: Transcript.CopyWanted) -> None:
        """Give the terminal a text to keep."""
        self.copy(event.text)

    @on(Transcript.OpenWanted)
    def open_wanted(self, event: Transcript.OpenWanted) -> None:
        """View the session of a helper."""
        self.view(event.session_id)
        self.composer.focus()

    # --- the list of sessions -----------------------------------------------------------------------------------------

    @on(Sidebar.SessionChosen)
    def session_chosen(self, event: Sidebar.SessionChosen) -> None:
        """View a session; where there is little room, the list makes way for it."""
        self.view(event.session_id)
        if self.size.width < SIDEBAR_NEEDS:
            self.screen_stack[0].query_one(Sidebar).remove_class("open")
        self.composer.focus()

    @on(Sidebar.StopWanted)
    def stop_wanted(self, event: Sidebar.StopWanted) -> None:
        """Stop a session that is perhaps not the viewed one."""
        self.run_in_background(self.service_actions.stop(event.session_id, event.scope))

    @on(Sidebar.RenameWanted)
    def rename_wanted(self, event: Sidebar.RenameWanted) -> None:
        """Give a session another name."""
        self.ask_name(event.session_id)

    @on(Sidebar.ArchiveWanted)
    def archive_wanted(self, event: Sidebar.ArchiveWanted) -> None:
        """Put a session away."""
        self.archive(event.session_id)

    @on(Sidebar.DeleteWanted)
    def delete_wanted(self, event: Sidebar.DeleteWanted) -> None:
        """Remove a session, if that is really wanted."""
        self.ask_delete(event.session_id)

    @on(Sidebar.NewWanted)
    def new_wanted(self) -> None:
        """Begin another session."""
        self.action_new()

    # --- keys ---------------------------------------------------------------------------------------------------------

    def action_sidebar(self) -> None:
        """Show the list of sessions and go there; or hide it."""
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
        """Go to the conversation, to choose from it."""
        if self._can_go_to(self.transcript, "there is no conversation yet"):
            self.screen.set_focus(self.transcript)
            self.transcript.action_choose(0)

    def action_focus_queue(self) -> None:
        """Go to the messages that wait."""
        panel = self.screen_stack[0].query_one(QueuePanel)
        if self._can_go_to(panel, "no message waits"):
            self.screen.set_focus(panel)

    def action_focus_widgets(self) -> None:
        """Go to what extensions show, so that they hear keys."""
        panel = self.screen_stack[0].query_one(WidgetPanel)
        if self._can_go_to(panel, "no extension shows anything here"):
            self.screen.set_focus(panel)

    def _can_go_to(self, place: Widget, message_if_hidden: str) -> bool:
        """Tell whether a place can be seen; keys that go to one that cannot would be lost."""
        if not place.display:
            self.tell(message_if_hidden)
        return place.display

    def action_toggle_plan(self) -> None:
        """Show the whole plan, or where it stands."""
        self.screen_stack[0].query_one(PlanPanel).toggle()

    def action_focus_request(self) -> None:
        """Go to the question."""
        self.request_panel.focus_question()

    def action_new(self) -> None:
        """Begin another session with the next message."""
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
        """View a session by its place in the list."""
        order = self.screen_stack[0].query_one(Sidebar).order
        if number <= len(order):
            self.view(order[number - 1])

    def action_expand(self) -> None:
        """Show everything whole, or in short."""
        self.transcript.expand_all(expanded=not self.transcript.expanded)

    def action_page(self, step: int) -> None:
        """Scroll the conversation."""
        if step < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)

    def action_oldest(self) -> None:
        """Go to the beginning of the conversation."""
        self.transcript.action_oldest()

    def action_newest(self) -> None:
        """Go to the end of the conversation."""
        self.transcript.action_newest()
