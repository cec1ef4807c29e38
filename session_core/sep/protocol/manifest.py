"""`extension.toml`: an extension's name, how it is started, and what it wants to be allowed.

The file comes from the extension's author. It is read with care, and reading it never hangs. Unknown keys are ignored
but recorded, because a misspelt one should not go unnoticed. All of this blocks: call it in a thread.
"""

import errno
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

from session_core.errors import InvalidInput
from session_core.limits import MAX_NAME_CHARS, MAX_PATH_CHARS
from session_core.sandbox.file_values import read_up_to
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, check_text
from session_core.sep.protocol.names import CAPABILITIES, PROTOCOL_VERSION, Capability, is_extension_name
from session_core.wire.error_text import quote_text

MANIFEST_FILE: Final = "extension.toml"
MAX_MANIFEST_BYTES: Final = 64 * 1024
"""People write this file by hand; a larger file is something else."""
MAX_HOOK_TIMEOUT_MS: Final = 10 * 60_000
"""Nobody would wait longer than this for a tool to start."""

_MAX_DOTS_IN_LINE: Final = 250  # the time to read a key grows with the square of its dots
_MAX_ARGUMENTS: Final = 256
_MAX_ARGUMENT_CHARS: Final = 32_000
_MAX_VARIABLES: Final = 256
_MAX_EVENTS: Final = 256
_MAX_DOMAINS: Final = 256
_MAX_REMARKS: Final = 20
_MAX_MEMORY_MIB: Final = 1024 * 1024

VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MEMORY: Final = re.compile(r"([0-9]{1,9})\s*(m|mb|mib|g|gb|gib)?", re.IGNORECASE)
_DOMAIN: Final = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

Network = Literal["none", "egress"]


class ManifestInvalid(InvalidInput):
    """A manifest cannot be used; the message names the file and the key or line, `field` the key."""

    code = "manifest_invalid"


@attrs.frozen(kw_only=True)
class RunSpec:
    """How an extension is started; variables in `env` are not expanded yet, `sha256` is in lower case."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(default=MappingProxyType({}), hash=False)
    sha256: str | None = None


@attrs.frozen(kw_only=True)
class SandboxSpec:
    """The sandbox that an extension asks for; `memory` is in MiB."""

    image: str | None = None
    memory: int | None = None
    cpus: float | None = None
    network: Network = "none"
    allow_domains: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Capabilities:
    """What an extension may do; an empty list of events does not narrow its subscriptions."""

    events: tuple[str, ...] = ()
    enabled: frozenset[Capability] = frozenset(CAPABILITIES)


@attrs.frozen(kw_only=True)
class ManifestResources:
    """Folders that an extension brings along, relative to its own."""

    skills: str | None = None
    prompts: str | None = None
    themes: str | None = None


@attrs.frozen(kw_only=True)
class Manifest:
    """The contents of `extension.toml`.

    Attributes:
        remarks: One sentence for each entry that has no effect.
        digest: SHA-256 of the bytes that were read.
    """

    name: str
    version: str
    run: RunSpec
    protocol: int = PROTOCOL_VERSION
    hook_timeout_ms: int | None = None
    disabled: bool = False
    sandbox: SandboxSpec | None = None
    capabilities: Capabilities = Capabilities()
    resources: ManifestResources = ManifestResources()
    remarks: tuple[str, ...] = ()
    digest: str = ""


_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "": tuple(field.name for field in attrs.fields(Manifest) if field.name not in {"remarks", "digest"}),
    "run": tuple(field.name for field in attrs.fields(RunSpec)),
    "sandbox": tuple(field.name for field in attrs.fields(SandboxSpec)),
    "capabilities": ("events", *CAPABILITIES),
    "resources": tuple(field.name for field in attrs.fields(ManifestResources)),
}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in an extension's folder; a symlink in its place is not followed.

    Raises:
        ManifestInvalid: It is missing, cannot be read, or something in it is wrong.
    """
    file = folder / MANIFEST_FILE
    content = _content(file)
    tables = _parse_toml(file, content)
    try:
        return attrs.evolve(_manifest(DocumentFields(tables)), digest=hashlib.sha256(content).hexdigest())
    except InvalidDocumentField as wrong:
        raise ManifestInvalid(f"{format_path(file)}: {wrong.path}: {wrong.reason}", field=wrong.path) from None


def _content(file: Path) -> bytes:
    # Without O_NONBLOCK, opening a pipe of that name would hang.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        with ExitStack() as opened:
            descriptor = os.open(file, flags)
            opened.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ManifestInvalid(f"{format_path(file)}: this is not an ordinary file")
            content = read_up_to(descriptor, MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise ManifestInvalid(f"{format_path(file.parent)}: there is no {MANIFEST_FILE} in this folder") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            why = "it is a link; put the file itself there"
        raise ManifestInvalid(f"{format_path(file)}: it cannot be read: {why}") from None
    if len(content) > MAX_MANIFEST_BYTES:
        raise ManifestInvalid(f"{format_path(file)}: it is longer than {MAX_MANIFEST_BYTES:,} bytes")
    return content


def _parse_toml(file: Path, content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), start=1):
            if line.count(".") > _MAX_DOTS_IN_LINE:
                raise ManifestInvalid(f"{format_path(file)}: there are too many dots in line {number}")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ManifestInvalid(f"{format_path(file)}: it is not text in UTF-8 (at byte {error.start})") from None
    except RecursionError:
        raise ManifestInvalid(f"{format_path(file)}: it is nested too deeply") from None
    except ValueError as error:  # tomllib names the line; a number may also have too many digits
        raise ManifestInvalid(f"{format_path(file)}: this is not TOML: {error}") from None


def _manifest(top: DocumentFields) -> Manifest:
    _check_slip(top, "name")
    name = top.text("name", most=1_000)
    if not is_extension_name(name):
        raise InvalidDocumentField(
            "name",
            f"{quote_text(name)} is not a valid name: use 1 to 64 of a-z, 0-9, '-' and '_', "
            "beginning with a letter or digit",
        )
    run = top.table("run")
    if run is None:
        raise InvalidDocumentField("run", "is missing; expected a table with the command that starts the extension")
    sandbox = top.table("sandbox")
    capabilities = top.table("capabilities")
    resources = top.table("resources")
    _check_slip(top, "version")
    _check_slip(run, "command")
    parts = {"": top, "run": run, "sandbox": sandbox, "capabilities": capabilities, "resources": resources}
    remarks = [remark for part, fields in parts.items() if fields for remark in _unknown(fields, _KNOWN[part])]
    return Manifest(
        name=name,
        version=_one_line(top, "version"),
        protocol=top.integer("protocol", least=1, most=1_000_000) or PROTOCOL_VERSION,
        hook_timeout_ms=top.integer("hook_timeout_ms", least=1, most=MAX_HOOK_TIMEOUT_MS),
        disabled=top.boolean("disabled"),
        run=_run(run),
        sandbox=_sandbox(sandbox) if sandbox else None,
        capabilities=_capabilities(capabilities) if capabilities else Capabilities(),
        resources=_resources(resources) if resources else ManifestResources(),
        remarks=tuple(remarks[:_MAX_REMARKS]),
    )


def _run(run: DocumentFields) -> RunSpec:
    env: dict[str, str] = {}
    variables = run.table("env")
    for number, (name, value) in enumerate(variables.plain.items() if variables else ()):
        if number >= _MAX_VARIABLES:
            raise InvalidDocumentField("run.env", f"has more than {_MAX_VARIABLES} variables")
        if not VARIABLE_NAME.fullmatch(name):
            raise InvalidDocumentField("run.env", f"{quote_text(name)} is not the name of a variable")
        env[name] = check_text(value, f"run.env.{name}", most=_MAX_ARGUMENT_CHARS, empty=True)
    pin = run.text_or_none("sha256")
    if pin is not None and not _SHA256.fullmatch(pin := pin.lower()):
        raise InvalidDocumentField("run.sha256", "must be the 64 hexadecimal digits of a SHA-256")
    return RunSpec(
        command=run.text("command", most=MAX_PATH_CHARS),
        args=run.texts("args", most=_MAX_ARGUMENTS, chars=_MAX_ARGUMENT_CHARS, empty=True),
        env=MappingProxyType(env),
        sha256=pin,
    )


def _sandbox(sandbox: DocumentFields) -> SandboxSpec:
    network = sandbox.text_or_none("network") or "none"
    if network not in ("none", "egress"):
        raise InvalidDocumentField("sandbox.network", f'must be "none" or "egress", got {quote_text(network)}')
    domains = sandbox.texts("allow_domains", most=_MAX_DOMAINS, chars=253)
    for number, domain in enumerate(domains):
        if not _DOMAIN.fullmatch(domain.lower()):
            raise InvalidDocumentField(
                f"sandbox.allow_domains[{number}]", f"{quote_text(domain)} is not the name of a host"
            )
    return SandboxSpec(
        image=sandbox.text_or_none("image"),
        memory=_memory(sandbox),
        cpus=sandbox.number("cpus", least=0.01, most=1_024),
        network="egress" if network == "egress" else "none",
        allow_domains=tuple(domain.lower() for domain in domains),
    )


def _memory(sandbox: DocumentFields) -> int | None:
    if not isinstance(sandbox.plain.get("memory"), str):
        return sandbox.integer("memory", least=1, most=_MAX_MEMORY_MIB)
    stated = sandbox.text("memory")
    parts = _MEMORY.fullmatch(stated)
    size = int(parts[1]) * (1024 if (parts[2] or "m").lower().startswith("g") else 1) if parts else 0
    if not 1 <= size <= _MAX_MEMORY_MIB:
        raise InvalidDocumentField("sandbox.memory", f'must be a size such as "512M" or "2G", got {quote_text(stated)}')
    return size


def _capabilities(table: DocumentFields) -> Capabilities:
    return Capabilities(
        events=table.texts("events", most=_MAX_EVENTS),
        enabled=frozenset(group for group in CAPABILITIES if table.boolean(group)),
    )


def _resources(table: DocumentFields) -> ManifestResources:
    return ManifestResources(
        skills=_read_inner_path(table, "skills"),
        prompts=_read_inner_path(table, "prompts"),
        themes=_read_inner_path(table, "themes"),
    )


def _read_inner_path(table: DocumentFields, key: str) -> str | None:
    path = table.text_or_none(key, most=MAX_PATH_CHARS)
    if path is not None and (path.startswith(("/", "~")) or ".." in Path(path).parts):
        raise InvalidDocumentField(table.field_path(key), "must be a folder inside the extension's own")
    return path


def _one_line(top: DocumentFields, key: str) -> str:
    text = top.text(key)
    if not text.isprintable():
        raise InvalidDocumentField(key, "must be one line of printable text")
    return text


def _unknown(fields: DocumentFields, known: tuple[str, ...]) -> list[str]:
    unknown = [key for key in fields.plain if key not in known]
    return [
        f"{fields.field_path(key)[:MAX_NAME_CHARS]} is not known here and has no effect{_suggest_key(key, known)}"
        for key in unknown[:_MAX_REMARKS]  # searching for the intended name takes time
    ]


def _check_slip(fields: DocumentFields, key: str) -> None:
    """Refuse a table that lacks a required key and has a similarly spelt one."""
    if key in fields.plain:
        return
    there = [each[:MAX_NAME_CHARS] for each in islice(fields.plain, _MAX_REMARKS)]
    if near := get_close_matches(key, there, 1):
        raise InvalidDocumentField(
            fields.field_path(key), f"is missing; there is {quote_text(near[0])}: did you mean {key}?"
        )


def _suggest_key(key: str, known: tuple[str, ...]) -> str:
    here = {name: name for name in known}
    elsewhere = {name: f"{table}.{name}".strip(".") for table, names in _KNOWN.items() for name in names}
    for names in (here, elsewhere):
        if near := get_close_matches(key[:MAX_NAME_CHARS], names, 1):
            return f"; did you mean {names[near[0]]}?"
    return ""


def format_path(path: Path | str) -> str:
    """Return a path for people: escaped if a part of it cannot be shown."""
    text = str(path)
    return text if text.isprintable() else ascii(text)
