"""Fetching from the web: a real server on the loopback, and every address that must not be reached."""

import base64
import gzip
import socket
import ssl
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.tools import web_fetch
from session_core.tools.base import CallPreview, ToolOutput
from session_core.tools.web_address import _can_reach
from session_core.tools.web_fetch import MAX_CHARS, MAX_PAGE_BYTES, WebFetch
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from tests._needs import needs_openssl
from tests.session_core.tools._calls import context_in, refusal, run

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
FETCH = WebFetch(allow_loopback=True)


class Server:
    """Answers by a table of paths and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.port = 0

    def answer(
        self, path: str, body: bytes = b"", kind: str = "text/plain", status: str = "200 OK", **more: str
    ) -> str:
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        self.answers[path] = f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body
        return f"http://127.0.0.1:{self.port}{path}"

    async def __call__(self, stream: trio.abc.Stream) -> None:
        heard = bytearray()
        while b"\r\n\r\n" not in heard and (piece := await stream.receive_some()):
            heard += piece
        first, *headers = heard.decode("latin-1").split("\r\n")
        path = first.split(" ")[1]
        self.asked.append((path, next(line[6:] for line in headers if line.startswith("Host: "))))
        try:
            if path == "/silent":
                await trio.sleep_forever()
            await stream.send_all(self.answers.get(path, b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"))
        except trio.BrokenResourceError:
            pass
        await stream.aclose()


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    """A server on the loopback."""
    async with trio.open_nursery() as nursery:
        made = Server()
        listeners = await nursery.start(partial(trio.serve_tcp, made, 0, host="127.0.0.1"))
        made.port = listeners[0].socket.getsockname()[1]
        yield made
        nursery.cancel_scope.cancel()


class Resolver(trio.abc.HostnameResolver):
    """Answers the n-th question with the n-th list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(host.decode() if isinstance(host, bytes) else host)
        addresses = self._answers.pop(0)
        if not addresses:
            raise socket.gaierror(-2, "unknown")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in addresses
        ]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


async def test_a_page_comes_as_text(server: Server, tmp_path: Path) -> None:
    """HTML comes readable, with its title, its address and whole links."""
    url = server.answer("/a/page", b"<title>T</title><h1>Hi</h1><a href=b>b</a>", "text/html")

    output = await run(FETCH, context_in(tmp_path), url=f"{url}#part")

    text = f"T\n{url}\n\n# Hi\n\n[b](http://127.0.0.1:{server.port}/a/b)"
    assert ToolOutput(text=text, details=JsonObject({"url": url})) == output
    assert [("/a/page", f"127.0.0.1:{server.port}")] == server.asked


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"<b>x", "text/plain", "<b>x"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"<a/>", "application/atom+xml; charset=utf-8", "<a/>"),
        ("gr\xfc\xdfe".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grüße"),
        ("<meta charset='windows-1251'>мир".encode("cp1251"), "text/html", "мир"),
        ("\ufeffmark".encode("utf-16"), "text/plain; charset=ascii", "\ufeffmark"),
        (b"\xef\xbb\xbfmark", "text/plain", "mark"),
        (b"\xff text", "text/plain", "\ufffd text"),
        (b"x", "text/plain; charset=zlib", "x"),
        (b"x-", "text/plain; charset=punycode", "x-"),
        (b"<!DOCTYPE html><p>guessed", "", "guessed"),
        (b"plain", "", "plain"),
        (b"", "text/html", "(the page has no text)"),
    ],
)
async def test_kinds_and_charsets(server: Server, tmp_path: Path, body: bytes, kind: str, text: str) -> None:
    """Text comes as it is, in the charset that the server or the page tells."""
    url = server.answer("/x", body, kind)
    assert f"{url}\n\n{text}" == (await run(FETCH, context_in(tmp_path), url=url)).text


async def test_pictures(server: Server, tmp_path: Path) -> None:
    """Pictures come as pictures, by what they are and not by what they are called."""
    url = server.answer("/p", PNG, "image/jpeg")
    image = ImagePart(media_type="image/png", data=base64.b64encode(PNG).decode())
    assert (image,) == (await run(FETCH, context_in(tmp_path), url=url)).images

    url = server.answer("/q", b"<svg/>", "image/svg+xml")
    assert "png, jpeg, gif and webp can" in await refusal(FETCH, context_in(tmp_path), url=url)
    url = server.answer("/r", PNG + bytes(MAX_PAGE_BYTES), "image/png")
    assert "is larger than" in await refusal(FETCH, context_in(tmp_path), url=url)


async def test_what_cannot_be_read(server: Server, tmp_path: Path) -> None:
    """Data, errors and nonsense are refused in a sentence."""
    context = context_in(tmp_path)
    url = server.answer("/zip", b"PK", "application/zip")
    assert f"{url} is of the type 'application/zip', which is neither text nor an image" == await refusal(
        FETCH, context, url=url
    )
    url = f"http://127.0.0.1:{server.port}/missing"
    assert f"{url} answered 404 Not Found" == await refusal(FETCH, context, url=url)
    server.answers["/odd"] = b"what?\r\n\r\n"
    assert "did not answer properly" in await refusal(FETCH, context, url=f"http://127.0.0.1:{server.port}/odd")
    url = server.answer("/gzip", b"not gzip", Content_Encoding="gzip")
    assert "did not answer properly" in await refusal(FETCH, context, url=url)


async def test_long_pages_are_cut(server: Server, tmp_path: Path) -> None:
    """Text is cut at what was asked for, and a page without end, packed or not, is not read to its end."""
    url = server.answer("/long", b"x" * 100)
    output = await run(FETCH, context_in(tmp_path), url=url, max_chars=10)
    assert f"{url}\n\n{'x' * 10}\n[cut after 10 characters; the page is longer]" == output.text

    url = server.answer("/bomb", gzip.compress(bytes(60_000_000)), Content_Encoding="gzip")
    output = await run(FETCH, context_in(tmp_path), url=url)
    assert output.text.endswith("[cut after 50000 characters; the page is longer]")


async def test_redirects(server: Server, tmp_path: Path) -> None:
    """Redirects on one host are followed, five at the most, and the final address is told."""
    url = server.answer("/5", b"end")
    for number in range(5):
        server.answer(f"/{number}", status="302 Found", Location=f"/{number + 1}")
    start = f"http://127.0.0.1:{server.port}/0"
    assert f"{url}\n\nend" == (await run(FETCH, context_in(tmp_path), url=start)).text

    loop = server.answer("/loop", status="301 Moved", Location="/loop")
    assert f"{loop} redirects more than 5 times" == await refusal(FETCH, context_in(tmp_path), url=loop)
    assert 6 == server.asked.count(("/loop", f"127.0.0.1:{server.port}"))


async def test_a_redirect_to_another_host_is_told(server: Server, tmp_path: Path) -> None:
    """Whoever allowed one host has not allowed another: the model learns the address and may ask for it."""
    url = server.answer("/away", status="302 Found", Location="https://example.org/x")
    output = await run(FETCH, context_in(tmp_path), url=url)
    assert f"{url} redirects to another host:\nhttps://example.org/x\nFetch that address to go on." == output.text


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://user:pw@127.0.0.1/", "http://[x/", "gopher://x/"])
async def test_redirects_to_what_is_no_page(server: Server, tmp_path: Path, target: str) -> None:
    """A redirect is judged like an address that the model gave."""
    url = server.answer("/bad", status="302 Found", Location=target)
    assert "redirects to" in await refusal(FETCH, context_in(tmp_path), url=url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "2130706433",
        "0x7f.1",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "[fe80::1]",
        "[fd00::1]",
        "[64:ff9b::7f00:1]",
        "100.64.0.1",
        "255.255.255.255",
    ],
)
async def test_private_addresses_are_refused(server: Server, tmp_path: Path, host: str) -> None:
    """Nothing on this machine or in a network around it is reached, however its address is written."""
    says = await refusal(WebFetch(), context_in(tmp_path), url=f"http://{host}:{server.port}/")
    assert "only public addresses may be fetched" in says
    assert [] == server.asked


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_reached(address: str) -> None:
    """Public addresses are let through."""
    assert _can_reach(address, allow_loopback=False)


@pytest.mark.parametrize("address", ["10.0.0.1", "2002:7f00:1::", "224.0.0.1", "ff02::1", "240.0.0.1", "nonsense"])
def test_loopback_only_means_loopback(address: str) -> None:
    """The option for tests opens the loopback and nothing else."""
    assert not _can_reach(address, allow_loopback=True)


async def test_a_name_with_a_private_address_is_refused(server: Server, tmp_path: Path) -> None:
    """One private address among public ones is enough to refuse a host, at a redirect too."""
    trio.socket.set_custom_hostname_resolver(Resolver(["8.8.8.8", "10.0.0.1"], []))
    says = await refusal(FETCH, context_in(tmp_path), url="http://mixed.example/")
    assert "'mixed.example' is at 10.0.0.1" in says
    assert "there is no host 'gone.example'" in await refusal(FETCH, context_in(tmp_path), url="http://gone.example/")


async def test_a_name_is_resolved_once(server: Server, tmp_path: Path) -> None:
    """The connection goes to the address that was checked: a second answer of the name server is never asked for."""
    server.answer("/", b"first")
    resolver = Resolver(["127.0.0.1"], ["10.0.0.1"])
    trio.socket.set_custom_hostname_resolver(resolver)

    output = await run(FETCH, context_in(tmp_path), url=f"http://rebind.example:{server.port}/")

    assert output.text.endswith("first")
    assert ["rebind.example"] == resolver.asked
    assert [("/", f"rebind.example:{server.port}")] == server.asked


async def test_each_hop_is_checked(server: Server, tmp_path: Path) -> None:
    """A host that has become private between two hops is not reached again."""
    server.answer("/", status="302 Found", Location="/next")
    trio.socket.set_custom_hostname_resolver(Resolver(["127.0.0.1"], ["169.254.169.254"]))

    says = await refusal(FETCH, context_in(tmp_path), url=f"http://rebind.example:{server.port}/")

    assert "is at 169.254.169.254" in says
    assert 1 == len(server.asked)


async def test_another_address_is_tried(server: Server, tmp_path: Path) -> None:
    """When the first address of a host refuses, the next one is tried."""
    server.answer("/", b"second")
    trio.socket.set_custom_hostname_resolver(Resolver(["127.0.0.2", "127.0.0.1"], ["127.0.0.2"]))
    output = await run(FETCH, context_in(tmp_path), url=f"http://two.example:{server.port}/")
    assert output.text.endswith("second")
    says = await refusal(FETCH, context_in(tmp_path), url=f"http://two.example:{server.port}/")
    assert f"cannot connect to two.example:{server.port}" in says


async def test_a_silent_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is given up, and one that is waited for can be cancelled."""
    url = f"http://127.0.0.1:{server.port}/silent"
    monkeypatch.setattr(web_fetch, "FETCH_TIMEOUT_MS", 200)
    assert "took longer than" in await refusal(FETCH, context_in(tmp_path), url=url)

    monkeypatch.setattr(web_fetch, "FETCH_TIMEOUT_MS", 60_000)
    with trio.fail_after(300), trio.CancelScope() as scope:
        await run(FETCH, context_in(tmp_path, report=lambda _: scope.cancel()), url=url)
    assert scope.cancelled_caught


@needs_openssl
async def test_tls_is_bound_to_the_name_and_not_given_up(tmp_path: Path) -> None:
    """The certificate must be that of the name, and a redirect from https to http is not followed."""
    key, certificate = str(tmp_path / "key"), str(tmp_path / "certificate")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    names = ["-addext", "subjectAltName=DNS:good.example"]
    await trio.run_process([*command.split(), *names, "-keyout", key, "-out", certificate], capture_stderr=True)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(certificate, key)
    fetch = WebFetch(allow_loopback=True, ssl_context=ssl.create_default_context(cafile=certificate))
    made = Server()
    made.answer("/", b"secure")
    trio.socket.set_custom_hostname_resolver(Resolver(*[["127.0.0.1"]] * 4))

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await made(stream)
        except trio.BrokenResourceError:  # the client did not like the certificate
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, theirs, host="127.0.0.1"))
        port = listeners[0].transport_listener.socket.getsockname()[1]
        output = await run(fetch, context_in(tmp_path), url=f"https://good.example:{port}/")
        assert output.text.endswith("secure")
        assert "certificate" in await refusal(fetch, context_in(tmp_path), url=f"https://bad.example:{port}/")
        secure, plain = f"https://good.example:{port}/down", f"http://good.example:{port}/"
        made.answer("/down", status="302 Found", Location=plain)
        told = await refusal(fetch, context_in(tmp_path), url=secure)
        assert told.startswith(f"{secure} redirects to {plain}, which is not encrypted")
        assert "/" == made.asked[0][0]
        assert "/down" == made.asked[-1][0]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("url", "preview"),
    [
        (
            "https://Example.org/a?b#c",
            CallPreview(
                summary="fetch from example.org",
                displayed_text="GET https://example.org/a?b\nhost: example.org",
                grant="fetch from example.org",
            ),
        ),
        (
            "http://аpple.com:8080/",
            CallPreview(
                summary="fetch from xn--pple-43d.com:8080",
                displayed_text="GET http://xn--pple-43d.com:8080/\nhost: xn--pple-43d.com:8080\nwritten as: аpple.com",
                grant="fetch from xn--pple-43d.com:8080",
            ),
        ),
    ],
)
async def test_previews(tmp_path: Path, url: str, preview: CallPreview) -> None:
    """People see the host in letters that cannot be mistaken for others, and nothing goes over the network."""
    trio.socket.set_custom_hostname_resolver(Resolver())
    assert preview == await WebFetch().preview(JsonObject({"url": url}), context_in(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "the argument 'url' is missing"),
        ({"url": "example.org"}, "the argument 'url' must begin with https:// or http://"),
        ({"url": "file:///etc/passwd"}, "the argument 'url' must begin with https:// or http://"),
        ({"url": "http://"}, "the argument 'url' has no host"),
        ({"url": "http://me:pw@example.org"}, "the argument 'url' must not hold a user name or a password"),
        ({"url": "http://[::1"}, "the argument 'url' is not an address"),
        ({"url": "http://a b/"}, "the argument 'url' is not an address"),
        ({"url": "http://x/\ny"}, "the argument 'url' is not an address"),
        ({"url": "http://x/" + "y" * 5_000}, "the argument 'url' is longer than 4096 characters"),
        ({"url": "http://x:99999/"}, "the argument 'url' is not an address"),
        ({"url": "http://x", "max_chars": MAX_CHARS + 1}, "the argument 'max_chars' must be at most"),
        ({"url": "http://x", "method": "POST"}, "web_fetch has no argument 'method'"),
    ],
)  # fmt: skip
async def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    """What is wrong is named, before anything is asked of the network."""
    trio.socket.set_custom_hostname_resolver(Resolver())
    assert says in await refusal(WebFetch(), context_in(tmp_path), **arguments)
