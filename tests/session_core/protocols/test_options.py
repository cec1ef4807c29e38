"""How options of protocols are stated, decided and recorded."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import SessionId
from session_core.protocols.faults import OptionConflict, OptionsInvalid
from session_core.protocols.options import (
    Materialization,
    NoOptions,
    PluginOptions,
    is_options_class,
    option,
    parse_plugin_options,
    read_options,
    resolve_options,
    select_host_options,
)
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.service._protocols import WatchedOptions, decided

CREATE = Materialization(opening="create", session_id=SessionId("s"))
RESUME = Materialization(opening="resume", session_id=SessionId("s"))
CHILD = Materialization(opening="child", session_id=SessionId("s"), parent_id=SessionId("p"))
FORK = Materialization(opening="fork", session_id=SessionId("s"))


def resolve(
    recorded: JsonObject | None = None, given: dict[str, Any] | None = None, opening: Materialization = CREATE
) -> JsonObject:
    """Resolve the options that are watched."""
    stated = None if given is None else JsonObject(given)
    return resolve_options("watched", WatchedOptions, recorded, stated, opening)


def inheriting(opening: Materialization, **options: Any) -> Materialization:
    """Come from a session with these options."""
    return attrs.evolve(opening, parent=decided(**options))


def test_what_nobody_states() -> None:
    """Options that nobody states have the default of a root, or of a child; a fork is a root."""
    assert resolve() == decided()
    assert resolve(opening=FORK) == decided()
    assert resolve(opening=CHILD) == decided(dialect="child")
    assert resolve(given={}) == decided()


def test_what_is_taken_over() -> None:
    """A child takes over what is to be inherited, whatever its kind, and nothing else; a fork takes over everything."""
    options = {"dialect": "other", "shape": "round", "budget": 7}
    assert resolve(opening=inheriting(CHILD, **options)) == decided("child", "round", 7)
    assert resolve(opening=inheriting(FORK, **options)) == decided("other", "round", 7)


def test_what_is_stated_goes_first() -> None:
    """What is stated is taken, before what is inherited; each option by itself."""
    assert resolve(given={"shape": "square"}) == decided(shape="square")
    assert resolve(given={"dialect": "mine"}, opening=inheriting(CHILD, shape="round")) == decided("mine", "round")


def test_what_is_recorded_stays() -> None:
    """A session that comes back keeps what it has, also where the default would be another one; its host may change."""
    recorded = decided("mine", "round", 3)
    assert resolve(recorded, opening=RESUME) == recorded
    assert resolve(recorded, {"dialect": "mine"}, RESUME) == recorded
    assert resolve(recorded, {"budget": 9}, RESUME) == decided("mine", "round", 9)


def test_a_conflict_shows_both() -> None:
    """A pinned option stated differently is refused, with what there is and what was asked for."""
    with pytest.raises(OptionConflict):
        resolve(given={"dialect": "yours"}, opening=inheriting(FORK, dialect="mine"))
    with pytest.raises(OptionConflict) as caught:
        resolve(decided("mine"), {"dialect": "yours", "budget": 9}, RESUME)
    assert (caught.value.recorded, caught.value.requested) == ("mine", "yours")
    assert (caught.value.code, caught.value.field) == ("option_conflict", "options.watched.dialect")
    assert "'mine'" in caught.value.message
    assert "'yours'" in caught.value.message


def test_an_option_that_is_new() -> None:
    """An option that was not yet there when the session was recorded gets its default, and may be stated once."""
    older = JsonObject({"dialect": "mine", "budget": 2})
    assert resolve(older, opening=RESUME) == decided("mine", "plain", 2)
    assert resolve(older, {"shape": "round"}, RESUME) == decided("mine", "round", 2)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"dialect": 3}, "options.watched.dialect"),
        ({"budget": "much"}, "options.watched.budget"),
        ({"budget": None}, "options.watched.budget"),
        ({"shade": "x"}, "options.watched.shade"),
    ],
)
def test_malformed_options(given: dict[str, Any], field: str) -> None:
    """Options of the wrong shape are refused, naming the plugin and the place; null is wrong where no null belongs."""
    with pytest.raises(OptionsInvalid) as caught:
        resolve(given=given)
    assert (caught.value.code, caught.value.field) == ("invalid_options", field)
    assert "watched" in caught.value.message


def test_malformed_records() -> None:
    """What is recorded and of the wrong shape is refused as well, never taken for a default."""
    with pytest.raises(OptionsInvalid) as caught:
        resolve(JsonObject({"dialect": None}), opening=RESUME)
    assert caught.value.field == "options.watched.dialect"


@pytest.mark.parametrize("wrong", [None, 3, "x", [], True])
def test_null_is_not_empty(wrong: Any) -> None:
    """What is stated for a protocol is an object; null is not the same as nothing."""
    with pytest.raises(OptionsInvalid) as caught:
        parse_plugin_options(JsonObject({"watched": wrong}))
    assert caught.value.field == "options.watched"
    assert parse_plugin_options(None) == PluginOptions()
    assert parse_plugin_options(JsonObject({"watched": {}})) == PluginOptions({"watched": JsonObject()})


def test_stating_options_in_a_program() -> None:
    """Options are stated as a value or as JSON; a plugin that none are stated for has none, rather than defaults."""
    options = PluginOptions.for_plugin("watched", WatchedOptions(shape="round")).with_("other", {"a": [1]})
    assert options.get("watched", WatchedOptions) == WatchedOptions(shape="round")
    assert options.plugins["other"] == JsonObject({"a": [1]})
    assert options.get("third", WatchedOptions) is None
    assert options.with_("watched", {"budget": 2}).get("watched", WatchedOptions) == WatchedOptions(budget=2)
    with pytest.raises(OptionsInvalid):
        options.get("other", WatchedOptions)
    with pytest.raises(TypeError, match="object"):
        PluginOptions.for_plugin("watched", [1])


def test_what_a_service_supplies() -> None:
    """Of what a service states for all, a session that comes back takes what is not its own; wrong names stay wrong."""
    supplied = JsonObject({"dialect": "x", "budget": 5, "shade": 1})
    assert select_host_options(WatchedOptions, supplied) == JsonObject({"budget": 5, "shade": 1})
    assert select_host_options(WatchedOptions, supplied, lambda name, _: name == "shape") == supplied
    assert select_host_options(WatchedOptions, None) is None


def test_which_classes_describe_options() -> None:
    """A class describes options if each of its fields says how it is decided."""

    @attrs.frozen
    class Mixed:
        known: int = option(default=1)
        other: int = 2

    assert [is_options_class(each) for each in (WatchedOptions, NoOptions)] == [True, True]
    assert [is_options_class(each) for each in (Mixed, int, WatchedOptions(), None)] == [False] * 4


STATED = st.fixed_dictionaries(
    {}, optional={"dialect": st.text(max_size=3), "shape": st.text(max_size=3), "budget": st.integers(0, 9)}
)


OPENINGS = (CREATE, CHILD, FORK, inheriting(CHILD, shape="round"), inheriting(FORK, shape="round"))


@given(first=st.none() | STATED, again=STATED, opening=st.sampled_from(OPENINGS))
def test_resolving_again_changes_nothing(
    first: dict[str, Any] | None, again: dict[str, Any], opening: Materialization
) -> None:
    """What was decided is whole and stays when the session comes back; pinned ones are met by a conflict or equal."""
    if opening.opening == "fork" and opening.parent is not None:
        first = {name: value for name, value in (first or {}).items() if name == "budget"}
    made = resolve(None, first, opening)
    assert set(made) == {"dialect", "shape", "budget"}
    assert resolve(made, None, RESUME) == resolve(made, dict(made), RESUME) == made
    differ = [name for name in ("dialect", "shape") if name in again and again[name] != made[name]]
    if differ:
        with pytest.raises(OptionConflict):
            resolve(made, again, RESUME)
    else:
        assert resolve(made, again, RESUME) == JsonObject({**made, **again})


@pytest.mark.parametrize("error", [ValueError("odd"), ZeroDivisionError("odd"), SystemExit("odd")])
def test_options_that_look_at_themselves(error: BaseException) -> None:
    """Whatever the class of a protocol raises over its values is a refusal that names the protocol."""

    @attrs.frozen(kw_only=True)
    class Looking:
        size: int = option(default=2)

        def __attrs_post_init__(self) -> None:
            if self.size % 2:
                raise error

    with pytest.raises(OptionsInvalid, match=f"options of the protocol p: {type(error).__name__}: odd") as caught:
        read_options("p", Looking, JsonObject({"size": 3}))
    assert "options.p" == caught.value.field


def test_options_that_are_too_large() -> None:
    """Options are part of every snapshot, so that they are bounded."""

    @attrs.frozen(kw_only=True)
    class Wordy:
        words: str = option(default="")

    stated = JsonObject({"words": "x" * limits.MAX_PROTOCOL_OPTIONS_BYTES})
    with pytest.raises(OptionsInvalid, match="65,536 are allowed"):
        resolve_options("p", Wordy, None, stated, CREATE)
