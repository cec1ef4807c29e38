"""Who may act: tokens that are minted for each dispatch to an extension, and expire with it.

What an extension claims about a token is ignored. The table knows its owner, session and tier, and drops it when the
dispatch is over or the process has been replaced.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, Self

import trio

from session_core.ids import SessionId, TurnId
from session_core.rpc.failures import RpcFailed
from session_core.sep.protocol.names import CONTEXT_VIOLATION, Tier
from session_core.tools.base import current_turn_id

_KEPT_ACTIONS = 1_024
_KEPT_EVENTS = 1_024  # per process: tokens of events never expire on their own, so the oldest are dropped

_TOKEN_BYTES = 18  # random; a multiple of three, so tokens can be cut from one long string
_TOKEN_CHARS = _TOKEN_BYTES * 4 // 3
_TOKENS_AT_ONCE = 64  # asking the system for randomness costs as much for many tokens as for one


class HostContext:
    """The context of a message to an extension, and its wire form. Lean, because each request makes one."""

    __slots__ = ("extension", "generation", "session_id", "token", "turn_id")
    tier: ClassVar[Tier] = "event"

    def __init__(self, token: str, extension: str, generation: int, session_id: SessionId | None) -> None:
        self.token = token
        self.extension = extension
        self.generation = generation
        self.session_id = session_id
        self.turn_id: TurnId | None = None

    def is_of(self, extension: str, generation: int, session_id: SessionId) -> bool:
        """Return whether it was given to this process, for this session."""
        return (self.extension, self.generation, self.session_id) == (extension, generation, session_id)

    @property
    def wire(self) -> dict[str, str]:
        """The `context` of a request or an event; it names the session too, though only the token decides."""
        if self.session_id is None:
            return {"token": self.token, "tier": self.tier}
        return {"token": self.token, "tier": self.tier, "session_id": self.session_id}


class Dispatch(HostContext):
    """A context whose token lets the extension act, for the length of a block."""

    __slots__ = ("_among",)
    tier = "command"

    def __init__(
        self, token: str, extension: str, generation: int, session_id: SessionId | None, among: "Contexts"
    ) -> None:
        # Not through the base class: that costs half as much again, and each request makes one of these.
        self.token = token
        self.extension = extension
        self.generation = generation
        self.session_id = session_id
        self.turn_id = current_turn_id.get()
        self._among = among

    def __enter__(self) -> Self:
        self._among.open_dispatches[self.token] = self
        return self

    def __exit__(self, *_: object) -> None:
        among = self._among
        among.open_dispatches.pop(self.token, None)
        if among.done_actions:
            among.done_actions.pop(self.token, None)
        if among.questions:
            among.end_questions(self.token)


class Contexts:
    """All tokens of a host.

    Attributes:
        open_dispatches: The tokens of open dispatches.
        done_actions: The actions carried out within those.
        questions: What people are being asked, with the tokens of the open dispatches that may wait for the answer.
    """

    def __init__(self) -> None:
        self.open_dispatches: dict[str, Dispatch] = {}
        self.done_actions: dict[str, set[bytes]] = {}
        self.questions: dict[trio.CancelScope, set[str]] = {}
        self._events: dict[tuple[str, int], dict[str, HostContext]] = {}
        self._tokens: list[str] = []  # not given to anyone yet

    def dispatch(self, extension: str, generation: int, session_id: SessionId | None) -> Dispatch:
        """Let an extension act in a session for the length of the block."""
        token = self._tokens.pop() if self._tokens else self._new_token()
        return Dispatch(token, extension, generation, session_id, self)

    def for_event(self, extension: str, generation: int, session_id: SessionId | None) -> HostContext:
        """Mint a token for an event, which permits only requests that need no session action."""
        context = HostContext(self._new_token(), extension, generation, session_id)
        events = self._events.setdefault((extension, generation), {})
        events[context.token] = context
        if len(events) > _KEPT_EVENTS:
            del events[next(iter(events))]
        return context

    def _new_token(self) -> str:
        if not self._tokens:
            self._tokens = _random_tokens(_TOKENS_AT_ONCE)
        return self._tokens.pop()

    def find(self, extension: str, generation: int, claimed: object) -> HostContext | None:
        """Return the context of a token if it was given to this very process and is still valid."""
        token = claimed.get("token") if isinstance(claimed, dict) else None
        if not isinstance(token, str):
            return None
        context = self.open_dispatches.get(token) or self._events.get((extension, generation), {}).get(token)
        if context is None or context.extension != extension or context.generation != generation:
            return None
        return context

    def require_dispatch(self, extension: str, generation: int, claimed: object) -> HostContext:
        """Return the open dispatch in which an extension may act.

        Raises:
            RpcFailed: It has none, or the token belongs to an event, another process, or a dispatch that is over.
        """
        context = self.find(extension, generation, claimed)
        if context is None:
            raise RpcFailed(CONTEXT_VIOLATION, "stale or unknown context: the dispatch it belonged to is over")
        if context.tier != "command":
            raise RpcFailed(CONTEXT_VIOLATION, "this requires a command-tier context, and events have none")
        return context

    def is_done(self, token: str, action: bytes) -> bool:
        """Return whether an action was already carried out within a dispatch; if it comes again, it is a retry."""
        return action in self.done_actions.get(token, ())

    def note_done(self, token: str, action: bytes) -> None:
        """Remember an action for the length of its dispatch; of very many, only the first ones."""
        if token in self.open_dispatches:
            done = self.done_actions.setdefault(token, set())
            if len(done) < _KEPT_ACTIONS:
                done.add(action)

    @contextmanager
    def asking(
        self, extension: str, generation: int, session_id: SessionId, claimed: object
    ) -> Generator[trio.CancelScope]:
        """Cancel the block when the dispatch that asks a question is over, or if it is over already.

        Without a context, that is when all dispatches are over in which it may have been asked; if there is none, it
        was asked because of an event, and nothing cancels the block.
        """
        context = self.find(extension, generation, claimed)
        tokens = {
            token
            for token, each in self.open_dispatches.items()
            if (each is context if claimed is not None else each.is_of(extension, generation, session_id))
        }
        with trio.CancelScope() as scope:
            if tokens:
                self.questions[scope] = tokens
            elif claimed is not None and context is None:
                scope.cancel(reason="the dispatch that asks is over")
            try:
                yield scope
            finally:
                self.questions.pop(scope, None)

    def end_questions(self, token: str) -> None:
        """Cancel what people are asked for nobody but a dispatch that is over."""
        for scope, tokens in self.questions.items():
            tokens.discard(token)
            if not tokens:
                scope.cancel(reason="the dispatch that asks is over")

    def sessions_of(self, extension: str, generation: int) -> tuple[SessionId, ...]:
        """Return the sessions that a process may mean when it does not name one, the likeliest first.

        These are the sessions of its open dispatches, the newest first, or else that of the newest event sent to it.
        """
        for contexts, most in (
            (tuple[HostContext, ...](self.open_dispatches.values()), None),
            (tuple(self._events.get((extension, generation), {}).values()), 1),
        ):
            found = dict.fromkeys(
                context.session_id
                for context in reversed(contexts)
                if (context.extension, context.generation) == (extension, generation) and context.session_id is not None
            )
            if found:
                return tuple(found)[:most]
        return ()

    def turn_of(self, extension: str, generation: int, session_id: SessionId, claimed: object) -> TurnId | None:
        """Return the turn that waits for what a process is doing; None if it may be busy with something else."""
        context = self.find(extension, generation, claimed)
        if context is not None:
            return context.turn_id
        busy = {each.turn_id for each in self.open_dispatches.values() if each.is_of(extension, generation, session_id)}
        return busy.pop() if len(busy) == 1 else None

    def forget_before(self, extension: str, generation: int) -> None:
        """Drop all tokens of processes before this one."""
        for token in [
            t for t, c in self.open_dispatches.items() if c.extension == extension and c.generation < generation
        ]:
            del self.open_dispatches[token]
            self.end_questions(token)
        for name, older in [key for key in self._events if key[0] == extension and key[1] < generation]:
            del self._events[name, older]


def _random_tokens(count: int) -> list[str]:
    chance = urlsafe_b64encode(secrets.token_bytes(count * _TOKEN_BYTES)).decode()
    return [chance[start : start + _TOKEN_CHARS] for start in range(0, len(chance), _TOKEN_CHARS)]
