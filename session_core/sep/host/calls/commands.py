"""Commands of extensions: finding their owner, running them, and completing their arguments."""

from collections.abc import Iterable
from typing import Final

from session_core.errors import NotFound
from session_core.ids import SessionId
from session_core.rpc.failures import RpcClosed, RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.info import as_arguments, parse_completions
from session_core.sep.protocol.names import INTERNAL_ERROR
from session_core.vocabulary.extensions import Completion

COMMAND_SECONDS: Final = 120.0
COMPLETION_SECONDS: Final = 5.0


def find_owner(extensions: Iterable[HostedExtension], name: str, extension: str | None) -> HostedExtension:
    """Return the named extension, or the first one that has the command.

    Raises:
        NotFound: No extension has it.
    """
    for each in extensions:
        if extension in {None, each.name} and each.registrations.command(name) is not None:
            return each
    owner_text = f" of {extension}" if extension is not None else ""
    raise NotFound(f"there is no command /{name}{owner_text}", field="name")


async def execute(owner: HostedExtension, contexts: Contexts, session_id: SessionId, name: str, arguments: str) -> str:
    """Run a command of an extension, and return its text.

    Raises:
        RpcFailed: The command failed; the code is the extension's own.
    """
    generation = owner.generation
    with contexts.dispatch(owner.name, generation, session_id) as context:
        params = {"command": name, "context": context.wire, "arguments": as_arguments(arguments)}
        try:
            result = await owner.request("command/execute", params, timeout=COMMAND_SECONDS)
        except RpcClosed as closed:
            why = _describe_interruption(owner, generation)
            raise RpcFailed(INTERNAL_ERROR, f"{why} while /{owner.name}.{name} ran", closed.data) from None
    content = result.get("content") if isinstance(result, dict) else None
    return content if isinstance(content, str) else ""


def _describe_interruption(owner: HostedExtension, generation: int) -> str:
    """Describe why the process that ran the command is gone."""
    if owner.generation != generation:
        seconds = f"{owner.pace.stop:g} s"
        return f"the extension {owner.name} was reloaded, and its old process did not finish within {seconds},"
    if owner.stopping:
        return f"the extension {owner.name} was switched off or ended"
    return f"the process of the extension {owner.name} ended"


async def complete(
    owner: HostedExtension, contexts: Contexts, session_id: SessionId, name: str, partial: str
) -> tuple[Completion, ...]:
    """Return completions for a command's arguments.

    Raises:
        RpcFailed: The request failed.
    """
    with contexts.dispatch(owner.name, owner.generation, session_id) as context:
        params = {"command": name, "context": context.wire, "partial": partial}
        result = await owner.request("command/complete", params, timeout=COMPLETION_SECONDS)
    return tuple(parse_completions(result))
