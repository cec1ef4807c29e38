"""The steps of the tour. Each describes what it does, does it through the public API, and checks what it claims."""

from functools import partial

import attrs
import trio

import session_core as sc
from frontends.commands.demo.viewer import Stage, Viewer, Witness, current_text, is_same_picture, last_words
from frontends.shared.figures import duration, format_count
from frontends.shared.sanitise import one_line

SESSION_CAPACITY = 64
"""Events the service keeps for the readers of one session: tiny, so falling behind takes seconds, not hours."""

WATCHED, BACKGROUND, STEERED = "counter", "endless", "helper"
PROMPTS = {
    WATCHED: "count to 500",
    BACKGROUND: "count to 1000",
    STEERED: "count to 550 and list the files",
    "thinker": "think about the sea",
    "unlucky": "fail once, then count to 200",
}


@attrs.define
class Tour:
    """The state shared by the scenes."""

    service: sc.SessionService
    stage: Stage
    nursery: trio.Nursery
    fast: bool
    witness: Witness = attrs.field(init=False)
    sessions: dict[str, sc.SessionId] = attrs.field(factory=dict)
    viewers: dict[str, Viewer] = attrs.field(factory=dict)
    extra: list[Viewer] = attrs.field(factory=list)
    turns: dict[str, sc.TurnId] = attrs.field(factory=dict)
    stop_ms: float = 0.0
    _step: int = 0

    def __attrs_post_init__(self) -> None:
        self.witness = Witness(self.stage)

    async def begin(self, sentence: str) -> None:
        """Announce the next step."""
        self._step += 1
        await self.stage.say()
        await self.stage.say(self.stage.style.bold(f"{self._step}. {self.stage.folded(sentence, indent=3)}"))

    async def breathe(self, seconds: float) -> None:
        """Give viewers time to watch; tests skip it."""
        await trio.sleep(0 if self.fast else seconds)

    async def follow(self, name: str, *, visible: bool = False) -> Viewer:
        """Attach one more viewer to a session; what a visible one sees is shown."""
        viewer = Viewer(self.service.follow(self.sessions[name]), self.stage, visible=visible)
        await self.nursery.start(viewer.run)
        return viewer

    def state(self, name: str) -> sc.SessionState:
        """Return the known state of a session."""
        state = self.viewers[name].state
        assert state is not None
        return state


async def start_sessions(tour: Tour) -> None:
    """Several sessions at once."""
    await tour.begin(f"{len(PROMPTS)} sessions begin to work at the same time, in one service.")
    for name, prompt in PROMPTS.items():
        await tour.stage.say(f'     {name:<9} "{prompt}"')
    for name, prompt in PROMPTS.items():
        created = await tour.service.create_session(name=name)
        tour.sessions[name] = created.session_id
        tour.viewers[name] = await tour.follow(name, visible=name == WATCHED)
        reply = await tour.service.send_user_message(created.session_id, prompt)
        assert reply.turn_id is not None
        tour.turns[name] = reply.turn_id
    await tour.stage.wait_until(lambda: all(current_text(tour.state(name)) for name in PROMPTS if name != "unlucky"))
    running = (await tour.service.list_sessions(running=True)).total
    await tour.stage.check(f"{running} turns run side by side", holds=running == len(PROMPTS))
    await tour.breathe(2.5)


async def two_followers(tour: Tour) -> None:
    """A late follower gets the whole picture."""
    await tour.begin(
        f'A second follower, B, joins "{WATCHED}" in the middle of its answer; A has watched from the start.'
    )
    a = tour.viewers[WATCHED]
    await tour.stage.wait_until(lambda: a.place >= 40)
    b = await tour.follow(WATCHED)
    tour.extra.append(b)
    joined = b.place
    await tour.stage.wait_until(lambda: a.place == b.place and b.delivered >= 10)
    equal = a.picture() == b.picture()
    said = last_words(current_text(tour.state(WATCHED)))
    for label, how in (
        ("A", f"{format_count(a.delivered, 'event')}, one by one"),
        ("B", f"a snapshot at event {joined}, then {format_count(b.delivered, 'event')}"),
    ):
        await tour.stage.say(f"     {label}: {how:<40} ... {said}")
    await tour.stage.check("A and B show exactly the same state, half-finished answer included", holds=equal)
    await tour.breathe(1.5)


async def falling_behind(tour: Tour) -> None:
    """A reader that stops reading is told what it missed, and recovers."""
    await tour.begin(
        f"B stops reading. The service keeps {SESSION_CAPACITY} events per session here and never waits for a reader."
    )
    a, b = tour.viewers[WATCHED], tour.extra[0]
    b.stop_reading()
    await tour.stage.wait_until(lambda: a.place - b.place >= SESSION_CAPACITY * 3 // 2)
    await tour.stage.say(f"     A is {a.place - b.place} events ahead of B; now B reads again")
    b.read_again()
    await tour.stage.wait_until(lambda: b.resyncs == 1 and a.place == b.place)
    equal = a.picture() == b.picture()
    exact = b.missed > 0 and b.skipped == b.missed + SESSION_CAPACITY
    await tour.stage.check(f"B was told the loss exactly: Lagged, {b.missed} events missed", holds=exact)
    await tour.stage.check("B got one new snapshot on the same stream, without a disconnect", holds=b.resyncs == 1)
    await tour.stage.check("A never fell behind: a slow reader does not affect others", holds=a.resyncs == 0)
    await tour.stage.check("B's state equals A's again (compared with ==)", holds=equal)
    await tour.breathe(1.5)


async def background_stop(tour: Tour) -> None:
    """A stop acts at once, on the session it names and on no other."""
    await tour.begin(f'"{BACKGROUND}" runs in the background and is stopped while "{WATCHED}" is being watched.')
    places = {name: viewer.place for name, viewer in tour.viewers.items()}
    busy = [name for name in PROMPTS if name != BACKGROUND and tour.state(name).activity.name == "streaming"]
    begun = trio.current_time()
    outcome = await tour.service.request_stop(tour.sessions[BACKGROUND])
    tour.stop_ms = (trio.current_time() - begun) * 1000
    viewer = tour.viewers[BACKGROUND]
    await tour.stage.wait_until(lambda: tour.state(BACKGROUND).activity.is_at_rest)
    state = tour.state(BACKGROUND)
    last = state.find_message(state.head)
    ended = ", ".join(work.kind for work in outcome.ended)
    await tour.stage.check(
        f"outcome: {outcome.result} after {duration(tour.stop_ms)}; what ended: {ended}",
        holds=outcome.result == "stopped" and state.activity.name == "stopped" and viewer.place > places[BACKGROUND],
    )
    await tour.stage.check(
        f"its partial answer was kept: ... {last_words(last.text if last else '')} [interrupted]",
        holds=last is not None and last.is_interrupted and bool(last.text),
    )
    await tour.stage.wait_until(lambda: all(tour.viewers[name].place > places[name] for name in busy))
    others = [tour.state(name) for name in busy]
    unharmed = bool(others) and all(other.stop is None and other.activity.name != "stopped" for other in others)
    await tour.stage.check(f"the others went on as if nothing had happened: {', '.join(busy)}", holds=unharmed)
    await tour.breathe(1.5)


async def steering(tour: Tour) -> None:
    """A message is read in the middle of a turn."""
    await tour.begin(f'"{STEERED}" is still at its first step. A steering message tells it to do something else.')
    session_id, turn_id = tour.sessions[STEERED], tour.turns[STEERED]
    reply = await tour.service.send_user_message(session_id, "think about the moon", deliver_as="steer")
    await tour.stage.say('     sent "think about the moon"; it waits in the queue until the step is done')
    await tour.stage.check("the turn was running and the message waits", holds=reply.disposition == "queued")
    waited = await tour.service.wait_for_turn(session_id, turn_id)
    outcome = waited.outcome
    done = f"{format_count(outcome.steps, 'step')}, {format_count(outcome.tool_calls, 'tool call')}"
    await tour.stage.check(
        f"it was read between two steps of the same turn ({done})",
        holds=outcome.steered and outcome.status == "completed" and outcome.turn_id == turn_id,
    )
    await tour.stage.check(
        f'the answer is about it: "{one_line(outcome.final_text, 48)}"', holds="the moon" in outcome.final_text
    )


async def all_done(tour: Tour) -> None:
    """Everything ends, and all viewers agree with the service."""
    await tour.begin("The rest comes to its end, and every follower is compared with the service.")
    for name, turn_id in tour.turns.items():
        await tour.service.wait_for_turn(tour.sessions[name], turn_id)
    viewers = [*((name, viewer) for name, viewer in tour.viewers.items()), *((WATCHED, each) for each in tour.extra)]
    agreed = 0
    for name, viewer in viewers:
        snapshot = await tour.service.load_session(tour.sessions[name])
        await tour.stage.wait_until(partial(_has_reached, viewer, snapshot.sseq))
        agreed += is_same_picture(viewer.picture(), snapshot)
    await tour.stage.check(
        f"{agreed} of {len(viewers)} followers folded their way to exactly the service's state",
        holds=agreed == len(viewers),
    )
    unlucky = tour.viewers["unlucky"]
    outcome = tour.state("unlucky").last_outcome
    await tour.stage.check(
        '"unlucky" hit a rate limit, waited, tried again, and completed',
        holds=unlucky.retries == 1 and outcome is not None and outcome.status == "completed",
    )


def _has_reached(viewer: Viewer, place: int) -> bool:
    return viewer.place >= place


SCENES = (start_sessions, two_followers, falling_behind, background_stop, steering, all_done)
