"""The tables inside the pages that the code knows best; `docs.generate` puts each between its marks.

A mark is `<!-- generated: NAME -->`, with a NAME of `TABLES`, and ends at the next `<!-- end -->`.
"""

# ruff: noqa: INP001 - a folder of documents, not a package

import inspect
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, get_args

import trio

import session_core as sc
from frontends.terminal.actions.slash_commands import SLASH
from frontends.terminal.screens import help_page
from session_core.permissions.answers import ANSWERS, AnswerRole
from session_core.permissions.decision import (
    DECIDERS,
    RIGHT_WORDS,
    CallFacts,
    Grants,
    PermissionCall,
    decide,
)
from session_core.providers.catalogue import BUILT_IN_PROVIDERS, PER_MILLION, Prices, built_in_models
from session_core.sandbox.home_directory import READABLE_AT_HOME
from session_core.sandbox.protected_paths import PROTECTED
from session_core.sandbox.secrets import SECRET_PATHS
from session_core.session.activity import rules_as_markdown

_MARKED: Final = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH: Final = 118
_VERDICTS: Final = {"allow": "runs", "ask": "asks", "deny": "refused"}
_MODES_TEST: Final = "[test_the_table](../tests/session_core/permissions/test_decision.py)"
_ANSWERS_TESTS: Final = (
    "[test_what_a_guest_may_answer](../tests/hostile/test_guest_answers.py), "
    "[test_without_a_sandbox_once_only](../tests/session_core/permissions/test_answers.py), "
    "[{}](../tests/session_core/permissions/test_answers.py)"
)
_KINDS: Final = {
    "anthropic": "Messages",
    "openai_chat": "Chat Completions",
    "openai_responses": "Responses",
}


def filled(text: str) -> str:
    """Return the text of a page with fresh tables in it."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", text)


def tools_table() -> str:
    """Every tool of a coding agent, as `open_setup` puts it together."""
    rows = [
        (f"`{tool.spec.name}`", _first_sentence(tool), ", ".join(sorted(tool.effects)))
        for tool in trio.run(_tools_of_an_agent)
    ]
    return _table(("tool", "what it does", "effects"), rows)


async def _tools_of_an_agent() -> tuple[sc.Tool, ...]:
    with tempfile.TemporaryDirectory() as folder:
        # With a key nobody is asked whether a model runs on this machine, and the demo's own tools are left out.
        place = sc.setup.AgentEnvironment(
            home=Path(folder, "home"), folder=folder, environ={"ANTHROPIC_API_KEY": "not-a-key"}, is_persistent=False
        )
        async with sc.setup.open_setup(place) as setup:
            return setup.service.tools


def _first_sentence(tool: sc.Tool) -> str:
    paragraph = inspect.cleandoc(type(tool).__doc__ or "").split("\n\n")[0]
    return re.split(r"[.;](?:\s|$)", paragraph)[0]


def modes_table() -> str:
    """What becomes of a call in each mode, by what it does."""
    effects: tuple[sc.Effect, ...] = get_args(sc.Effect)
    rows = [
        (f"`{mode}`", *(_verdict(mode, effect) for effect in effects), _MODES_TEST)
        for mode in get_args(sc.PermissionMode)
    ]
    return _table(("mode", *(f"`{effect}`" for effect in effects), "test"), rows)


def _verdict(mode: sc.PermissionMode, effect: sc.Effect) -> str:
    call = PermissionCall(tool="any", grant="any", fingerprint="")
    return _VERDICTS[decide(call, CallFacts(effects=frozenset({effect})), (), Grants(), mode).decision]


def deciders_list() -> str:
    """Who decides about a call, in order, with an example each."""
    lines = [f"{number}. {each.when} ({each.example})" for number, each in enumerate(DECIDERS, start=1)]
    return (
        "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="   ", break_on_hyphens=False) for line in lines) + "\n"
    )


def answers_table() -> str:
    """Which answers count, by what a call wants and by who answers."""
    rows = [
        (
            "nothing" if right is None else RIGHT_WORDS[right],
            *(_coded(table[role]) for role in get_args(AnswerRole)),
            _ANSWERS_TESTS.format(
                "test_a_guest_allows_nothing_for_good"
                if right is None
                else "test_nothing_of_a_guest_lasts_beyond_a_call"
            ),
        )
        for right, table in ANSWERS.items()
    ]
    return _table(("beyond its sandbox, the call wants to", "you", "a client with a scoped token", "test"), rows)


def _coded(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def protected_list() -> str:
    """The paths in a project that no tool changes without a yes."""
    return _listed(PROTECTED)


def readable_list() -> str:
    """The places in a user's home directory that commands see."""
    return _listed(f"~/{path}" for path in READABLE_AT_HOME)


def secrets_list() -> str:
    """The places in a user's home directory that stay hidden where what is around them is visible."""
    return _listed(f"~/{path}" for path in SECRET_PATHS)


def providers_table() -> str:
    """Who can be asked without any configuration."""
    rows = [
        (f"`{each.name}`", _KINDS[each.kind], each.base_url, f"`{each.key_env}`" if each.key_env else "none needed")
        for each in BUILT_IN_PROVIDERS
    ]
    return _table(("provider", "interface", "address", "key"), rows)


def models_table() -> str:
    """The models that are known without any configuration, in the order in which one is picked."""
    rows = [
        (
            f"`{each.name}`",
            ", ".join(f"`{alias}`" for alias in each.aliases),
            f"{each.context_tokens:,}",
            _price(each.prices),
            each.thinking,
        )
        for each in built_in_models()
    ]
    return _table(("model", "alias", "context", "$ in / out", "thinking"), rows)


def _price(prices: Prices | None) -> str:
    return "?" if prices is None else f"{prices.input / PER_MILLION:g} / {prices.output / PER_MILLION:g}"


def terminal_keys() -> str:
    """What can be pressed in the terminal, part by part, in the words of its help screen."""
    parts = [(title, rows) for title, rows in help_page.tables(()) if title != "Commands"]
    return "\n".join(
        f"**{title}**\n\n{_table(('key', 'what it does'), [(_plain(key), _plain(what)) for key, what in rows])}"
        for title, rows in parts
    )


def terminal_commands() -> str:
    """What can be typed after a slash in the terminal."""
    rows = [
        (f"`{f'/{each.name} {each.hint}'.strip()}`", each.help, ", ".join(f"`/{alias}`" for alias in each.aliases))
        for each in SLASH
    ]
    return _table(("command", "what it does", "also"), rows)


def _plain(text: str) -> str:
    """Return text that Markdown leaves as it is."""
    return re.sub(r"([_*`|\\])", r"\\\1", text)


def _listed(paths: Iterable[str]) -> str:
    """Return paths as lines of a paragraph."""
    lines = [""]
    for path in paths:
        word = f"`{path}`"
        if lines[-1] and len(f"{lines[-1]}, {word}") > _WIDTH:
            lines[-1] += ","
            lines.append("")
        lines[-1] += f", {word}" if lines[-1] else word
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "activity rules": rules_as_markdown,
    "tools": tools_table,
    "modes": modes_table,
    "deciders": deciders_list,
    "answers": answers_table,
    "protected": protected_list,
    "readable": readable_list,
    "secrets": secrets_list,
    "providers": providers_table,
    "models": models_table,
    "terminal keys": terminal_keys,
    "terminal commands": terminal_commands,
}
