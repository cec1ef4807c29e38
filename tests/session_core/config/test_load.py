"""The whole configuration: which layer wins, where values come from, and that everything wrong is told at once."""

import shlex
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given

from session_core.config.load import load_config
from session_core.config.problems import MAX_PROBLEMS, ConfigInvalid, ConfigProblem
from session_core.config.values import SettingSource
from session_core.permissions.rules import PermissionRule
from session_core.providers.catalogue import LongPrompt, ModelInfo, Prices
from session_core.providers.secrets import Secret
from session_core.storage.retention_settings import Retention
from session_core.vocabulary.sessions import SandboxPolicy, TurnLimits
from tests.session_core.config._documents import KEY, documents, load, to_toml, write_user

UNKNOWN = "there is no such setting"
EVERYTHING = """
model = "opus"
thinking = "high"
permission_mode = "auto_edit"

[sandbox]
mode = "full_access"
network = true
writable_roots = ["/srv/cache", "/srv/cache"]

[limits]
steps = 50
tokens = 2_000_000
cost = 1.25
seconds = 600

[tools]
disabled = ["web_fetch"]

[compaction]
threshold = 0.5

[mcp]
file = "/etc/mcp.json"

[skills]
paths = ["/srv/skills"]

[retention]
archive_after_days = 30
delete_archived_after_days = 90

[[permissions]]
tool = "bash"
command = "git status"
decision = "allow"

[providers.mine]
kind = "openai_chat"
base_url = "http://localhost:8080/v1/"
headers = { x-team = "blue" }

[[models]]
name = "mine/large"
aliases = ["large"]
context_tokens = 64_000
prices = { input = 0.5, output = 1 }
long_prompt = { above = 1000, input = 1, output = 2, cache_read = 0.25 }
thinking = "adaptive"
images = false
retires = 2027-05-01
"""


def problems_of(tmp_path: Path, text: str) -> list[tuple[int | None, str, str]]:
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user=text)
    return [(each.line, each.key, each.what) for each in refused.value.problems]


def test_nothing_set(tmp_path: Path) -> None:
    """Without any file there are defaults, and every one of them says that it is one."""
    config = load_config(tmp_path / "missing", tmp_path, {})

    assert (None, "off", "ask_writes", ()) == (
        config.model,
        config.thinking,
        config.permission_mode,
        config.permissions,
    )
    assert (SandboxPolicy(), TurnLimits(steps=200), Retention()) == (config.sandbox, config.limits, config.retention)
    assert ["anthropic", "openai", "openrouter", "ollama"] == [each.name for each in config.providers]
    assert ({}, ()) == (dict(config.sources), config.remarks)
    assert SettingSource(layer="default") == config.source("model")


def test_everything_set(tmp_path: Path) -> None:
    """Every setting of the user's file arrives, with the line it stands in."""
    config = load(tmp_path, user=EVERYTHING)

    assert ("opus", "high", "auto_edit") == (config.model, config.thinking, config.permission_mode)
    assert SandboxPolicy(mode="full_access", network=True, writable_roots=("/srv/cache",)) == config.sandbox
    assert TurnLimits(steps=50, tokens=2_000_000, cost_micros=1_250_000, time_ms=600_000) == config.limits
    assert (("web_fetch",), 0.5) == (config.disabled_tools, config.compaction_threshold)
    assert ("/etc/mcp.json", ("/srv/skills",)) == (config.mcp_file, config.skill_paths)
    assert Retention(archive_after_days=30, delete_archived_after_days=90) == config.retention
    assert (PermissionRule(decision="allow", tool="bash", command="git status"),) == config.permissions
    mine = config.providers[-1]
    assert ("mine", "openai_chat", "http://localhost:8080/v1") == (mine.name, mine.kind, mine.base_url)
    assert ((("x-team", Secret("blue")),), True) == (mine.headers, mine.chosen_by_user)
    prices = Prices(input=500_000, output=1_000_000, cache_read=500_000, cache_write=500_000)
    long = Prices(input=1_000_000, output=2_000_000, cache_read=250_000, cache_write=1_000_000)
    assert config.models[0] == ModelInfo(
        name="mine/large",
        provider="mine",
        api_id="large",
        aliases=("large",),
        context_tokens=64_000,
        prices=prices,
        long_prompt=LongPrompt(above=1000, prices=long),
        thinking="adaptive",
        images=False,
        retires=date(2027, 5, 1),
    )
    place = str(tmp_path / "home" / "config.toml")
    assert SettingSource(layer="user", place=place, line=2) == config.source("model")
    assert f"{place}:12" == str(config.source("limits.steps"))
    assert 33 == config.source("permissions[1]").line
    assert 40 == config.source("providers.mine.base_url").line


def test_later_layers_win(tmp_path: Path) -> None:
    """Flags come before variables, those before the project, that before the user's file, that before defaults."""
    user = 'permission_mode = "full"\nthinking = "high"\nmodel = "opus"\n[limits]\nsteps = 100\ntokens = 100\n'
    config = load(
        tmp_path,
        user=user,
        project='permission_mode = "ask_all"\n[limits]\nsteps = 50\ntokens = 50\n',
        environ={"SESSION_CORE_MAX_TOKENS": "40", "SESSION_CORE_MODEL": "sonnet", "SESSION_CORE_THINKING": "  "},
        flags={"model": "haiku", "thinking": None, "permission_mode": "ask_writes"},
    )

    assert ("haiku", "high", "ask_writes", 50, 40) == (
        config.model,
        config.thinking,
        config.permission_mode,
        config.limits.steps,
        config.limits.tokens,
    )
    assert {
        "model": "flag",
        "thinking": "user",
        "permission_mode": "flag",
        "limits.steps": "project",
        "limits.tokens": "environment",
    } == {key: source.layer for key, source in config.sources.items()}
    assert "--permissions" == str(config.source("permission_mode"))
    assert "SESSION_CORE_MAX_TOKENS" == str(config.source("limits.tokens"))


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("SESSION_CORE_NETWORK", "Yes", True),
        ("SESSION_CORE_NETWORK", "0", False),
        ("SESSION_CORE_SANDBOX", "read_only", "read_only"),
        ("SESSION_CORE_MAX_STEPS", " 7 ", 7),
        ("SESSION_CORE_MAX_COST", "0.5", 500_000),
        ("SESSION_CORE_MAX_SECONDS", "60", 60_000),
    ],
)
def test_variables(tmp_path: Path, variable: str, text: str, expected: object) -> None:
    """A variable is read as its setting wants it, blanks around it aside."""
    config = load(tmp_path, environ={variable: text})

    assert (
        expected
        == {
            "SESSION_CORE_NETWORK": config.sandbox.network,
            "SESSION_CORE_SANDBOX": config.sandbox.mode,
            "SESSION_CORE_MAX_STEPS": config.limits.steps,
            "SESSION_CORE_MAX_COST": config.limits.cost_micros,
            "SESSION_CORE_MAX_SECONDS": config.limits.time_ms,
        }[variable]
    )


@pytest.mark.parametrize(
    ("variable", "text", "what"),
    [
        ("SESSION_CORE_NETWORK", "maybe", "expected true or false, not 'maybe'"),
        ("SESSION_CORE_MAX_STEPS", "-1", "expected a whole number from 1 to 10,000, not '-1'"),
        ("SESSION_CORE_MAX_STEPS", "9" * 5_000, f"expected a whole number from 1 to 10,000, not '{'9' * 40}...'"),
        ("SESSION_CORE_MAX_COST", "NaN", "expected a number greater than 0 and at most 100,000, not NaN"),
        ("SESSION_CORE_MAX_COST", "a lot", "expected a number greater than 0 and at most 100,000, not 'a lot'"),
    ],
)
def test_wrong_variables(tmp_path: Path, variable: str, text: str, what: str) -> None:
    """A variable that makes no sense is a problem that names the variable and the setting."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, environ={variable: text})

    [problem] = refused.value.problems
    assert (variable, what) == (problem.place, problem.what)


def test_a_variable_nobody_knows(tmp_path: Path) -> None:
    """A misspelt variable is remarked upon, with what was probably meant; those of others are none of our business."""
    config = load(tmp_path, environ={"SESSION_CORE_MODLE": "opus", "SESSION_CORE_HOME": "/x", "PATH": "/bin"})

    assert ("SESSION_CORE_MODLE is set but has no effect; did you mean SESSION_CORE_MODEL?",) == config.remarks


def test_wrong_flags(tmp_path: Path) -> None:
    """Flags are checked like everything else."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, flags={"limits.steps": 0, "limits.step": 1, "model": "sonet"})

    assert [
        ConfigProblem(
            place="--limits-steps", key="limits.steps", what="expected a whole number from 1 to 10,000, not 0"
        ),
        ConfigProblem(
            place="--limits-step", key="limits.step", what="there is no such setting; did you mean limits.steps?"
        ),
        ConfigProblem(place="--model", key="model", what="there is no model called 'sonet'; did you mean sonnet?"),
    ] == list(refused.value.problems)


@pytest.mark.parametrize(
    ("text", "line", "key", "what"),
    [
        ("\nmodle = 'x'", 2, "modle", "there is no such setting; did you mean model?"),
        ("zzz = 1", 1, "zzz", "there is no such setting"),
        (
            "permissions = 'ask'",
            1,
            "permissions",
            "expected rules, each under [[permissions]]; did you mean permission_mode?",
        ),
        ("model = 5", 1, "model", "expected the name of a model, not 5"),
        (
            "model = 'nobody/x'\n[extensions]\nuse = false",
            1,
            "model",
            "there is no model called 'nobody/x'; see: session-core models --all",
        ),
        ("[limits]\n\nsteps = 0", 3, "limits.steps", "expected a whole number from 1 to 10,000, not 0"),
        ("limits = {steps = true}", 1, "limits.steps", "expected a whole number from 1 to 10,000, not true"),
        ("limits = 5", 1, "limits", "expected a table, [limits]"),
        ("[Limits]", 1, "Limits", "there is no such setting; did you mean limits?"),
        (
            "[limits]\ncost = inf",
            2,
            "limits.cost",
            "expected a number greater than 0 and at most 100,000, not Infinity",
        ),
        (
            "[limits]\ntokens = 0xFFFFFFFFFFFFFFFFFFFFFFF",
            2,
            "limits.tokens",
            "expected a whole number of at least 1, not a number that is too large",
        ),
        ("thinking = 'hihg'", 1, "thinking", "expected one of off, low, medium, high, not 'hihg'; did you mean high?"),
        (
            "[sandbox]\nwritable_roots = ['x']",
            2,
            "sandbox.writable_roots",
            "expected a path that begins with / or ~/, not 'x'",
        ),
        ("[compaction]\nthreshold = 1", 2, "compaction.threshold", "expected a number from 0.1 to 0.95, not 1"),
        ("permissions = 1", 1, "permissions", "expected a list of tables, each headed [[permissions]]"),
        ("permissions = [1]", 1, "permissions[1]", "expected a table, headed [[permissions]]"),
        ("[[permissions]]\ntool = 'x'", 1, "permissions[1]", "a rule needs a decision: allow, ask or deny"),
        (
            "[[permissions]]\ndecision = 'deny'",
            1,
            "permissions[1]",
            "a rule needs at least one of tool, path and command",
        ),
        ("[[permissions]]\ntol = 'x'", 2, "permissions[1].tol", f"{UNKNOWN}; did you mean permissions[1].tool?"),
        ("[providers.Mine]", 1, "providers.Mine", "expected a provider's name of small letters, digits, - and _"),
        ("[providers.mine]", 1, "providers.mine", "a provider of your own needs kind and base_url too"),
        (
            "[providers.openai]\nkinds = 'x'",
            2,
            "providers.openai.kinds",
            f"{UNKNOWN}; did you mean providers.openai.kind?",
        ),
        (
            "[[models]]\nid = 'x'",
            1,
            "models[1]",
            'a model needs a name: a provider, a slash and the model\'s name there, such as "ollama/qwen3"',
        ),
        ("[[models]]\nname = 'nobody/x'", 1, "models[1].name", "there is no provider called 'nobody'"),
        ("[[models]]\nname = 'ollama/x'\nprices = {input = 1}", 3, "models[1].prices", "output must be set too"),
        (
            "[[models]]\nname = 'ollama/x'\n[[models]]\nname = 'ollama/x'",
            3,
            "models[2]",
            "two models are called 'ollama/x'",
        ),
        (
            "[retention]\narchive_after = 30",
            2,
            "retention.archive_after",
            f"{UNKNOWN}; did you mean retention.archive_after_days?",
        ),
    ],
)
def test_each_mistake_has_its_sentence(tmp_path: Path, text: str, line: int, key: str, what: str) -> None:
    """A problem names the line, the setting, what is wrong, and what was probably meant."""
    assert [(line, key, what)] == problems_of(tmp_path, text)


def test_there_is_a_most_of_problems(tmp_path: Path) -> None:
    """Of very many problems the first are listed, with the number of the rest."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user="".join(f"x{number} = 1\n" for number in range(MAX_PROBLEMS + 7)))

    assert f"there are {MAX_PROBLEMS + 7} problems in the configuration" == str(refused.value)
    assert MAX_PROBLEMS + 1 == len(refused.value.problems)
    assert "7 more problems are not listed here" == refused.value.problems[-1].what


def test_all_problems_at_once(tmp_path: Path) -> None:
    """One error holds every problem of every layer, and says how many there are."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user="a = 1\nthinking = 2", project="b = 1", environ={"SESSION_CORE_NETWORK": "?"})

    assert ["a", "thinking", "b", "sandbox.network"] == [each.key for each in refused.value.problems]
    assert ("invalid_input", "there are 4 problems in the configuration") == (refused.value.code, str(refused.value))
    assert 4 == len(refused.value.details)


def test_a_single_problem_is_the_message(tmp_path: Path) -> None:
    """When there is only one problem, the error says it by itself."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user="a = 1")

    place = tmp_path / "home" / "config.toml"
    assert (f"{place}, line 1: a: there is no such setting", ()) == (str(refused.value), refused.value.details)


def test_own_models_come_first(tmp_path: Path) -> None:
    """A model of one's own takes the place, and the alias, of a built-in one."""
    config = load(tmp_path, user="[[models]]\nname = 'anthropic/claude-opus-5-5'\naliases = ['sonnet']\n")

    assert 1 == sum(each.name == "anthropic/claude-opus-5-5" for each in config.models)
    assert ["anthropic/claude-opus-5-5"] == [each.name for each in config.models if "sonnet" in each.aliases]


def test_settings_of_a_home_alone(tmp_path: Path) -> None:
    """The user's file can be read alone, whatever the environment says."""
    write_user(tmp_path, "[retention]\narchive_after_days = 7\n")

    assert Retention(archive_after_days=7) == load_config(tmp_path, environ={}).retention


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_in_the_file(tmp_path: Path) -> None:
    """A key in the user's file is used in place of the variable, and does not show itself."""
    config = load(tmp_path, user=f"[providers.anthropic]\nkey = '{KEY}'\nheaders = {{x = '{KEY}'}}\n")

    assert (Secret(KEY), None) == (config.providers[0].key, config.providers[0].key_env)
    assert KEY not in repr(config) + str(config)


@pytest.mark.parametrize("said", [f"key = '{KEY}'", f"headers = {{ authorization = 'Bearer {KEY}' }}"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read(tmp_path: Path, said: str, mode: int) -> None:
    """A file with a key in it that others may read is refused with the command that puts it right."""
    path = write_user(tmp_path, f"[providers.anthropic]\n{said}\n", mode)

    with pytest.raises(ConfigInvalid) as refused:
        load_config(tmp_path, environ={})

    assert f"run: chmod 600 {shlex.quote(str(path))}" in str(refused.value)
    assert KEY not in str(refused.value)


def test_a_file_without_keys_may_be_read_by_all(tmp_path: Path) -> None:
    """Without a key in it, the mode of the file is nobody's business."""
    write_user(tmp_path, "[providers.anthropic]\nkey_env = 'MY_KEY'\n", 0o644)

    assert "MY_KEY" == load_config(tmp_path, environ={}).providers[0].key_env


@pytest.mark.parametrize(
    "text",
    [
        f"[providers.anthropic]\nkey = '{KEY} '",
        f"[providers.anthropic]\nkey = ['{KEY}']",
        f"[providers.anthropic]\nkey = '{KEY}'\nkey_env = 'X'",
        f"[providers.anthropic]\nkey_env = '{KEY}'",
        f"[providers.anthropic]\napi_key = '{KEY}'",
        f"[providers.anthropic]\nbase_url = 'https://me:{KEY}@example.com'",
        f"[providers.anthropic]\nbase_url = 'https://example.com?key={KEY}'",
        f"[providers.anthropic]\nkind = '{KEY}'",
        f"[providers.anthropic]\nheaders = {{ x = '{KEY}\\n' }}\n".replace("'", '"'),
        f"[providers.anthropic]\nheaders = '{KEY}'",
        f"[providers]\nanthropic = '{KEY}'",
        f"providers = '{KEY}'",
        f"key = '{KEY}'",
        f"'{KEY}' = 1",
        f"model = '{KEY}'",
        f"thinking = '{KEY}'",
        f"model = '{KEY}",
    ],
)
def test_no_problem_repeats_a_key(tmp_path: Path, text: str) -> None:
    """Wherever somebody puts a key by mistake, the sentence about it does not repeat it."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user=text)

    told = repr(refused.value.problems) + str(refused.value) + "".join(refused.value.details)
    assert KEY not in told
    assert KEY[8:] not in told


@given(user=documents, project=documents)
def test_any_files_are_read_or_refused(tmp_path: Path, user: dict[str, object], project: dict[str, object]) -> None:
    """Whatever two files hold, there is a configuration, or problems that each name their file."""
    places = {str(tmp_path / "home" / "config.toml"), str(tmp_path / "project" / ".session-core" / "config.toml")}
    problems: tuple[ConfigProblem, ...] = ()
    try:
        load(tmp_path, user=to_toml(user), project=to_toml(project))
    except ConfigInvalid as refused:
        problems = refused.problems

    assert {each.place for each in problems} <= places
    assert all(each.line is not None and each.key and each.sentence.isprintable() for each in problems)


def test_a_model_that_an_extension_may_bring(tmp_path: Path) -> None:
    """A model of a provider that nobody knows may come with an extension, so it is no mistake while those are used."""
    assert "words/echo" == load(tmp_path, user="model = 'words/echo'").model
