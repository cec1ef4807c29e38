"""The servers in `mcp.json`: the format that other programs use, with a few keys of our own, read strictly.

A server with a mistake is left out and the mistake reported; the others stay. Loading never raises, whatever a file
holds. This module does not import the SDK.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from session_core.mcp.json_fields import (
    McpConfigFieldError,
    McpConfigFields,
    checked_headers,
    checked_url,
    closest_words,
    suggestion_suffix,
)
from session_core.mcp.names import MAX_SERVER_NAME, is_server_name
from session_core.mcp.variables import VARIABLE_NAME
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.trust import Fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.storage.ownership import WritableByOthers, refuse_fault

DEFAULT_TIMEOUT_MS: Final = 120_000
"""The default time limit of one call; some servers look things up on the web."""
MAX_TIMEOUT_MS: Final = 24 * 3_600_000
MAX_SERVERS: Final = 64
"""More servers than any model can use."""
MAX_CONFIG_BYTES: Final = 1_000_000

Origin = Literal["user", "project"]

_COMMON: Final = ("type", "allow", "deny", "disabled", "timeout_ms")
_STDIO: Final = ("command", "args", "env", "cwd")
_HTTP: Final = ("url", "headers")
_HTTP_TYPES: Final = ("http", "streamable-http", "streamableHttp")


@attrs.frozen(kw_only=True)
class ServerRules:
    """Settings of both kinds of servers; `allow` and `deny` hold the server's own tool names, `*` matches anything."""

    name: str
    origin: Origin = "user"
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    disabled: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@attrs.frozen(kw_only=True)
class StdioServer(ServerRules):
    """A program to start; `env` is added to a few harmless variables, and never shown because it holds secrets."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cwd: str


@attrs.frozen(kw_only=True)
class HttpServer(ServerRules):
    """A server that is already running somewhere; `headers` hold secrets and are never shown."""

    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)


ServerConfig = StdioServer | HttpServer


@attrs.frozen(kw_only=True)
class McpConfigProblem:
    """A problem with a file: its place, and a sentence for people."""

    file: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field}: {self.message}" if self.field else f"{self.file}: {self.message}"


@attrs.frozen(kw_only=True)
class McpConfig:
    """The usable servers, and the problems of the rest."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[McpConfigProblem, ...] = ()


def load_mcp_config(
    *,
    folder: str,
    trusted: bool | Fingerprint | None,
    environment: Mapping[str, str],
    user_file: Path | None = None,
    project_file: Path | None = None,
) -> McpConfig:
    """Read both files; a missing one counts as empty. It blocks, so call it in a thread.

    Args:
        folder: The project's folder; programs start in it unless their entry says otherwise. If it is not trusted, the
            user's own start in the user's home directory, because many programs run files from the folder they start
            in.
        trusted: Whether the user trusts the folder; a fingerprint means trust in exactly that content. If it is not
            trusted, its file is not even read.
        environment: The source of variables, usually `os.environ`.
        user_file: The user's own file. The project's file cannot replace a server named here.
        project_file: The file in the folder; a symlink out of its folder is not followed.
    """
    reading = _McpConfigReader(folder, environment, start_in="." if trusted else environment.get("HOME", "/"))
    if user_file is not None:
        reading.read(user_file, "user")
    if project_file is not None:
        if trusted:
            reading.read(project_file, "project", trusted if isinstance(trusted, Fingerprint) else None)
        elif os.path.lexists(project_file):
            reading.problem(project_file, "", "its MCP servers are left out because this folder is not trusted")
    return McpConfig(servers=tuple(reading.servers.values()), problems=tuple(reading.problems))


class _McpConfigReader:
    def __init__(self, folder: str, environment: Mapping[str, str], *, start_in: str) -> None:
        self.servers: dict[str, ServerConfig] = {}
        self.problems: list[McpConfigProblem] = []
        self._folder = folder
        self._environment = environment
        self._start_in = start_in
        self._released: tuple[str, ...] = ()

    def problem(self, file: Path, field: str, message: str) -> None:
        self.problems.append(McpConfigProblem(file=str(file), field=field, message=message))

    def read(self, file: Path, origin: Origin, trusted: Fingerprint | None = None) -> None:
        try:
            data = _read(file) if origin == "user" else _read_beneath(file, trusted)
            if data is None:
                return
            document = _parse(data)
            top = McpConfigFields(document, "", self._environment, ())
            known = ("mcpServers", "expand") if origin == "user" else ("mcpServers",)
            for key in document:
                if key == "expand" and origin == "project":
                    self.problem(file, key, "only your own mcp.json can release variables; this is ignored")
                elif key not in known:
                    self.problem(file, key, f"there is no such setting{suggestion_suffix(key, known)}")
            if origin == "user":
                self._released = top.texts("expand")
                for name in self._released:
                    if not VARIABLE_NAME.fullmatch(name):
                        raise McpConfigFieldError("expand", f"{name!r} is not the name of a variable")
            entries = top.object("mcpServers")
        except McpConfigFieldError as error:
            self.problem(file, error.field, error.message)
            return
        for name, entry in entries.items():
            self._add(file, origin, name, entry)

    def _add(self, file: Path, origin: Origin, name: str, entry: object) -> None:
        field = f"mcpServers.{name[: 2 * MAX_SERVER_NAME]}"
        try:
            if not is_server_name(name):
                raise McpConfigFieldError(
                    field,
                    f"a server's name is made of letters, digits, '-' and single '_', at most {MAX_SERVER_NAME}",
                )
            if name in self.servers:
                raise McpConfigFieldError(field, "your own mcp.json has a server of this name, which is used instead")
            if len(self.servers) >= MAX_SERVERS:
                raise McpConfigFieldError(field, f"there are more than {MAX_SERVERS} servers; this one is left out")
            if not isinstance(entry, dict):
                raise McpConfigFieldError(field, 'must be an object with a "command" or a "url"')
            self.servers[name] = _read_server(
                McpConfigFields(entry, field, self._environment, self._released),
                name,
                origin,
                self._folder,
                self._start_in,
            )
        except McpConfigFieldError as error:
            self.problem(file, error.field, error.message)


def _read_server(fields: McpConfigFields, name: str, origin: Origin, folder: str, start_in: str) -> ServerConfig:
    kind = _read_kind(fields)
    fields.refuse_unknown((*_COMMON, *(_STDIO if kind == "stdio" else _HTTP)), elsewhere=(*_STDIO, *_HTTP))
    rules: dict[str, Any] = {
        "name": name,
        "origin": origin,
        "allow": fields.texts("allow") if "allow" in fields else None,
        "deny": fields.texts("deny"),
        "disabled": fields.boolean("disabled"),
        "timeout_ms": fields.number("timeout_ms", default=DEFAULT_TIMEOUT_MS, minimum=1, maximum=MAX_TIMEOUT_MS),
    }
    if kind == "stdio":
        cwd = fields.text("cwd", default=start_in)
        return StdioServer(
            **rules,
            command=fields.text("command"),
            args=fields.texts("args"),
            env=_checked_env(fields),
            cwd=str(Path(folder, Path(cwd).expanduser() if cwd.startswith("~/") else cwd)),
        )
    headers = checked_headers(fields)
    return HttpServer(**rules, url=checked_url(fields, secrets=bool(headers)), headers=headers)


def _read_kind(fields: McpConfigFields) -> Literal["stdio", "http"]:
    if "command" in fields and "url" in fields:
        raise McpConfigFieldError(
            fields.field, 'has both a "command" and a "url"; a server is either started or reached'
        )
    if "command" not in fields and "url" not in fields:
        raise McpConfigFieldError(fields.field, 'needs a "command" to start or a "url" to reach')
    kind: Literal["stdio", "http"] = "stdio" if "command" in fields else "http"
    stated = fields.text("type", default=kind)
    if stated == "sse":
        raise McpConfigFieldError(
            fields.full_name("type"), 'the old SSE transport is not supported; use the server\'s "http" address'
        )
    if stated not in ("stdio", *_HTTP_TYPES):
        raise McpConfigFieldError(
            fields.full_name("type"), f'must be "stdio" or "http"{closest_words(stated, ("stdio", "http"))}'
        )
    if (stated == "stdio") != (kind == "stdio"):
        raise McpConfigFieldError(
            fields.full_name("type"), f'is {stated!r}, but the server has a "{"command" if kind == "stdio" else "url"}"'
        )
    return kind


def _checked_env(fields: McpConfigFields) -> Mapping[str, str]:
    env = fields.read_expanded("env")
    for name in env:
        if not VARIABLE_NAME.fullmatch(name):
            raise McpConfigFieldError(fields.full_name("env"), f"{name!r} is not the name of a variable")
    return env


def _read(file: Path) -> bytes | None:
    try:
        if not file.is_file():
            if file.exists():
                raise McpConfigFieldError("", "is not a file")
            return None
        with file.open("rb") as opened:
            refuse_fault(file, os.fstat(opened.fileno()))
            return opened.read(MAX_CONFIG_BYTES + 1)
    except WritableByOthers as refused:
        raise McpConfigFieldError("", f"is not used, because {refused.message}") from refused
    except OSError as error:
        raise McpConfigFieldError("", f"cannot be read: {error.strerror}") from error


def _read_beneath(file: Path, trusted: Fingerprint | None) -> bytes | None:
    """Read a project's file; content that differs from what was trusted is refused."""
    try:
        content = Workspace(str(file.parent), read_only=True).read(file.name, max_bytes=MAX_CONFIG_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except WorkspaceRefused as refused:
        raise McpConfigFieldError("", f"is not used: {refused}") from refused
    except OSError as error:
        raise McpConfigFieldError("", f"cannot be read: {error.strerror}") from error
    if trusted is not None and not trusted.covers(file.name, content.data):
        raise McpConfigFieldError("", "is not used, as it has changed since this folder was trusted")
    return content.data


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_CONFIG_BYTES:
        raise McpConfigFieldError("", f"is larger than {MAX_CONFIG_BYTES:,} bytes")
    try:
        document = json.loads(data, object_pairs_hook=_reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        raise McpConfigFieldError("", f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise McpConfigFieldError("", 'must be a JSON object with "mcpServers"')
    return document


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise McpConfigFieldError(double[:100], "occurs twice in the same object")
    return found
