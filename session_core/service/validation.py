"""Checks and builds user input: texts, images, names, queue items."""

from collections.abc import Collection, Sequence
from typing import get_args

import attrs

from session_core import limits
from session_core.errors import Conflict, InvalidInput
from session_core.ids import ClientId, MessageId, QueueItemId, TurnId, new_id
from session_core.service.extension_api import extension_of
from session_core.session.session import Session
from session_core.vocabulary.argument_checks import build_check, is_base64
from session_core.vocabulary.extensions import UiKind
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    FilePart,
    ImagePart,
    Message,
    PostedRole,
    TextPart,
    UserPart,
    count_max_bytes,
)
from session_core.vocabulary.sessions import DeliverAs, QueueItem, SandboxPolicy, TurnLimits
from session_core.wire.codec import encode
from session_core.wire.json_schema import find_schema_fault
from session_core.wire.strict_json import find_fault


def checked_text(text: str, field: str = "text", *, longest: int = limits.MAX_TEXT_CHARS) -> str:
    """Return a string that is not blank, not too long and can be encoded."""
    if not text.strip():
        msg = f"{field} must not be empty"
        raise InvalidInput(msg, field=field)
    if len(text) > longest:
        msg = f"{field} has {len(text):,} characters; the limit is {longest:,}"
        raise InvalidInput(msg, field=field)
    if not text.isascii():
        check_encodable(text, field)
    return text


def check_encodable(text: str, field: str) -> None:
    """Refuse a string that cannot be encoded, and so cannot be sent."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        msg = f"{field} contains an unpaired surrogate at position {problem.start}, which is not valid text"
        raise InvalidInput(msg, field=field) from None


def check_limit(limit: int) -> None:
    """Refuse a page limit that makes no sense."""
    if not 1 <= limit <= limits.MAX_PAGE:
        msg = f"limit must be from 1 to {limits.MAX_PAGE}"
        raise InvalidInput(msg, field="limit")


def checked_name(name: str, field: str = "name") -> str:
    """Return a one-line name without its outer blanks."""
    name = checked_text(name, field, longest=limits.MAX_NAME_CHARS).strip()
    if not name.isprintable():
        msg = f"{field} must be one line without control characters"
        raise InvalidInput(msg, field=field)
    return name


def checked_client_id(client_id: str) -> ClientId:
    """Return the name of a client."""
    if not build_check(str)(client_id):
        msg = f"client_id must be text, not {client_id!r}"
        raise InvalidInput(msg, field="client_id")
    return ClientId(checked_name(client_id, "client_id"))


def checked_path(path: str, field: str = "cwd") -> str:
    """Return an absolute path. The tools that use it find out whether it exists."""
    checked_text(path, field, longest=limits.MAX_PATH_CHARS)
    if not path.startswith("/") or "\0" in path:
        msg = f"{field} must be an absolute path, not {path!r}"
        raise InvalidInput(msg, field=field)
    return path


def checked_sandbox(policy: SandboxPolicy) -> SandboxPolicy:
    """Return a policy whose folders are absolute paths, and not too many of them."""
    for field, paths in (("writable_roots", policy.writable_roots), ("readable", policy.readable)):
        if len(paths) > limits.MAX_PARTS_PER_MESSAGE:
            msg = f"{field}: at most {limits.MAX_PARTS_PER_MESSAGE}"
            raise InvalidInput(msg, field=field)
        for path in paths:
            checked_path(path, field)
    if sum(map(len, policy.writable_roots + policy.readable)) > limits.MAX_SANDBOX_CHARS:
        msg = f"writable_roots, readable: at most {limits.MAX_SANDBOX_CHARS:,} characters together"
        raise InvalidInput(msg, field="writable_roots")
    return policy


def checked_limits(bounds: TurnLimits) -> TurnLimits:
    """Return limits that are all above zero."""
    for field in attrs.fields(TurnLimits):
        given = getattr(bounds, field.name)
        if given is not None and not 1 <= given <= limits.MAX_INTEGER:
            msg = f"limits: {field.name} must be at least 1"
            raise InvalidInput(msg, field="limits")
    return bounds


def checked_schema(schema: JsonObject | None) -> JsonObject | None:
    """Return a usable JSON schema."""
    if schema is None:
        return None
    if (fault := find_schema_fault(schema)) is not None:
        msg = f"output_schema is not a JSON schema that can be used: {fault}"
        raise InvalidInput(msg, field="output_schema")
    return checked_json(schema, "output_schema", longest=limits.MAX_TURN_JSON_BYTES)


def _checked_files(files: Sequence[FilePart]) -> None:
    if len(files) >= limits.MAX_PARTS_PER_MESSAGE:
        msg = f"files: at most {limits.MAX_PARTS_PER_MESSAGE - 1} per message"
        raise InvalidInput(msg, field="files")
    for file in files:
        checked_text(file.name, "files", longest=limits.MAX_PATH_CHARS)
        check_encodable(file.text, "files")
    if sum(len(file.text) for file in files) > limits.MAX_TEXT_CHARS:
        msg = f"files: at most {limits.MAX_TEXT_CHARS:,} characters together"
        raise InvalidInput(msg, field="files")


def user_parts(text: str, images: Sequence[ImagePart], files: Sequence[FilePart] = ()) -> tuple[UserPart, ...]:
    """Return the parts of a user message: text, images and files, or some of them."""
    _checked_files(files)
    if len(images) >= limits.MAX_PARTS_PER_MESSAGE:
        msg = f"images: at most {limits.MAX_PARTS_PER_MESSAGE - 1} per message"
        raise InvalidInput(msg, field="images")
    for image in images:
        if not 0 < len(image.data) * 3 // 4 <= limits.MAX_IMAGE_BYTES or not is_base64(image.data):
            msg = f"images: each must be base64 text of at most {limits.MAX_IMAGE_BYTES:,} bytes"
            raise InvalidInput(msg, field="images")
    if sum(len(image.data) for image in images) > limits.MAX_MESSAGE_CHARS:
        msg = f"images: at most {limits.MAX_MESSAGE_CHARS:,} characters together"
        raise InvalidInput(msg, field="images")
    texts = () if (images or files) and not text.strip() else text_parts(checked_text(text))
    parts = (*texts, *files, *images)
    if (size := count_max_bytes(parts)) > limits.MAX_MESSAGE_BYTES:
        msg = f"images: the message may take {size:,} bytes, and {limits.MAX_MESSAGE_BYTES:,} are allowed"
        raise InvalidInput(msg, field="images")  # without them, it fits by the bounds of its text and its files
    return parts


def text_parts(text: str) -> tuple[UserPart, ...]:
    """Return text as the only part of a message."""
    return (TextPart(text=text),)


def checked_json(given: JsonObject, field: str, *, longest: int) -> JsonObject:
    """Return open JSON that can be encoded and is not too long."""
    if (fault := find_fault(given, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        msg = f"{field}{fault.path}: {fault.reason}"
        raise InvalidInput(msg, field=field)
    if (size := len(encode(given))) > longest:
        msg = f"{field} has {size:,} bytes; the limit is {longest:,}"
        raise InvalidInput(msg, field=field)
    return given


def checked_ui(ui: Collection[UiKind]) -> tuple[UiKind, ...]:
    """Return what a frontend can show and ask for extensions, in the usual order."""
    known: tuple[UiKind, ...] = get_args(UiKind)
    if isinstance(ui, str) or not all(kind in known for kind in ui):
        msg = f"ui must be a set of: {', '.join(known)}"
        raise InvalidInput(msg, field="ui")
    return tuple(kind for kind in known if kind in ui)


def user_message(
    parts: tuple[UserPart, ...],
    parent_id: MessageId | None,
    turn_id: TurnId | None,
    now: int,
    *,
    role: PostedRole = "user",
    source: str | None = None,
) -> Message:
    """Build a user message, or one posted in the name of another sender."""
    return Message(
        message_id=MessageId(new_id("msg")),
        parent_id=parent_id,
        role=role,
        parts=parts,
        created_at=now,
        turn_id=turn_id,
        source=source,
    )


def queue_item(
    parts: tuple[UserPart, ...],
    deliver_as: DeliverAs,
    now: int,
    client_id: ClientId | None,
    *,
    role: PostedRole = "user",
    quiet: bool = False,
) -> QueueItem:
    """Build a queued message."""
    return QueueItem(
        item_id=QueueItemId(new_id("item")),
        parts=parts,
        deliver_as=deliver_as,
        queued_at=now,
        client_id=client_id,
        role=role,
        source=extension_of(client_id),
        quiet=quiet,
    )


def has_queue_room(session: Session, parts: Sequence[UserPart], *, instead_of: QueueItemId | None = None) -> bool:
    """Return whether a message can wait in a session: the whole queue must fit into a frame."""
    queue = [item for item in session.state.queue if item.item_id != instead_of]
    size = count_max_bytes(parts) + sum(count_max_bytes(item.parts) for item in queue)
    return len(queue) < limits.MAX_QUEUE_ITEMS and size <= limits.MAX_MESSAGE_BYTES


def check_queue_room(session: Session, parts: Sequence[UserPart], *, instead_of: QueueItemId | None = None) -> None:
    """Refuse a message for which the queue has no room."""
    if not has_queue_room(session, parts, instead_of=instead_of):
        msg = (
            f"the queue of this session is full: it holds {limits.MAX_QUEUE_ITEMS} messages of "
            f"{limits.MAX_MESSAGE_BYTES:,} bytes together"
        )
        raise Conflict(msg, field="session_id")


def wants_turn(queue: Sequence[QueueItem]) -> bool:
    """Return whether a queued message needs a turn to be delivered."""
    return any(item.deliver_as != "next_turn" and not item.quiet for item in queue)
