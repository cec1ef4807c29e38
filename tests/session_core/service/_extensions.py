"""Extensions that run no program: what they are asked to do is noted, shows, and can be held up."""

import attrs
import trio

from session_core.errors import ExtensionFailed
from session_core.ids import SessionId
from session_core.service.extension_api import extension_client
from session_core.service.service import SessionService
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.extensions import Completion, ExtensionCommand, ExtensionInfo
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.replies import SendUserMessageReply


def info(name: str, *commands: str, **fields: object) -> ExtensionInfo:
    """An extension that is ready, with these commands."""
    return ExtensionInfo(
        name=name,
        version="1",
        scope="user",
        state="ready",
        commands=tuple(ExtensionCommand(extension=name, name=each) for each in commands),
        **fields,  # type: ignore[arg-type]
    )


class FakeExtensions:
    """Has the extensions `git` (`note`, `hang`, `talk`, `fail`, `crash`) and `other` (`note`).

    Whatever is done raises the generation of `git`, which everybody can see.
    """

    def __init__(self) -> None:
        self.service: SessionService | None = None
        self.infos = [info("git", "note", "hang", "talk", "fail", "crash", providers=("house",)), info("other", "note")]
        self.asked: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.release = trio.Event()

    def list(self, session_id: SessionId | None = None) -> tuple[ExtensionInfo, ...]:
        return tuple(self.infos)

    def list_in(self, cwd: str) -> tuple[ExtensionInfo, ...]:
        return tuple(self.infos)

    def find_manager(self, name: str, folder: str | None) -> "FakeExtensions":
        return self

    async def run_command(self, session_id: SessionId, name: str, arguments: str, extension: str | None) -> str:
        self._note("run", name, arguments, extension or "")
        assert self.service is not None
        match name:
            case "hang":
                await self._hang(name)
            case "talk":
                says = c.SendUserMessage(session_id=session_id, text=arguments)
                reply: SendUserMessageReply = await self.service.execute(says, client_id=extension_client("git"))
                return (await self.service.wait_for_turn(session_id, reply.turn_id)).outcome.final_text
            case "fail":
                raise ExtensionFailed("no repository here")
            case "crash":
                raise RuntimeError("a bug")
            case _:
                entry = c.AppendEntry(session_id=session_id, entry=JsonObject({"note": arguments}))
                await self.service.execute(entry, client_id=extension_client("git"))
        return f"done: {arguments}"

    async def _hang(self, what: str) -> None:
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.cancelled.append(what)
            raise

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str, extension: str | None
    ) -> tuple[Completion, ...]:
        await trio.lowlevel.checkpoint()
        if name == "fail":
            raise ExtensionFailed("no repository here")
        return (Completion(value=f"{partial}..."),)

    async def reload(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self._note("reload", name)

    async def enable(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self._note("enable", name)

    async def disable(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self._note("disable", name)

    def press_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> None:
        self._note("press", extension, widget_id, key)

    def title_of(self, model: str, _cwd: str) -> str:
        return "The House Model" if model == "house/one" else ""

    async def why_not_usable(self, provider: str, _cwd: str) -> str:
        await trio.lowlevel.checkpoint()
        return "nobody is logged in" if provider == "house" else ""

    async def login(self, session_id: SessionId, provider: str) -> None:
        await trio.lowlevel.checkpoint()
        self._note("login", provider)

    def _note(self, *asked: str) -> None:
        self.asked.append(asked)
        self.infos[0] = attrs.evolve(self.infos[0], generation=self.infos[0].generation + 1)
        if self.service is not None:
            self.service.tell(ev.ExtensionChanged(extension=self.infos[0]))
