"""The protocols of sessions: decided when a session is created, built when it is in memory, closed when it is unloaded.

Rules:
1. Options are resolved and the bundle is built before anything is recorded: a session that could not work is refused
   and never created. The decision is part of `SessionCreated`.
2. A session that is loaded again keeps its pinned options. The options that the service supplies are resolved again
   before the session's next use, and recorded if they have changed.
3. A protocol that is missing here, or older than the one that wrote the session, refuses turns and writes nothing.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any, get_args

import attrs
import trio

from session_core import limits
from session_core.agent.protocol_work import current_frame, current_options
from session_core.errors import InvalidInput, NotFound, SessionCoreError
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import SessionId, new_session_id
from session_core.protocols.api import ProtocolFactory
from session_core.protocols.faults import DuplicatePlugin, OptionsInvalid, ProtocolFault, ProtocolTooNew, UnknownPlugin
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import (
    Materialization,
    OptionScope,
    PluginOptions,
    check_own_options,
    refuse_other_options,
    resolve_options,
    select_host_options,
)
from session_core.protocols.registry import ProtocolRegistry
from session_core.session.session import Session
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import Frame, ProtocolRecord
from session_core.wire.codec import encode

log = logging.getLogger(__name__)

_CLOSING_S = 5.0


class ProtocolUnusable(SessionCoreError):
    """A session's protocol cannot be used here; the message says why."""

    code = "protocol_unusable"


@attrs.frozen
class _RecordedOptions:
    """The options of a session's protocol, as the protocol reads and sets them."""

    _session: Session
    _options_class: type

    @property
    def current(self) -> JsonObject:
        return current_options(self._session.state)

    def change(self, changes: Mapping[str, Any], scope: OptionScope) -> None:
        state = self._session.state
        if state.deleted:
            raise NotFound(f"the session {state.session_id!r} has been deleted", field="session_id")
        record, here = state.protocol, current_frame(state)
        if scope not in get_args(OptionScope):
            scopes = " or ".join(get_args(OptionScope))
            raise OptionsInvalid(f"options hold for {scopes}, not for {scope!r:.100}", field="scope")
        new = check_own_options(record.name, self._options_class, self.current, changes)
        frames: tuple[Frame, ...]
        if scope == "frame":
            frames = (attrs.evolve(here, options=JsonObject({**here.options, **new})),)
        else:
            record = attrs.evolve(record, options=JsonObject({**record.options, **new}))
            overriding = [frame for frame in state.frames if not new.keys().isdisjoint(frame.options)]
            frames = tuple(_without_options(frame, new) for frame in overriding)
        known = {frame.frame_id: frame.options for frame in (here, *state.frames)}
        if record == state.protocol and all(known[frame.frame_id] == frame.options for frame in frames):
            return
        later = known | {frame.frame_id: frame.options for frame in frames}
        if max(len(encode(record.options)), len(encode(list(later.values())))) > limits.MAX_PROTOCOL_OPTIONS_BYTES:
            raise OptionsInvalid(
                f"the options of the protocol {record.name} may have {limits.MAX_PROTOCOL_OPTIONS_BYTES:,} bytes, and "
                "those of single frames as many together",
                field=f"options.{record.name}",
            )
        self._session.record(ev.ProtocolConfigured(protocol=record, frames=frames))

    async def wait_until_durable(self) -> None:
        await self._session.wait_until_durable()


def _without_options(frame: Frame, names: Collection[str]) -> Frame:
    others = {name: value for name, value in frame.options.items() if name not in names}
    return attrs.evolve(frame, options=JsonObject(others))


def get_current_record(session: Session) -> ProtocolRecord:
    """Return the protocol of a session with the options that hold in its current frame."""
    return attrs.evolve(session.state.protocol, options=current_options(session.state))


class SessionProtocols:
    """The protocols in use, by session.

    Args:
        registry: The available protocols.
        default: The protocol of sessions that name none.
        supplied: The service's options for all of its sessions.
        nursery: Where executors are closed.

    Raises:
        UnknownPlugin: The default protocol does not exist, or options name one that does not.
    """

    def __init__(
        self, registry: ProtocolRegistry, default: str, supplied: PluginOptions, nursery: trio.Nursery
    ) -> None:
        self.registry = registry
        self._default = default
        self._supplied = supplied
        self._nursery = nursery
        self._live: dict[SessionId, SessionProtocol] = {}
        there = registry.names()
        for plugin, field in ((default, "protocol"), *((each, "protocol_options") for each in supplied.plugins)):
            if plugin not in there:
                raise UnknownPlugin(f"there is no protocol called {plugin!r}; known: {', '.join(there)}", field=field)

    def decide(
        self, opening: Materialization, *, name: str | None, stated: PluginOptions, like: ProtocolRecord | None = None
    ) -> SessionProtocol:
        """Decide and build the protocol of a new session; `like` is the protocol of the session it comes from.

        Raises:
            UnknownPlugin: The protocol does not exist, or options name one that does not.
            OptionsInvalid, OptionConflict: The options are wrong.
            ProtocolUnusable: The plugin failed.
        """
        if name is None:
            name = like.name if like is not None else self._default
        self._refuse_unknown(stated, name)
        factory = self._factory(name)
        inherited = JsonObject()
        if like is not None and like.name == name:
            inherited = self._upgrade_record(factory, like).options
            opening = attrs.evolve(opening, parent=inherited)
        supplied = select_host_options(
            factory.options,
            self._supplied.plugins.get(name),
            lambda option, field: option in inherited and (field.inherit or opening.opening == "fork"),
        )
        given = JsonObject({**(supplied or {}), **stated.plugins.get(name, {})})
        options = resolve_options(name, factory.options, None, given, opening)
        return self._build_protocol(
            factory, ProtocolRecord(name=name, version=factory.version, options=options), opening
        )

    def decide_for_child(self, parent: Session) -> SessionProtocol:
        """Decide the protocol of a child session: the same as its parent's."""
        opening = Materialization(opening="child", session_id=new_session_id(), parent_id=parent.state.session_id)
        return self.decide(opening, name=None, stated=PluginOptions(), like=get_current_record(parent))

    def adopt(self, session: Session, protocol: SessionProtocol) -> None:
        """Assign a protocol to the session that was created with it, or is loaded again."""
        protocol.own = _RecordedOptions(session, protocol.options_class)
        self._live[protocol.session_id] = protocol

    def refuse_other_options(self, session: Session, stated: PluginOptions) -> None:
        """Compare the options that are stated for an existing session with those it has.

        Raises:
            UnknownPlugin: The protocol does not exist here, or options name one that does not.
            OptionsInvalid, OptionConflict: The options are wrong, or one differs.
        """
        name = session.state.protocol.name
        self._refuse_unknown(stated, name)
        if (options := stated.plugins.get(name)) is not None:
            factory = self._factory(name)
            current = self._upgrade_record(factory, get_current_record(session)).options
            refuse_other_options(name, factory.options, options, current)

    def get_protocol(self, session: Session) -> SessionProtocol:
        """Return the protocol of a session in memory; after a reload it is built on first use.

        Raises:
            ProtocolUnusable: It cannot be used here; nothing has been recorded.
        """
        session_id = session.state.session_id
        live = self._live.get(session_id)
        if live is None:
            live = self._rebuild_protocol(session)
            self.adopt(session, live)
        return live

    def can_start_turn(self, session: Session) -> bool:
        """Return whether a turn can start in a session; log why not, as no caller waits for the error."""
        try:
            self.get_protocol(session)
        except ProtocolUnusable as problem:
            log.warning("session %s: %s", session.state.session_id, problem.message)
            return False
        return True

    def find_live(self, session_id: SessionId) -> SessionProtocol | None:
        """Return the protocol of a session, if it has been built."""
        return self._live.get(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Close the protocol of a session that is unloaded or deleted."""
        live = self._live.pop(session_id, None)
        if live is not None and live.executor is not None:
            self._nursery.start_soon(live.aclose)

    async def aclose(self) -> None:
        """Close all protocols, at the end of the service."""
        with trio.move_on_after(_CLOSING_S, shield=True):
            async with trio.open_nursery() as closing:
                for live in self._live.values():
                    closing.start_soon(live.aclose)
        self._live.clear()
        with trio.move_on_after(_CLOSING_S, shield=True):
            await self.registry.aclose()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _rebuild_protocol(self, session: Session) -> SessionProtocol:
        state = session.state
        record = state.protocol
        opening = Materialization(opening="resume", session_id=state.session_id, parent_id=state.parent_id)
        try:
            factory = self._factory(record.name)
            known = self._upgrade_record(factory, record)
            supplied = self._supplied.plugins.get(record.name)
            stated = select_host_options(factory.options, supplied)
            options = resolve_options(record.name, factory.options, known.options, stated, opening)
            frames = self._upgrade_frames(factory, session)
        except UnknownPlugin as error:
            raise ProtocolUnusable(
                f"this session cannot continue here: {error.message}; install the package that provides it, or pass it "
                "to the service, as the program that created the session did",
                field="session_id",
            ) from error
        except (DuplicatePlugin, OptionsInvalid, ProtocolTooNew) as error:
            raise ProtocolUnusable(f"this session cannot continue here: {error.message}", field="session_id") from error
        now = attrs.evolve(known, options=options)
        live = self._build_protocol(factory, now, opening)
        for name, value in (supplied or {}).items():
            if options[name] != value:  # others may state it for new sessions; this one has decided
                log.warning(
                    "session %s: the option %r of the protocol %s stays %r; what the service supplies, %r, is for new "
                    "sessions",
                    *(state.session_id, name, record.name, options[name], value),
                )
        if now != record:
            session.record(ev.ProtocolConfigured(protocol=now, frames=frames))
        return live

    def _factory(self, name: str) -> ProtocolFactory:
        try:
            return self.registry.get(name)
        except ProtocolFault as fault:
            raise ProtocolUnusable(str(fault), field="protocol") from fault

    @staticmethod
    def _upgrade_record(factory: ProtocolFactory, record: ProtocolRecord) -> ProtocolRecord:
        if record.version > factory.version:
            raise ProtocolTooNew(
                f"the protocol {record.name} has version {factory.version} here, but the session was written by "
                f"version {record.version}",
                field="protocol",
            )
        if record.version == factory.version:
            return record
        try:
            options = factory.upgrade(record.version, record.options)
        except ValueError as error:
            raise OptionsInvalid(f"options of the protocol {record.name}: {error}", field="protocol") from error
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            fault = ProtocolFault(record.name, "upgrade", f"{type(error).__name__}: {error}")
            raise ProtocolUnusable(str(fault), field="protocol") from error
        if not isinstance(options, JsonObject):
            raise OptionsInvalid(
                f"options of the protocol {record.name}: after the upgrade they are not an object", field="protocol"
            )
        return attrs.evolve(record, version=factory.version, options=options)

    def _upgrade_frames(self, factory: ProtocolFactory, session: Session) -> tuple[Frame, ...]:
        """Return the frames with options of their own, in the current form, if theirs is an older one."""
        record = session.state.protocol
        if record.version == factory.version:
            return ()
        shared = self._upgrade_record(factory, record).options
        upgraded: list[Frame] = []
        for frame in session.state.frames:
            if frame.options:
                whole = attrs.evolve(record, options=JsonObject({**record.options, **frame.options}))
                options = self._upgrade_record(factory, whole).options.items()
                own = {name: value for name, value in options if shared.get(name) != value}
                upgraded.append(attrs.evolve(frame, options=JsonObject(own)))
        return tuple(upgraded)

    @staticmethod
    def _build_protocol(factory: ProtocolFactory, record: ProtocolRecord, opening: Materialization) -> SessionProtocol:
        try:
            return SessionProtocol(factory, record, opening)
        except ProtocolFault as fault:
            raise ProtocolUnusable(str(fault), field="protocol") from fault

    def _refuse_unknown(self, stated: PluginOptions, name: str) -> None:
        """Refuse options that would have no effect."""
        known = self.registry.names()
        for plugin in stated.plugins:
            if plugin not in known:
                raise UnknownPlugin(
                    f"options are given for {plugin!r}, but there is no such protocol; known: {', '.join(known)}",
                    field=f"options.{plugin}",
                )
            if plugin != name:
                raise InvalidInput(
                    f"options are given for {plugin!r}, but the session has the protocol {name!r}",
                    field=f"options.{plugin}",
                )
