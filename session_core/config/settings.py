"""The table of all single settings: type, default, variable, and whether a project may change them."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, get_args

import attrs

from session_core.config.setting_kinds import (
    BooleanKind,
    ChoiceKind,
    IntegerKind,
    ListKind,
    NumberKind,
    PathKind,
    SettingKind,
    TextKind,
)
from session_core.limits import MAX_STEPS_PER_TURN
from session_core.vocabulary.protocols import STANDARD
from session_core.vocabulary.sessions import Thinking
from session_core.vocabulary.strictness import (
    PERMISSION_MODES,
    SANDBOX_MODES,
    is_as_strict_mode,
    is_as_strict_sandbox,
)

MAX_STEPS: Final = 10_000
"""A turn with more model calls than this is stuck, whatever its limit."""

Stricter = Callable[[Any, Any], bool]


def _is_always_allowed(_old: Any, _new: Any) -> bool:
    return True


def _is_not_more(old: Any, new: Any) -> bool:
    return old is None or new <= old


def _is_subset(old: Sequence[str], new: Sequence[str]) -> bool:
    return set(new) <= set(old)


def _unite(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


@attrs.frozen(kw_only=True)
class Setting:
    """One setting.

    Attributes:
        key: Its key in the file: `limits.steps` is `steps` in the table `[limits]`.
        kind: Its type and bounds.
        default: Its value if nothing sets it.
        about: Its purpose, in a few words.
        variable: The environment variable that sets it.
        is_stricter: Given the current value and a project's, returns whether the project's is at least as strict.
            Without it, a project may not change the setting.
        merge: Combines the current value with a project's; without it, the project's value replaces the current one.
        live: Whether a running program applies a change.
    """

    key: str
    kind: SettingKind
    default: Any
    about: str
    variable: str | None = None
    is_stricter: Stricter | None = None
    merge: Callable[[Any, Any], Any] | None = None
    live: bool = True


_TOOL: Final = TextKind(expected="the name of a tool", longest=64)

SETTINGS: Final = (
    Setting(
        key="model",
        kind=TextKind(expected="the name of a model"),
        default=None,
        about="the model of new sessions",
        variable="SESSION_CORE_MODEL",
    ),
    Setting(
        key="thinking",
        kind=ChoiceKind(get_args(Thinking)),
        default="off",
        about="how much the model reasons before it answers",
        variable="SESSION_CORE_THINKING",
    ),
    Setting(
        key="protocol",
        kind=TextKind(expected="the name of a protocol", longest=64),
        default=STANDARD,
        about="how the model acts in a turn, in new sessions",
        variable="SESSION_CORE_PROTOCOL",
        live=False,
    ),
    Setting(
        key="permission_mode",
        kind=ChoiceKind(PERMISSION_MODES),
        default="ask_writes",
        about="which tool calls need approval",
        variable="SESSION_CORE_PERMISSIONS",
        is_stricter=is_as_strict_mode,
    ),
    Setting(
        key="sandbox.mode",
        kind=ChoiceKind(SANDBOX_MODES),
        default="workspace_write",
        about="where tools may write",
        variable="SESSION_CORE_SANDBOX",
        is_stricter=is_as_strict_sandbox,
    ),
    Setting(
        key="sandbox.network",
        kind=BooleanKind(),
        default=False,
        about="whether commands may use the network",
        variable="SESSION_CORE_NETWORK",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="sandbox.writable_roots",
        kind=ListKind(PathKind()),
        default=(),
        about="folders besides the session's own that tools may write to",
        is_stricter=_is_subset,
    ),
    Setting(
        key="sandbox.sockets",
        kind=BooleanKind(),
        default=False,
        about="whether commands may use unix sockets",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="sandbox.readable",
        kind=ListKind(PathKind()),
        default=(),
        about="what commands may read in your home directory, besides toolchains and caches",
    ),
    Setting(
        key="limits.steps",
        kind=IntegerKind(1, MAX_STEPS),
        default=MAX_STEPS_PER_TURN,
        about="model calls in one turn",
        variable="SESSION_CORE_MAX_STEPS",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="limits.tokens",
        kind=IntegerKind(1),
        default=None,
        about="tokens of one turn, read and written",
        variable="SESSION_CORE_MAX_TOKENS",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="limits.cost",
        kind=NumberKind(Decimal(0), Decimal(100_000), including=False),
        default=None,
        about="dollars of one turn",
        variable="SESSION_CORE_MAX_COST",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="limits.seconds",
        kind=IntegerKind(1, 7 * 24 * 3_600),
        default=None,
        about="length of one turn",
        variable="SESSION_CORE_MAX_SECONDS",
        is_stricter=_is_not_more,
    ),
    Setting(
        key="tools.disabled",
        kind=ListKind(_TOOL),
        default=(),
        about="tools that the model cannot use",
        is_stricter=_is_always_allowed,
        merge=_unite,
    ),
    Setting(
        key="compaction.threshold",
        kind=NumberKind(Decimal("0.1"), Decimal("0.95")),
        default=Decimal("0.8"),
        about="how full the model's context may be before the conversation is compacted",
        live=False,
    ),
    Setting(key="mcp.file", kind=PathKind(), default=None, about="where your MCP servers are listed", live=False),
    Setting(
        key="skills.paths", kind=ListKind(PathKind()), default=(), about="folders with your own skills", live=False
    ),
    Setting(
        key="extensions.use",
        kind=BooleanKind(),
        default=True,
        about="whether extensions are started",
        variable="SESSION_CORE_EXTENSIONS",
        is_stricter=_is_not_more,
        live=False,
    ),
    Setting(
        key="extensions.flags",
        kind=ListKind(TextKind(expected="a flag, as name or name=value")),
        default=(),
        about="flags that are passed to extensions, as name or name=value",
        live=False,
    ),
    Setting(
        key="extensions.watch",
        kind=ListKind(TextKind(expected="the name of one of your extensions")),
        default=(),
        about="your extensions that are reloaded when their files change, without asking again",
        live=False,
    ),
    Setting(
        key="retention.archive_after_days",
        kind=IntegerKind(1),
        default=None,
        about="sessions untouched for this long are archived",
        live=False,
    ),
    Setting(
        key="retention.delete_archived_after_days",
        kind=IntegerKind(1),
        default=None,
        about="archived sessions untouched for this long are deleted",
        live=False,
    ),
)

BY_KEY: Final = {each.key: each for each in SETTINGS}
TABLES: Final = tuple(dict.fromkeys(each.key.partition(".")[0] for each in SETTINGS if "." in each.key))
RULES, PROVIDERS, MODELS = "permissions", "providers", "models"
"""The parts of the file that are not single settings."""
TOP_LEVEL: Final = (*(each.key for each in SETTINGS if "." not in each.key), *TABLES, RULES, PROVIDERS, MODELS)
BY_VARIABLE: Final = {each.variable: each for each in SETTINGS if each.variable is not None}
OTHER_VARIABLES: Final = frozenset({"SESSION_CORE_HOME", "SESSION_CORE_DEBUG"})
"""Variables of this program that are not settings."""


def keys_in(table: str) -> tuple[str, ...]:
    """Return the settings of one table of the file, without its name."""
    return tuple(each.key.partition(".")[2] for each in SETTINGS if each.key.startswith(f"{table}."))
