"""What there is to choose from."""

from typing import Literal

import attrs
from textual.theme import BUILTIN_THEMES

import session_core as sc
from frontends.terminal.look.permission_words import MODES
from frontends.terminal.look.themes import ABOUT, THEMES
from frontends.terminal.screens import picker_choices
from tests.frontends.terminal.panels.test_session_order import summary

LATER = "; this counts from the next start of the service on"


def session_list(*sessions: sc.SessionSummary) -> sc.SessionListState:
    """A service with these sessions."""
    state = sc.SessionListState()
    state.sessions = {each.session_id: each for each in sessions}
    return state


def message(name: str, role: Literal["user", "assistant"], text: str, parent: str | None = None) -> sc.Message:
    """A message called by its name."""
    return sc.Message(
        message_id=sc.MessageId(name),
        role=role,
        parts=(sc.TextPart(text=text),),
        parent_id=None if parent is None else sc.MessageId(parent),
        created_at=0,
    )


def test_modes_and_thinking_are_complete() -> None:
    """Every mode and every way of thinking can be chosen, and the one in use is marked."""
    assert [each.label for each in picker_choices.mode_choices("full") if each.current] == ["full"]
    assert {each.value for each in picker_choices.mode_choices(None)} == set(MODES)
    assert [each.value for each in picker_choices.thinking_choices("low") if each.current] == ["low"]


def test_models_that_cannot_be_used_come_last_and_say_why() -> None:
    """A model without its key is listed with the reason, after those that can be used, and cannot be chosen."""
    models = [
        sc.ListedModel(name="a/far", provider="a", usable=False, why_not=f"set A_KEY{LATER}"),
        sc.ListedModel(name="b/near", provider="b", usable=True, context_tokens=200_000, can_think=True),
    ]
    near, far = picker_choices.model_choices(models, "b/near")
    assert (near.value, near.detail, near.current, near.enabled) == ("b/near", "200k context  thinks", True, True)
    assert (far.value, far.detail, far.enabled) == ("a/far", "set A_KEY, restart the service", False)


def test_what_models_can_do_stands_in_columns() -> None:
    """A large context is told in millions; who has a model is told where its name does not."""
    models = [
        sc.ListedModel(name="a/one", provider="a", usable=True, context_tokens=1_000_000, can_see=True),
        sc.ListedModel(name="two", provider="b", usable=True, context_tokens=1_050_000, can_think=True, can_see=True),
        sc.ListedModel(name="b/three", provider="b", usable=True),
    ]
    assert [each.detail for each in picker_choices.model_choices(models, "")] == [
        "1M context            sees images",
        "1.05M context thinks  sees images  b",
        "",
    ]


def test_our_themes_come_first() -> None:
    """The themes that we say something about are offered first."""
    names = ["zebra", *reversed([each.name for each in THEMES]), "ansi-light", "ansi-dark", "abc"]
    offered = picker_choices.theme_choices(names, "abc")
    assert [each.value for each in offered] == [*ABOUT, "abc", "zebra"]
    assert [each.value for each in offered if each.current] == ["abc"]


def test_sessions_that_were_put_away_come_last() -> None:
    """All sessions can be chosen, helpers beneath whom they work for, archived ones at the end and marked as such."""
    asks = attrs.evolve(summary("b", at=2), open_requests=2, activity=sc.Activity(name="awaiting_permission"))
    away = summary("gone", at=9, archived=True)
    choices = picker_choices.session_choices(
        session_list(away, summary("a", at=1), asks, summary("help", parent="a")),
        here="/a",
        viewed=asks.session_id,
        now_ms=0,
    )
    assert [(each.label, each.current) for each in choices] == [
        ("? b", True),
        ("○ a", False),
        ("  ○ help", False),
        ("○ gone", False),
    ]
    assert choices[0].detail == "asks you, 2 questions, just now, /a"
    assert choices[3].detail == "archived, just now, /a"


def test_names_are_inert() -> None:
    """A name from elsewhere is one line without anything that a terminal obeys."""
    choices = picker_choices.session_choices(
        session_list(attrs.evolve(summary("s"), name="\x1b[2Ja\n\u202eb")), here="/a", viewed=None, now_ms=0
    )
    assert choices[0].label == "○ a <U+202E>b"


def test_what_was_said_and_branches() -> None:
    """What people said is offered newest first, and each branch by the last thing said in it."""
    messages = [
        message("1", "user", "first"),
        message("2", "assistant", "one", "1"),
        message("3", "user", "second", "2"),
        message("4", "user", "other", "2"),
        message("5", "assistant", "two", "4"),
    ]
    state = sc.SessionState(session_id=sc.SessionId("s"), head=sc.MessageId("5"))
    for each in messages:
        state.messages = state.messages.append(each)
    assert [each.label for each in picker_choices.user_message_choices(state, 0)] == ["other", "first"]
    branches = picker_choices.branch_choices(state, 0)
    assert [(each.label, each.detail, each.current) for each in branches] == [
        ("other", "just now, 4 messages", True),
        ("second", "just now, 3 messages", False),
    ]


def test_themes_that_we_speak_of_are_there() -> None:
    """Every theme that we say something about can be used."""
    assert set(ABOUT) <= {each.name for each in THEMES} | set(BUILTIN_THEMES)


def test_a_shell_line_is_offered_as_it_was_typed() -> None:
    """What a person has run in the shell is listed by its command."""
    ran = message("1", "user", "I have run this command myself (error):\n\n$ make test\n\nno such target")
    state = sc.SessionState(session_id=sc.SessionId("s"), head=sc.MessageId("1"), messages=sc.Vector([ran]))
    assert [each.label for each in picker_choices.user_message_choices(state, 0)] == ["! make test"]


def test_what_can_be_done_about_an_extension() -> None:
    """An extension that is off can only be switched on, any other only reloaded or switched off."""
    info = sc.extensions.ExtensionInfo(
        name="tidy", version="1", scope="project", state="failed", problem="no", folder="/a"
    )
    assert picker_choices.extension_choices([info])[0].detail == "failed: no (project, /a)"
    assert [each.value for each in picker_choices.extension_actions(info) if each.enabled] == ["reload", "disable"]
    off = attrs.evolve(info, state="disabled")
    assert [each.value for each in picker_choices.extension_actions(off) if each.enabled] == ["enable"]
