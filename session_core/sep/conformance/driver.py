"""The extension under test, through its crashes: each step gets a running process, and is judged on its own.

A step that ends the process has failed, and the next one gets a new process, which is greeted first. After too many
crashes, or if a new process cannot be greeted, the remaining steps are skipped.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

import attrs
import trio

from session_core import limits
from session_core.rpc.messages import SuccessReply
from session_core.sep.conformance.fake_host import FakeHost
from session_core.sep.conformance.frames import Complaints, PeerAnswer
from session_core.sep.conformance.host_messages import greeting
from session_core.sep.conformance.peer import Peer, Responsiveness, open_peer
from session_core.sep.conformance.report import ConformanceStep
from session_core.sep.conformance.target import ConformanceTarget
from session_core.sep.conformance.verdicts import StepVerdict, failed, skipped, warned, with_last_words
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.launch_command import ExtensionLaunch
from session_core.sep.host.registrations import Registrations
from session_core.sep.protocol.names import PROTOCOL_VERSION

START_SECONDS: Final = limits.EXTENSION_START_MS / 1000
STOP_SECONDS: Final = limits.EXTENSION_STOP_MS / 1000
_MAX_STARTS: Final = 24
_STDERR_LINES: Final = 20
_SAID_CHARS: Final = 300

Attempt = Callable[[Peer], Awaitable[StepVerdict]]


@attrs.define(eq=False)
class _PeerProcess:
    """A process: setting `done` releases it, and `gone` is set once it has ended."""

    peer: Peer
    done: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)


class StepRecorder:
    """The steps so far; each is passed on when it is done."""

    def __init__(self, on_step: Callable[[ConformanceStep], None]) -> None:
        self.done: list[ConformanceStep] = []
        self._on_step = on_step

    def record(self, name: str, expected: str, verdict: StepVerdict, milliseconds: int = 0) -> None:
        """Record a step."""
        step = ConformanceStep(
            name=name, outcome=verdict.outcome, expected=expected, seen=verdict.seen, milliseconds=milliseconds
        )
        self.done.append(step)
        self._on_step(step)


class ConformanceDriver:
    """Drives one extension through the steps.

    Attributes:
        registrations: What it has registered, once it is greeted.
        answers_pings: Whether a ping shows that it is alive; most steps need that.
        responsiveness: Whether it responded while it waited for the host.
        usual_answers: Answers of tools to calls that are not cancelled, by tool name.
        broken: Why no further steps make sense; once it is set, they are skipped.
        reported_identity: The name and version that it gave itself.
    """

    def __init__(
        self,
        target: ConformanceTarget,
        launch: ExtensionLaunch,
        workspace: str,
        nursery: trio.Nursery,
        *,
        seconds: float,
        steps: StepRecorder,
    ) -> None:
        self.target = target
        self.workspace = workspace
        self.seconds = seconds
        self.complaints = Complaints()
        self.log = ExtensionLog()
        self.registrations = Registrations()
        self.answers_pings = True
        self.responsiveness: Responsiveness = "unasked"
        self.usual_answers: dict[str, PeerAnswer] = {}
        self.reported_identity: tuple[str, str] = ("", "")
        self._launch = launch
        self._nursery = nursery
        self.record = steps.record
        self._life: _PeerProcess | None = None
        self._process_log = self.log.open_process_log()
        self._starts = 0
        self.broken: str | None = None

    # --- steps --------------------------------------------------------------------------------------------------------

    async def step(
        self,
        name: str,
        expected: str,
        attempt: Attempt,
        *,
        probe: bool = True,
        fresh: bool = False,
        hardening: bool = False,
    ) -> StepVerdict:
        """Try something with a running process, or with a `fresh` one that was not greeted.

        Unless `probe` is off, the process has to answer a ping afterwards. With `hardening`, it is something that no
        host does, so whatever comes of it is advice.
        """
        began = trio.current_time()
        peer = await self._running(fresh=fresh)
        if peer is None:
            verdict = skipped(self.broken or "it could not be started again")
        elif probe and not self.answers_pings:
            verdict = skipped("it does not answer a ping, so it is unknown whether it survived this")
        else:
            with self.complaints.as_advice() if hardening else nullcontext():
                verdict = await attempt(peer)
                if probe and verdict.outcome != "failed":
                    verdict = await self._probe(peer, verdict)
                if verdict.outcome == "failed":
                    verdict = await self._handle_failure(peer, verdict)
            if hardening and verdict.outcome == "failed":
                verdict = warned(f"{verdict.seen}; no host does this, but a mistake elsewhere may")
        self.record(name, expected, verdict, round((trio.current_time() - began) * 1000))
        return verdict

    async def call(
        self,
        name: str,
        expected: str,
        method: str,
        params: Mapping[str, Any],
        judge: Callable[[PeerAnswer], StepVerdict],
    ) -> StepVerdict:
        """Try a request within a dispatch, and judge the answer."""

        async def attempt(peer: Peer) -> StepVerdict:
            return judge(await peer.ask_in_dispatch(method, params))

        return await self.step(name, expected, attempt)

    async def _handle_failure(self, peer: Peer, verdict: StepVerdict) -> StepVerdict:
        """Keep a process that still answers; end one that does not, because it may be in any state."""
        if self.answers_pings and isinstance(await peer.ask("ping", seconds=self.seconds / 4), SuccessReply):
            return verdict
        died, words = peer.over.is_set(), self._process_log
        await self.end_process()
        if died and (said := words.last_words()):
            return with_last_words(verdict, said[:_SAID_CHARS])
        return verdict

    async def _probe(self, peer: Peer, verdict: StepVerdict) -> StepVerdict:
        """Check whether the process has survived."""
        answer = await peer.ask("ping")
        if isinstance(answer, SuccessReply):
            return verdict
        if peer.over.is_set():
            return failed(f"it did not survive this: {await peer.describe_end()}")
        return failed("it did not answer a ping afterwards: it has to keep reading whatever happens")

    def stderr(self) -> tuple[str, ...]:
        """Return the last lines that it wrote to stderr."""
        return tuple(line.text for line in self.log.lines() if line.source == "stderr")[-_STDERR_LINES:]

    # --- processes ----------------------------------------------------------------------------------------------------

    async def start(self) -> Peer:
        """Start a process without greeting it.

        Raises:
            LaunchRefused: It cannot be started.
        """
        await self.end_process()
        self._starts += 1
        self._life = await self._nursery.start(self._run_peer)
        assert self._life is not None
        return self._life.peer

    async def greet(self, peer: Peer, *, offered: int = PROTOCOL_VERSION) -> PeerAnswer:
        """Send `initialize`."""
        params = greeting(self.target.manifest, self.workspace, offered=offered)
        return await peer.ask("initialize", params, seconds=max(self.seconds, START_SECONDS))

    async def end_process(self) -> None:
        """End the running process, with its group."""
        life, self._life = self._life, None
        if life is not None:
            if life.peer.responsiveness != "unasked" and self.responsiveness in ("unasked", "at once"):
                self.responsiveness = life.peer.responsiveness
            life.done.set()
            await life.gone.wait()

    async def _running(self, *, fresh: bool) -> Peer | None:
        if self.broken is not None:
            return None
        if fresh:
            return await self.start()
        if self._life is not None and not self._life.peer.over.is_set():
            return self._life.peer
        if self._starts >= _MAX_STARTS:
            self.broken = f"it was started {_MAX_STARTS} times and ended each time"
            return None
        peer = await self.start()
        if not isinstance(await self.greet(peer), SuccessReply):
            await self.end_process()
            self.broken = "a new process of it did not answer initialize"
            return None
        return peer

    async def _run_peer(self, *, task_status: trio.TaskStatus[_PeerProcess]) -> None:
        name = self.target.manifest.name
        fake_host = FakeHost(name, self.target.manifest, self.complaints)
        self._process_log = self.log.open_process_log()
        gone = trio.Event()
        try:
            async with open_peer(
                self._launch,
                self._process_log,
                name=name,
                fake_host=fake_host,
                complaints=self.complaints,
                seconds=self.seconds,
            ) as peer:
                life = _PeerProcess(peer=peer, gone=gone)
                task_status.started(life)
                await life.done.wait()
        finally:
            gone.set()
