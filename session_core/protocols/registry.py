"""The available protocols: built-in ones, installed ones, and those that a program registers itself.

Installed ones are entry points in the group `session_core.protocols`. Only their names are read; the code of one is
loaded when a session selects it.

A registered protocol takes precedence over an installed one of the same name, and a built-in one over both. If two
packages provide the same name, it is ambiguous and cannot be used; all others can.
"""

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Final

import trio

from session_core import limits
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.protocols.api import ProtocolFactory
from session_core.protocols.faults import DuplicatePlugin, ProtocolFault, UnknownPlugin
from session_core.protocols.frames import is_label
from session_core.protocols.options import is_options_class

log = logging.getLogger(__name__)

GROUP: Final = "session_core.protocols"

_BUILT_IN: Final = EntryPoints(
    (
        EntryPoint("standard", "session_core.protocols.standard:StandardProtocol", GROUP),
        EntryPoint("code", "session_core.protocols.code.protocol:CodeProtocol", GROUP),
    )
)


class ProtocolRegistry:
    """The protocols of a service.

    Args:
        factories: The protocols that the program registers itself.
        installed: The entry points to offer; by default all that are installed.

    Raises:
        DuplicatePlugin: Two registered protocols share an id, or one has the id of a built-in protocol.
    """

    def __init__(
        self, factories: Iterable[ProtocolFactory] = (), *, installed: Iterable[EntryPoint] | None = None
    ) -> None:
        self._loaders: dict[str, tuple[str, Callable[[], object]]] = {}
        self._loaded: dict[str, ProtocolFactory] = {}
        self._duplicates: dict[str, list[str]] = {}
        """The origins of installed names that are ambiguous."""
        for entry in _BUILT_IN:
            self._offer(entry.name, f"session-core ({entry.value})", entry.load)
        for entry in entry_points(group=GROUP) if installed is None else installed:
            self._offer_installed(entry)
        self._installed = frozenset(self._loaders) - _BUILT_IN.names
        for factory in factories:
            self.register(factory)

    def register(self, factory: ProtocolFactory) -> None:
        """Register a protocol; it replaces an installed one of the same name.

        Raises:
            DuplicatePlugin: Its id belongs to another registered protocol, or to a built-in one.
        """
        if factory.id in self._installed:
            self._installed -= {factory.id}
            del self._loaders[factory.id]
            self._duplicates.pop(factory.id, None)
        self._offer(factory.id, f"{type(factory).__module__}.{type(factory).__qualname__}", lambda: factory)

    def names(self) -> tuple[str, ...]:
        """Return the ids of all protocols; loads none of them."""
        return tuple(self._loaders)

    def get(self, name: str) -> ProtocolFactory:
        """Return a protocol, loading its code on first use.

        Raises:
            UnknownPlugin: No protocol has this id.
            DuplicatePlugin: Two packages provide this id.
            ProtocolFault: Its code cannot be loaded, or is not a protocol with this id.
        """
        if name in self._loaded:
            return self._loaded[name]
        self.check_name(name)
        factory = self._load(name, *self._loaders[name])
        self._loaded[name] = factory
        return factory

    def check_name(self, name: str) -> None:
        """Check that a name means exactly one protocol; loads none.

        Raises:
            UnknownPlugin: No protocol has this id.
            DuplicatePlugin: Two packages provide this id.
        """
        if name not in self._loaders:
            there = ", ".join(self._loaders)
            raise UnknownPlugin(f"there is no protocol called {name!r}; known: {there}", field="protocol")
        if name in self._duplicates:
            origins = " and ".join(self._duplicates[name])
            raise DuplicatePlugin(
                f"two protocols are called {name!r}: {origins}; uninstall one of these packages", field="protocol"
            )

    async def aclose(self) -> None:
        """Close every protocol that was used, concurrently.

        A fault of one is logged, and does not affect the others.
        """
        async with trio.open_nursery() as nursery:
            for factory in self._loaded.values():
                nursery.start_soon(self._close, factory)

    @staticmethod
    async def _close(factory: ProtocolFactory) -> None:
        try:
            await factory.aclose()
        except FOREIGN_FAULTS as fault:
            if must_propagate(fault):
                raise
            log.exception("the protocol %s could not be closed", factory.id)

    def _offer_installed(self, entry: EntryPoint) -> None:
        name, origin = entry.name, f"{_package_name(entry)} ({entry.value})"
        if name in _BUILT_IN.names:
            log.warning("the protocol %r of %s is not offered: session-core has one of this name", name, origin)
        elif name in self._loaders:
            first = self._loaders[name][0]
            self._duplicates.setdefault(name, [first]).append(origin)
        else:
            self._offer(name, origin, entry.load)

    def _offer(self, name: str, origin: str, load: Callable[[], object]) -> None:
        if name in self._loaders:
            raise DuplicatePlugin(
                f"two protocols are called {name!r}: {self._loaders[name][0]} and {origin}", field="protocol"
            )
        self._loaders[name] = (origin, load)

    @staticmethod
    def _load(name: str, origin: str, load: Callable[[], object]) -> ProtocolFactory:
        try:
            found = load()
            factory = found() if isinstance(found, type) else found
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            raise ProtocolFault(name, "build", f"{origin} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(factory, ProtocolFactory):
            raise ProtocolFault(name, "build", f"{origin} is not a ProtocolFactory")
        if factory.id != name:
            raise ProtocolFault(name, "build", f"{origin} calls itself {factory.id!r}")
        if (problem := find_factory_problem(factory)) is not None:
            raise ProtocolFault(name, "build", f"{origin} {problem}")
        return factory


def find_factory_problem(factory: ProtocolFactory) -> str | None:
    """Describe what is wrong with a protocol's description of itself."""
    name, version = getattr(factory, "id", None), getattr(factory, "version", None)
    if not is_label(name):
        return f"has the id {name!r:.100}, which is not a valid name: use 1 to {limits.MAX_NAME_CHARS} characters"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        return f"has the version {version!r:.100}, which is not a whole number of at least 1"
    if not is_options_class(getattr(factory, "options", None)):
        return "has options that are not all made by `option`, in an attrs class"
    return None


def problem_of_protocol_name(name: str) -> str | None:
    """Describe why no session can use this protocol, in a program that registers none itself; None if one can."""
    try:
        ProtocolRegistry().check_name(name)
    except (UnknownPlugin, DuplicatePlugin) as refused:
        return refused.message
    return None


def _package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an installed package"
