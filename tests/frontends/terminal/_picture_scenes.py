"""The scenes of the pictures: what a terminal shows while somebody works on a small shop, written down as states."""

from collections.abc import Awaitable, Callable, Mapping
from textwrap import dedent
from typing import Any, Final

import attrs

import session_core as sc
from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.screens.picker import Picker
from frontends.terminal.screens.picker_choices import model_choices
from frontends.terminal.screens.search import SearchScreen
from session_core.vocabulary.messages import Role
from tests.frontends.terminal._composing import set_text
from tests.frontends.terminal._staged import NOW_MS, SESSION, Stage, conversation, session, summary

FOLDER: Final = "/srv/shop"
MODEL: Final = "anthropic/claude-sonnet-5-5"
_SMALL_MODEL: Final = "anthropic/claude-haiku-5-5"
_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_TURN: Final = sc.TurnId("turn_1")
_SETTINGS: Final = sc.Settings(model=MODEL, cwd=FOLDER)


@attrs.frozen(kw_only=True)
class Scene:
    """One picture.

    Attributes:
        title: What can be seen, for those who cannot see it.
        play: Brings it about.
        environ: Variables that the terminal is started with.
    """

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    size: tuple[int, int] = (100, 30)
    theme: str | None = None
    environ: Mapping[str, str] = attrs.field(factory=dict)


def _shop(messages: list[sc.Message] | None = None, **more: Any) -> sc.SessionState:
    """The session that is viewed, idle unless something else is said."""
    usual = {
        "name": "round prices",
        "settings": _SETTINGS,
        "context_tokens": 18_400,
        "usage": sc.Usage(input_tokens=21_000, output_tokens=1_900, cost_micros=61_000),
    }
    return session(messages or [], **{**usual, **more})


def _working(name: sc.ActivityName, since_ms: int) -> dict[str, Any]:
    return {
        "activity": sc.Activity(name=name),
        "turn": sc.RunningTurn(turn_id=_TURN, started_at=NOW_MS - since_ms),
    }


def _other(session_id: str, name: str, does: sc.ActivityName = "idle", **more: Any) -> sc.SessionSummary:
    usual = {"cwd": FOLDER, "model": MODEL, "activity": sc.Activity(name=does)}
    return summary(session_id, name, **{**usual, **more})


def _neighbours() -> list[sc.SessionSummary]:
    """Other sessions, at all kinds of work; the dates of creation say in which order they stand."""
    crawl = sc.SessionId("s_report")
    made = iter(range(NOW_MS - _HOUR, 0, -_MINUTE))
    later = sc.Activity(name="rate_limited", retry_at=NOW_MS + 14_000)
    return [
        _other("s_report", "write the monthly report", "running_tools", created_at=next(made)),
        _other("h_1", "collect the orders", "streaming", parent_id=crawl, created_at=next(made)),
        _other("h_2", "check the totals", "waiting_for_model", parent_id=crawl, created_at=next(made)),
        _other("s_ask", "move the stock table", "awaiting_permission", open_requests=1, created_at=next(made)),
        _other("s_done", "explain the checkout", created_at=next(made), updated_at=NOW_MS - 3 * _HOUR),
        _other("s_late", "translate the mails", activity=later, created_at=next(made), queued=2, cwd="/srv/mails"),
        _other("s_stop", "tidy up the templates", "stopped", created_at=next(made), cwd="/srv/mails"),
        _other("s_fail", "update the mail server", "errored", created_at=next(made), cwd="/srv/mails"),
    ]


def _text(text: str) -> sc.TextPart:
    return sc.TextPart(text=dedent(text).strip())


def _call(number: int, tool: str, **arguments: Any) -> sc.ToolCallPart:
    return sc.ToolCallPart(call_id=sc.CallId(f"call_{number}"), name=tool, arguments=sc.JsonObject(arguments))


def _result(number: int, tool: str, text: str, **details: Any) -> sc.ToolResultPart:
    given = sc.JsonObject(details) if details else None
    return sc.ToolResultPart(call_id=sc.CallId(f"call_{number}"), name=tool, status="success", text=text, details=given)


# --- the conversation -------------------------------------------------------------------------------------------------

DIFF: Final = dedent("""\
    --- a/shop/prices.py
    +++ b/shop/prices.py
    @@ -12,6 +12,7 @@
     def total(items, rate):
         net = sum(item.price * item.count for item in items)
    -    return round(net * (1 + rate), 2)
    +    gross = Decimal(net) * (1 + Decimal(rate))
    +    return gross.quantize(CENT, ROUND_HALF_UP)


     def discount(total, percent):
    """)
_ASKED: Final = "Prices are a cent off when the tax is 7 %. Find out why, and repair it."
_COMMAND: Final = "python -m unittest -v tests.test_prices"
_THOUGHT: Final = (
    "The sum is a float, so 1.005 is a little less than it looks, and rounds down. Decimal knows the difference. "
    "I should keep the signature as it is, and run the tests of the prices afterwards."
)


def _repair() -> list[sc.Message]:
    """What was said and done until the tests are run."""
    read = "\n".join(f"line {number}" for number in range(1, 49))
    return conversation(
        ("user", [_text(_ASKED)]),
        (
            "assistant",
            [
                sc.ThinkingPart(text=_THOUGHT),
                _text("The total is calculated with floats. I look at how it is rounded."),
                _call(1, "grep", pattern="round\\(", path="shop"),
                _call(2, "read", path="shop/prices.py"),
            ],
        ),
        (
            "tool",
            [_result(1, "grep", "shop/prices.py\n  15: return round(net * (1 + rate), 2)"), _result(2, "read", read)],
        ),
        (
            "assistant",
            [
                _text("`round` works on a float here, and **1.005 becomes 1.00**. With `Decimal` it is exact:"),
                _call(3, "edit", path="shop/prices.py", old_text="…", new_text="…"),
            ],
        ),
        ("tool", [_result(3, "edit", "changed", diff=DIFF, added=2, removed=1, created=False)]),
        ("assistant", [_text("Now the tests."), _call(4, "bash", command=_COMMAND)]),
    )


_OUTPUT: Final = """\
test_total (tests.test_prices.Totals.test_total) ... ok
test_nothing (tests.test_prices.Totals.test_nothing) ... ok
test_seven_percent (tests.test_prices.Taxes.test_seven_percent) ... ok
test_discount (tests.test_prices.Totals.test_discount) ...
"""


def _testing() -> sc.SessionState:
    """The tests are being run."""
    live = sc.LiveTool(
        call_id=sc.CallId("call_4"),
        name="bash",
        arguments=sc.JsonObject({"command": _COMMAND}),
        started_at=NOW_MS - 3_000,
        output=_OUTPUT,
    )
    return _shop(_repair(), tools=(live,), **_working("running_tools", 21_000))


async def _conversation(stage: Stage) -> None:
    await stage.show(_testing(), *_neighbours())


_ANSWER: Final = """\
    ## What was wrong

    A price such as `1.005` has no exact float, so `round` decides by a hair:

    1. the net sum is **1.00499999…**
    2. `round(…, 2)` makes it *1.00*
    3. the customer sees one cent less

    ```python
    def total(items: list[Item], rate: str) -> Decimal:
        net = sum(item.price * item.count for item in items)
        return (net * (1 + Decimal(rate))).quantize(CENT)  # half up
    ```

    | tax | before | now |
    | --: | -----: | --: |
    | 7 % | 1.07 | 1.08 |
    | 19 % | 1.19 | 1.20 |

    > Old invoices keep their totals; only new ones are
    """


async def _answer(stage: Stage) -> None:
    """An answer that is still being written."""
    state = _shop(_repair()[:1], **_working("streaming", 8_000))
    message = sc.MessageId("m_next")
    events: list[sc.Event] = [
        sc.events.MessageStarted(message_id=message, parent_id=state.head, turn_id=_TURN, model=MODEL),
        sc.events.PartStarted(message_id=message, kind="thinking"),
        sc.events.PartDelta(message_id=message, text=_THOUGHT),
        sc.events.PartStarted(message_id=message, kind="text"),
        sc.events.PartDelta(message_id=message, text=dedent(_ANSWER).rstrip()),
    ]
    for number, event in enumerate(events, 1):
        state.apply(sc.SessionEvent(seq=number, session_id=SESSION, sseq=number, at=NOW_MS, event=event))
    await stage.show(state)


async def _sessions(stage: Stage) -> None:
    await stage.show(_testing(), *_neighbours())
    await stage.pilot.press("f2", "down")
    await stage.settle()


# --- questions --------------------------------------------------------------------------------------------------------


def _approval(tool: str, **more: Any) -> sc.Approval:
    usual = {
        "request_id": sc.RequestId(f"req_{tool}"),
        "call_id": sc.CallId("call_4"),
        "tool_name": tool,
        "requested_at": NOW_MS - 4_000,
        "expires_at": NOW_MS + 5 * _MINUTE - 4_000,
        "fingerprint": "print",
    }
    return sc.Approval(**{**usual, **more})


async def _command(stage: Stage) -> None:
    """May this command be run?"""
    how = [
        f"folder: {FOLDER}",
        f"sandbox: workspace_write, may change {FOLDER}",
        "network: off",
        "environment: PAGER=cat, GIT_PAGER=cat; handed on: HOME, LANG, PATH; nothing else",
        "ended after 120 seconds at the latest",
    ]
    approval = _approval(
        "bash",
        summary=f"run: {_COMMAND}",
        arguments=sc.JsonObject({"command": _COMMAND}),
        shown="\n".join([_COMMAND, "", *how]),
        reason="it runs a program",
        grant=f"run in {FOLDER}: {_COMMAND}",
    )
    state = _shop(_repair(), approvals=(approval,), **_working("awaiting_permission", 21_000))
    await stage.show(state)


async def _change(stage: Stage) -> None:
    """May a helper change this file?"""
    approval = _approval(
        "edit",
        summary="edit shop/prices.py (+2 -1)",
        arguments=sc.JsonObject({"path": "shop/prices.py"}),
        shown=DIFF,
        reason="it changes files",
        grant="edit",
        session_id=sc.SessionId("h_1"),
    )
    helper = _other("h_1", "repair the rounding", "awaiting_permission", parent_id=SESSION, open_requests=1)
    state = _shop(_repair()[:1], approvals=(approval,), **_working("running_tools", 21_000))
    await stage.show(state, helper)
    await stage.pilot.press("f8", "s")
    await stage.settle()


async def _dialog(stage: Stage) -> None:
    """An extension asks something."""
    dialog = sc.Dialog(
        request_id=sc.RequestId("req_dialog"),
        kind="select",
        title="Where shall the release go?",
        message="The tests have passed, and the version is 2.4.0.",
        choices=("the test server", "one shop, as a trial", "all shops", "nowhere yet"),
        opened_at=NOW_MS - 9_000,
        expires_at=NOW_MS + 2 * _MINUTE,
        extension="deploy",
    )
    said = conversation(
        ("user", [_text("Get the release ready.")]),
        ("assistant", [_text("All tests pass. I hand over to deploy.")]),
    )
    await stage.show(_shop(said, dialogs=(dialog,), **_working("running_tools", 4_000)))
    await stage.pilot.press("down")
    await stage.settle()


# --- what stands beside the conversation ------------------------------------------------------------------------------


async def _panels(stage: Stage) -> None:
    """Plan, queue, and what an extension shows."""
    plan = (
        sc.PlanItem(text="Find out where prices are rounded", status="done"),
        sc.PlanItem(text="Calculate with Decimal", status="done"),
        sc.PlanItem(text="Run the tests of the prices", status="in_progress"),
        sc.PlanItem(text="Look for other places that use floats for money"),
        sc.PlanItem(text="Write down what has changed"),
    )
    queue = (
        _waiting("q1", "Leave discount() as it is.", "steer"),
        _waiting("q2", "Say in the changelog what was wrong.", "follow_up"),
    )
    children = (
        sc.JsonObject({"kind": "progress", "value": 0.43, "label": "3 of 7 tests"}),
        sc.JsonObject({"kind": "keyvalue", "rows": (_pair("passed", "3"), _pair("slowest", "test_nothing, 0.8 s"))}),
    )
    body = sc.JsonObject({"kind": "stack", "children": children})
    keys = (
        sc.JsonObject({"key": "r", "description": "run again"}),
        sc.JsonObject({"key": "f", "description": "failed"}),
    )
    widget = sc.JsonObject({"kind": "widget", "widget_id": "w", "body": body, "keybindings": keys})
    display = sc.extensions.ExtensionDisplay(extension="tests", title="prices", status="running", widget=widget)
    await stage.show(attrs.evolve(_testing(), plan=plan, queue=queue, displays=(display,)))
    await stage.pilot.press("alt+p", "f7")
    await stage.settle()


def _waiting(item_id: str, text: str, how: sc.DeliverAs) -> sc.QueueItem:
    return sc.QueueItem(
        item_id=sc.QueueItemId(item_id), parts=(_text(text),), deliver_as=how, queued_at=NOW_MS - _MINUTE
    )


def _pair(key: str, value: str) -> sc.JsonObject:
    return sc.JsonObject({"key": key, "value": value})


# --- what is on top of it ---------------------------------------------------------------------------------------------


async def _commands(stage: Stage) -> None:
    await stage.show(_shop(_repair()[:5]))
    await stage.pilot.press("slash")
    await stage.settle()


async def _files(stage: Stage) -> None:
    async def complete(_: str) -> list[Suggestion]:
        return [
            Suggestion(value=path)
            for path in ("shop/prices.py", "tests/test_prices.py", "docs/prices.md", "shop/price_list/")
        ]

    await stage.show(_shop(_repair()[:5]))
    stage.app.composer.set_completers({"@": complete})
    set_text(stage.app.composer, "Compare it with @pr")
    await stage.pilot.press("ctrl+e", "i")
    await stage.settle()


async def _models(stage: Stage) -> None:
    def model(name: str, context: int, **more: Any) -> sc.ListedModel:
        usual = {"provider": name.partition("/")[0], "usable": True, "can_think": True}
        return sc.ListedModel(name=name, context_tokens=context, **{**usual, **more})

    needs = {"usable": False, "why_not": "set OPENAI_API_KEY; this counts from the next start of the service on"}
    models = [
        model(MODEL, 1_000_000, can_see=True),
        model("anthropic/claude-opus-5-5", 1_000_000, can_see=True),
        model(_SMALL_MODEL, 1_000_000, can_see=True),
        model("ollama/qwen3", 40_000),
        model("openai/gpt-6.1-sol", 1_050_000, **needs),
        model("openai/gpt-6-luna", 1_050_000, **needs),
    ]
    await stage.show(_shop(_repair()[:5]))
    await stage.app.push_screen(Picker("Model", model_choices(models, MODEL)))
    await stage.settle()


async def _search(stage: Stage) -> None:
    found = (
        _hit("round prices", "user", 10, _ASKED),
        _hit("round prices", "assistant", 9, "The total is calculated with floats. I look at how it is rounded."),
        _hit("write the monthly report", "assistant", 180, "The totals are rounded to cents before they are added."),
        _hit("explain the checkout", "user", 1_500, "Where is the tax rounded, before or after the discount?"),
    )

    async def search(_: str) -> tuple[sc.SearchHit, ...]:
        return found

    await stage.show(_shop(_repair()[:5]))
    await stage.app.push_screen(SearchScreen(search, "round"))
    await stage.settle()


def _hit(name: str, role: Role, minutes: int, excerpt: str) -> sc.SearchHit:
    return sc.SearchHit(
        session_id=SESSION,
        session_name=name,
        message_id=sc.MessageId("m0"),
        role=role,
        created_at=NOW_MS - minutes * _MINUTE,
        excerpt=excerpt,
    )


async def _help(stage: Stage) -> None:
    await stage.show(_shop(_repair()[:5]))
    await stage.pilot.press("f1")
    await stage.settle()


async def _usage(stage: Stage) -> None:
    def used(model: str, source: str, calls: int, *figures: int) -> sc.UsageLine:
        read, cached, written, cost = figures
        usage = sc.Usage(input_tokens=read, cache_read_tokens=cached, output_tokens=written, cost_micros=cost)
        return sc.UsageLine(model=model, source=source, calls=calls, usage=usage)

    lines = (
        used(MODEL, "turn", 14, 21_400, 188_000, 5_100, 131_400),
        used(MODEL, "compaction", 1, 18_000, 0, 900, 45_000),
        used(_SMALL_MODEL, "turn", 6, 9_300, 31_000, 1_200, 1_840),
    )
    whole = sc.Usage()
    for line in lines:
        whole = whole.plus(line.usage)
    await stage.show(_shop(_repair()[:5], usage_by=lines, usage=whole))
    stage.app.settings.action_usage()
    await stage.settle()


async def _welcome(stage: Stage) -> None:
    stage.app.choices.default_model = "anthropic/claude-sonnet-5-5"
    await stage.show(None, *_neighbours())


async def _small(stage: Stage) -> None:
    await stage.show(_testing(), *_neighbours())
    set_text(stage.app.composer, "and the discount")
    await stage.pilot.press("ctrl+e")
    await stage.settle()


SCENES: Final = (
    Scene(name="welcome", title="A new session: what to type, and the list of other sessions", play=_welcome),
    Scene(
        name="conversation",
        title="A conversation with tool calls, a change of a file, and tests that run",
        play=_conversation,
        size=(120, 34),
    ),
    Scene(name="answer", title="An answer that is being written", play=_answer, size=(90, 34)),
    Scene(
        name="sessions",
        title="The list of sessions, with subagents under their parent",
        play=_sessions,
        size=(116, 28),
    ),
    Scene(name="command", title="A question: may this command be run?", play=_command, size=(90, 34)),
    Scene(name="change", title="A question: may this file be changed?", play=_change, size=(90, 30)),
    Scene(name="dialog", title="A question of an extension", play=_dialog, size=(90, 24)),
    Scene(
        name="panels", title="The plan, messages that wait, and what an extension shows", play=_panels, size=(90, 34)
    ),
    Scene(name="commands", title="The slash commands", play=_commands, size=(90, 30)),
    Scene(name="files", title="Suggested files after @", play=_files, size=(90, 24)),
    Scene(name="models", title="The models to choose from", play=_models, size=(90, 26)),
    Scene(name="search", title="A search in all sessions", play=_search, size=(90, 26)),
    Scene(name="help", title="All keys and commands", play=_help, size=(110, 40)),
    Scene(name="usage", title="What a session has used and cost", play=_usage, size=(100, 26)),
    Scene(name="small", title="A conversation in a window of 80 columns and 24 rows", play=_small, size=(80, 24)),
    Scene(
        name="plain",
        title="The conversation without colours",
        play=_conversation,
        size=(120, 34),
        environ={"NO_COLOR": "1"},
    ),
    Scene(
        name="light",
        title="The conversation in a light theme",
        play=_conversation,
        size=(120, 34),
        theme="session-light",
    ),
)
