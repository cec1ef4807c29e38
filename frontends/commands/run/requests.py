"""Requests to the person at the command line: approvals and dialogs, one at a time."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import trio

import session_core as sc
from frontends.commands.run import dialogs
from frontends.commands.run.approval_answers import TypedApprovalAnswer, parse_answer
from frontends.commands.run.approval_text import (
    Approve,
    find_asking_subagent,
    format_allowed_approval,
    format_denied_approval,
    format_question,
    format_unclear_answer,
    format_waiting_approval,
)
from frontends.commands.run.attached_service import Client, ServiceClient
from frontends.commands.run.own_turn import OwnTurn
from frontends.shared.conversation.view import View
from frontends.shared.streams import StandardStreams, discard_typed_input, read_answer

R = TypeVar("R", sc.Approval, sc.Dialog)


class Requests:
    """Answers the session's requests: by asking on the terminal, by `--yes`, or with a denial without asking.

    `--yes` is about tools; it never answers a dialog of an extension, and denies what would run without a sandbox.
    `denied` means that a tool was denied without asking, and `refused` are the calls that the person at the terminal
    denied.

    Requests of a service that continues without us are open to other clients too:
    1. When the terminal is closed, the question stays open and the nursery is cancelled (`deserted`).
    2. A question to one other client is left to that client.
    3. Without a terminal to ask on, only requests of our own turn (`own`) are answered. Those from before our message
       has its turn, and those of other turns, commands and clients, are left to others, even with `--yes`.
    4. A follower has no turn of its own: `--yes` then applies to what it follows. `--approve` does too if given, but
       not to requests that were already open.
    """

    def __init__(
        self,
        service: Client,
        streams: StandardStreams,
        view: View,
        nursery: trio.Nursery,
        flush: Callable[[], Awaitable[None]],
        *,
        own: OwnTurn,
        yes: bool,
        approve: Approve = "ask",
    ) -> None:
        self._service = service
        self._style = streams.err.style
        self._keyboard = streams.keyboard if approve == "ask" else None
        self._approve: Approve = approve
        self._stays_open = isinstance(service, ServiceClient)
        self._client_id = None if isinstance(service, sc.SessionService) else service.client_id
        self._own = own
        self._found: frozenset[sc.RequestId] = frozenset()
        self.denied = False
        self.deserted = False
        self.refused: set[sc.CallId] = set()
        self._view = view
        self._nursery = nursery
        self._flush = flush
        self._yes = yes
        self._asking = trio.Lock()
        self._handled: set[sc.RequestId] = set()
        self._questions: dict[sc.RequestId, trio.CancelScope] = {}

    def record_open_requests(self, snapshot: sc.SessionSnapshot) -> None:
        """Record the requests that were open before us."""
        approvals, dialogs = snapshot.approvals, snapshot.dialogs
        self._found = frozenset({*(each.request_id for each in approvals), *(each.request_id for each in dialogs)})

    async def answer_new_requests(self, state: sc.SessionState) -> None:
        """Handle new requests, and withdraw questions that are settled."""
        self._withdraw(state)
        for dialog in self._take_new(state.dialogs):
            if dialog.to not in {None, self._client_id}:
                self._view.line(dialogs.format_asked_elsewhere(self._style, dialog))
            elif self._keyboard is None and not self._is_ours(dialog, here=self._own.owns_dialog(dialog, state.turn)):
                self._view.line(dialogs.format_waiting_dialog(self._style, dialog))
            elif self._keyboard is None:
                self._view.line(dialogs.format_dismissed_dialog(self._style, dialog))
                await self._service.answer_dialog(state.session_id, dialog.request_id)
            else:
                self._nursery.start_soon(self._ask_for_extension, state.session_id, dialog, self._keyboard)
        for approval in self._take_new(state.approvals):
            is_ours = self._is_ours(approval, here=self._own.owns_turn(state.turn))
            by_yes = self._yes and (is_ours or self._own.only_follows)
            if by_yes and "unconfined" not in approval.rights:
                self._view.line(format_allowed_approval(self._style, approval))
                await self._reply(state.session_id, approval, TypedApprovalAnswer(decision="allow_once"))
            elif self._keyboard is None and not is_ours and not by_yes:
                self._view.line(format_waiting_approval(self._style, approval))
            elif self._keyboard is None or by_yes:
                self.denied = True
                self._view.line(format_denied_approval(self._style, approval, self._approve))
                await self._reply(state.session_id, approval, TypedApprovalAnswer(decision="deny"))
            else:
                self._nursery.start_soon(self._ask, state, approval, self._keyboard)

    def _take_new(self, requests: Iterable[R]) -> list[R]:
        """Return the open requests that were not handled yet; from now on they are."""
        new = [each for each in requests if each.request_id not in self._handled]
        self._handled.update(each.request_id for each in new)
        return new

    def _is_ours(self, request: sc.Approval | sc.Dialog, *, here: bool) -> bool:
        """Return whether a request may be answered without asking; `here` means it is part of our work."""
        # Requests that were open before us belong to others, whatever turn they are part of.
        if request.request_id in self._found or not here:
            return False
        return self._approve != "ask" or not self._own.only_follows

    def _withdraw(self, state: sc.SessionState) -> None:
        """Withdraw questions that were answered elsewhere, timed out or stopped."""
        open_now = {each.request_id for each in state.approvals} | {each.request_id for each in state.dialogs}
        for request_id in self._questions.keys() - open_now:
            self._questions.pop(request_id).cancel(reason="the request is resolved")

    async def _ask_on_terminal(self, asked: str, keyboard: int) -> str:
        discard_typed_input(keyboard)
        self._view.question(asked)
        await self._flush()
        typed = await self._read_typed_line(keyboard)
        self._view.end_question_line()
        return typed

    async def _read_typed_line(self, keyboard: int) -> str:
        """Wait for a line; end of input or a closed terminal is no answer if others can still give one."""
        try:
            typed = await read_answer(keyboard)
        except OSError:
            if not self._stays_open:
                raise
            typed = ""
        if not typed and self._stays_open:
            self.deserted = True
            self._nursery.cancel_scope.cancel(reason="the terminal was closed")
            await trio.sleep_forever()
        return typed

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _reply(self, session_id: sc.SessionId, approval: sc.Approval, answer: TypedApprovalAnswer) -> None:
        await self._service.answer_approval(
            session_id,
            approval.request_id,
            answer.decision,
            fingerprint=approval.fingerprint,
            message=answer.message,
        )

    async def _ask(self, state: sc.SessionState, approval: sc.Approval, keyboard: int) -> None:
        with trio.CancelScope() as waiting:
            self._questions[approval.request_id] = waiting
            async with self._asking:
                subagent = find_asking_subagent(state, approval)
                asked = format_question(self._style, approval, subagent)
                parse = partial(parse_answer, cut=asked.cut, rights=approval.rights)
                answer = parse(await self._ask_on_terminal(asked.text, keyboard))
                while answer.wants_all or answer.unclear:
                    if answer.unclear:
                        again = format_unclear_answer(self._style, approval)
                    else:
                        again = format_question(self._style, approval, subagent, whole=True).text
                    answer = parse(await self._ask_on_terminal(again, keyboard))
                if answer.decision == "deny":
                    self.refused.add(approval.call_id)
                await self._reply(state.session_id, approval, answer)

    # --- extensions ---------------------------------------------------------------------------------------------------

    async def _ask_for_extension(self, session_id: sc.SessionId, dialog: sc.Dialog, keyboard: int) -> None:
        with trio.CancelScope() as waiting:
            self._questions[dialog.request_id] = waiting
            async with self._asking:
                reply = dialogs.parse_reply(
                    dialog, await self._ask_on_terminal(dialogs.dialog_question(self._style, dialog), keyboard)
                )
                while reply.unclear:
                    again = dialogs.unclear_reply(self._style, dialog)
                    reply = dialogs.parse_reply(dialog, await self._ask_on_terminal(again, keyboard))
                await self._service.answer_dialog(session_id, dialog.request_id, reply.value)
