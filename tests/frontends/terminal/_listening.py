"""A client between the terminal and its service that tells what it was asked, and fails where a test wants it to."""

from collections.abc import Awaitable, Callable
from typing import Any

from frontends.client import SessionClient
from tests.frontends.terminal._harness import Terminal


class Listening:
    """Passes everything on, except what has an answer of its own here.

    Attributes:
        asked: The name and the first argument of each call, in their order.
        answers: What to do instead, by the names of the methods.
    """

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[..., Awaitable[object]]] = {}

    def __getattr__(self, name: str) -> Any:
        meant = self.answers.get(name) or getattr(self._client, name)
        if not callable(meant):
            return meant

        def called(*arguments: Any, **more: Any) -> object:
            self.asked.append((name, arguments[0] if arguments else None))
            return meant(*arguments, **more)

        return called

    def asked_of(self, name: str) -> list[Any]:
        """Whom this was asked about, in order."""
        return [about for each, about in self.asked if each == name]


def listen(terminal: Terminal) -> Listening:
    """Stand between a terminal and its service."""
    client = terminal.app.feeds.client
    assert client is not None
    listening = Listening(client)
    terminal.app.feeds.client = listening  # type: ignore[assignment]
    return listening
