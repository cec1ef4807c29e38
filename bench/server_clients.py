"""The clients of a measured server: bare sockets that implement only the necessary part of the contract.

A server's messages are not masked, and a client's are masked with zeros, so no measurement includes unmasking.
"""

import json
import os
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from bench.server_driver import PATIENCE_S, Program
from frontends.shared.socket_path import short_socket_name

_CHUNK = 1024 * 1024
_IS_FEED = b'"method":"feed"'
_PLACE = re.compile(rb'"cursor":\{[^}]*?"seq":(\d+)')


class Client:
    """A connection to a server.

    Attributes:
        place: How far it has read, in the unit of the measurement.
        messages: How many messages brought events.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.place = 0
        self.messages = 0
        self._kept = b""
        self._lines: deque[bytes] = deque()  # read, but not examined yet
        self._asked = 0

    def send(self, message: bytes) -> None:
        """Send one message."""
        raise NotImplementedError

    def _cut(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Cut data into whole messages and the rest."""
        raise NotImplementedError

    def read(self) -> list[bytes]:
        """Return the complete messages received so far; waits for bytes if the socket blocks.

        Raises:
            ConnectionError: The server has closed the connection.
        """
        data = self.socket.recv(_CHUNK)
        if not data:
            raise ConnectionError("the measured server closed a connection")
        found, self._kept = self._cut(self._kept + data)
        return found

    def ask(self, method: str, **params: object) -> Any:
        """Send a request and wait for its result; earlier messages are dropped."""
        self._asked += 1
        asked = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self.send(json.dumps(asked).encode())
        return self.until(lambda message: self._result(message, method))

    def _result(self, message: bytes, method: str) -> Any:
        try:
            said = json.loads(message)
        except ValueError:
            raise RuntimeError(
                f"{len(message)} bytes from the measured server are not JSON: {message[:200]!r}"
            ) from None
        if said.get("id") != self._asked:
            return None
        if "error" in said:
            raise RuntimeError(f"the measured server refused {method}: {said['error']['message']}")
        return said["result"]

    def follow(self, session: str) -> None:
        """Follow a session and wait for its snapshot."""
        self.ask("follow", session_id=session)
        self.until(lambda message: b'"resync":"initial"' in message or None)

    def until(self, look: Callable[[bytes], Any]) -> Any:
        """Read until `look` accepts a line; the lines after it are examined the next time.

        Raises:
            RuntimeError: It takes too long.
        """
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            while self._lines:
                if (found := look(self._lines.popleft())) is not None:
                    return found
            for message in self.read():
                self._lines.extend(message.splitlines())
        raise RuntimeError(f"the measured server did not answer within {PATIENCE_S:.0f} s")


class WebSocketClient(Client):
    """A WebSocket client."""

    def __init__(self, connected: socket.socket, url: str, token: str) -> None:
        super().__init__(connected)
        lines = [
            "GET /v1/ws HTTP/1.1",
            f"Host: {_host(url)}",
            f"Authorization: Bearer {token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ]
        connected.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connected.recv(_CHUNK)
            if not piece:
                raise ConnectionError("the measured server closed a connection")
            head += piece
        head, _, rest = head.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"no WebSocket: {head.splitlines()[0].decode()}")
        found, self._kept = self._cut(rest)
        self._lines.extend(found)

    def send(self, message: bytes) -> None:
        """Send one message."""
        size = len(message)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2) if size < 65_536 else None
        self.socket.sendall(b"\x81" + (length or b"\xff" + size.to_bytes(8)) + bytes(4) + message)

    def _cut(self, data: bytes) -> tuple[list[bytes], bytes]:
        found, at = [], 0
        while len(data) - at >= 2:
            size, begin = data[at + 1], at + 2
            if size >= 126:
                begin += 2 if size == 126 else 8
                size = int.from_bytes(data[at + 2 : begin])
            if len(data) < begin + size:
                break
            if data[at] & 0x0F == 8:
                raise ConnectionError("the measured server closed a connection")
            found.append(data[begin : begin + size])
            at = begin + size
        return found, data[at:]


class UnixClient(Client):
    """A client on the unix socket of the home."""

    def send(self, message: bytes) -> None:
        """Send one message."""
        self.socket.sendall(message + b"\n")

    def _cut(self, data: bytes) -> tuple[list[bytes], bytes]:
        *found, rest = data.split(b"\n")
        return found, rest


# --- connecting -------------------------------------------------------------------------------------------------------


Welcome = Callable[[Client], object]
"""Runs right after connecting, because a server waits only briefly for the greeting."""


@contextmanager
def websockets(program: Program, count: int, welcome: Welcome, *, reads: int | None = None) -> Generator[list[Client]]:
    """Connect `count` WebSocket clients during the block; `reads` bounds their unread data."""
    url, token = program.told["url"], program.told["token"]
    with ExitStack() as stack:
        found: list[Client] = []
        for _ in range(count):
            found.append(WebSocketClient(stack.enter_context(tcp(url, reads)), url, token))
            welcome(found[-1])
        yield found


@contextmanager
def unix_clients(
    program: Program, count: int, welcome: Welcome, *, reads: int | None = None
) -> Generator[list[Client]]:
    """Connect `count` clients on the unix socket of the home during the block."""
    with ExitStack() as stack, short_socket_name(Path(program.told["socket"])) as name:
        found: list[Client] = []
        for _ in range(count):
            connected = stack.enter_context(_patient(socket.socket(socket.AF_UNIX), reads))
            connected.connect(name)
            found.append(UnixClient(connected))
            welcome(found[-1])
        yield found


def tcp(url: str, reads: int | None = None) -> socket.socket:
    """Connect to a server's address."""
    host, port = _host(url).split(":")
    connected = _patient(socket.socket(), reads)
    try:
        connected.connect((host, int(port)))
    except OSError:
        connected.close()
        raise
    return connected


def _patient(made: socket.socket, reads: int | None) -> socket.socket:
    made.settimeout(PATIENCE_S)
    if reads is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
    return made


def _host(url: str) -> str:
    return url.partition("://")[2]


def following(*sessions: str) -> Welcome:
    """Return the greeting of a client that follows these sessions, if any."""

    def greet(client: Client) -> None:
        client.ask("hello", client_id=f"bench-{os.urandom(8).hex()}", name="bench", role="observer")
        for session in sessions:
            client.follow(session)

    return greet


def nothing(_: Client) -> None:
    """Say nothing."""


# --- reading ----------------------------------------------------------------------------------------------------------


def seq_of(message: bytes, place: int) -> int:
    """Return the position of a reader after a message of our server."""
    found = _PLACE.findall(message, max(0, len(message) - 400))
    return int(found[-1]) if found else place


def count_of(_: bytes, place: int) -> int:
    """Return how many messages a reader has received, including this one."""
    return place + 1


class Crowd:
    """Clients that are read together, as their data arrives."""

    def __init__(self, clients: Sequence[Client], place_after: Callable[[bytes, int], int]) -> None:
        self.clients = clients
        self._place_after = place_after
        self._selector = selectors.DefaultSelector()
        for client in clients:
            client.socket.setblocking(False)
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def read_until(self, place: int, heard: Callable[[bytes], object] = lambda _: None) -> None:
        """Read until all clients have reached `place`; each message is passed to `heard` at once."""
        self.read_for(lambda: all(client.place >= place for client in self.clients), heard)

    def read_for(self, done: Callable[[], bool], heard: Callable[[bytes], object]) -> None:
        """Read until `done` is true, which is checked whenever all available data is read.

        Raises:
            RuntimeError: It takes too long.
        """
        patience = time.monotonic() + PATIENCE_S
        while not done():
            ready = self._selector.select(max(0.0, patience - time.monotonic()))
            if not ready:
                raise RuntimeError(f"clients did not receive everything within {PATIENCE_S:.0f} s")
            for key, _ in ready:
                client: Client = key.data
                for message in client.read():
                    heard(message)
                    client.place = self._place_after(message, client.place)
                    client.messages += _IS_FEED in message[:64]
