"""A project's file: read only where it is trusted, and able to make things stricter and nothing else."""

from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given

from session_core.config.load import find_project_file, find_trusted_fingerprint, load_config
from session_core.config.problems import ConfigInvalid
from session_core.config.values import Config
from session_core.permissions import decision
from session_core.permissions.rules import PermissionRule, decide
from session_core.sandbox.trust import TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy
from session_core.vocabulary.strictness import PERMISSION_MODES
from session_core.vocabulary.tools import Effect
from tests.session_core.config._documents import KEY, load, narrowing, to_toml, write_project, write_user

NOT_FOR_PROJECTS = "this is ignored: a project's file cannot set it, only your own config.toml can"

EFFECTS: tuple[Effect, ...] = get_args(Effect)


def _held_back(mode: PermissionMode, effect: Effect) -> int:
    """How much a permission mode holds back a call with one effect: it runs, a person is asked, it is refused."""
    call = decision.PermissionCall(tool="t", grant="g", fingerprint="f")
    facts = decision.CallFacts(effects=frozenset({effect}))
    verdict = decision.decide(call, facts, (), decision.Grants(), mode)
    return ("allow", "ask", "deny").index(verdict.decision)


def refused(tmp_path: Path, project: str, user: str = "") -> list[tuple[int | None, str, str]]:
    with pytest.raises(ConfigInvalid) as invalid:
        load(tmp_path, user=user, project=project)
    return [(each.line, each.key, each.what) for each in invalid.value.problems]


def ignored(tmp_path: Path, project: str, user: str = "") -> list[tuple[int | None, str, str]]:
    """What is passed over in a project's file: nothing else has changed, and people are told where it stands."""
    alone = load(tmp_path, user=user, project="")
    config = load(tmp_path, user=user, project=project)
    assert alone == attrs.evolve(config, ignored=(), remarks=())
    assert tuple(each.sentence for each in config.ignored) == config.remarks
    return [(each.line, each.key, each.what) for each in config.ignored]


def test_stricter_is_taken_over(tmp_path: Path) -> None:
    """Everything that a project may make stricter, it can."""
    config = load(
        tmp_path,
        user="""
            permission_mode = "full"
            sandbox = {mode = "full_access", network = true, writable_roots = ["/a", "/b"]}
            limits = {steps = 100, cost = 5}
            tools = {disabled = ["bash"]}
            permissions = [{tool = "write", decision = "allow"}]
        """,
        project="""
            permission_mode = "ask_all"
            sandbox = {mode = "read_only", network = false, writable_roots = ["/b"]}
            limits = {steps = 100, tokens = 7, cost = 0.5, seconds = 9}
            tools = {disabled = ["write"]}
            permissions = [{tool = "write", decision = "deny"}, {tool = "read", decision = "ask"}]
        """,
    )

    assert "ask_all" == config.permission_mode
    assert SandboxPolicy(mode="read_only", network=False, writable_roots=("/b",)) == config.sandbox
    assert (100, 7, 500_000, 9_000) == attrs.astuple(config.limits)
    assert ("bash", "write") == config.disabled_tools
    assert ["allow", "deny", "ask"] == [each.decision for each in config.permissions]
    assert ("user", "project") == (config.source("limits.steps").layer, config.source("limits.tokens").layer)
    assert "project" == config.source("permissions[2]").layer


@pytest.mark.parametrize(
    ("text", "key", "compared"),
    [
        ('permission_mode = "auto_edit"', "permission_mode", "auto_edit is not stricter than ask_writes"),
        ('[sandbox]\nmode = "full_access"', "sandbox.mode", "full_access is not stricter than workspace_write"),
        ("[sandbox]\nnetwork = true", "sandbox.network", "true is not stricter than false"),
        ("[sandbox]\nsockets = true", "sandbox.sockets", "true is not stricter than false"),
        ('[sandbox]\nwritable_roots = ["/"]', "sandbox.writable_roots", "/ is not stricter than none"),
        ("[limits]\nsteps = 201", "limits.steps", "201 is not stricter than 200"),
    ],
)
def test_looser_is_ignored(tmp_path: Path, text: str, key: str, compared: str) -> None:
    """An attempt to loosen something has no effect but a warning that says what it would have changed."""
    line = text.count("\n") + 1

    assert [(line, key, f"this is ignored: a project's file can only make it stricter, and {compared}")] == ignored(
        tmp_path, text
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model = 'opus'", "model"),
        ('sandbox.readable = ["/"]', "sandbox.readable"),
        ("thinking = 'high'", "thinking"),
        ("[providers.anthropic]\nbase_url = 'https://evil.example.com'", "providers"),
        (f"[providers.anthropic]\nkey = '{KEY}'", "providers"),
        ("[[models]]\nname = 'anthropic/x'", "models"),
        ("[mcp]\nfile = '/x'", "mcp"),
        ("[skills]\npaths = ['/x']", "skills"),
        ("[retention]\ndelete_archived_after_days = 1", "retention"),
        ("[compaction]\nthreshold = 0.5", "compaction"),
        ("[hooks]\nstart = 'rm'", "hooks"),
        ("trust = true", "trust"),
    ],
)
def test_what_is_not_for_projects(tmp_path: Path, text: str, key: str) -> None:
    """Addresses, keys, models, programs, trust and what costs money are the user's own to set."""
    assert [(1, key, NOT_FOR_PROJECTS)] == ignored(tmp_path, text)


@pytest.mark.parametrize("key", ["flags", "watch"])
def test_what_extensions_do_is_not_for_projects(tmp_path: Path, key: str) -> None:
    """A project may switch extensions off, and nothing else about them."""
    assert [(2, f"extensions.{key}", NOT_FOR_PROJECTS)] == ignored(tmp_path, f"[extensions]\n{key} = ['x']")
    assert load(tmp_path, project="[extensions]\nuse = false\n").extensions is False


def test_a_rule_that_allows_is_ignored(tmp_path: Path) -> None:
    """A project cannot allow anything, and its other rules count all the same."""
    text = "[[permissions]]\ntool = 'read'\ndecision = 'ask'\n[[permissions]]\ntool = 'bash'\ndecision = 'allow'\n"
    config = load(tmp_path, project=text)

    what = "this is ignored: a project's file can only add rules that ask or deny, not one that allows"
    assert [(4, "permissions[2]", what)] == [(each.line, each.key, each.what) for each in config.ignored]
    assert (PermissionRule(decision="ask", tool="read"),) == config.permissions


def test_a_bad_project_is_no_flood(tmp_path: Path) -> None:
    """A file with thousands of attempts gives a bounded number of warnings."""
    text = "[[permissions]]\ntool = 'x'\ndecision = 'allow'\n" * 400

    assert 50 == len(load(tmp_path, project=text).ignored)


def test_an_unknown_word_in_a_project(tmp_path: Path) -> None:
    """A slip in a project's file is told like any other."""
    assert [(1, "sandbx", "there is no such setting; did you mean sandbox?")] == refused(tmp_path, "sandbx = 1")


@pytest.mark.parametrize("old", PERMISSION_MODES)
@pytest.mark.parametrize("new", PERMISSION_MODES)
def test_a_mode_is_stricter_in_every_way_or_not_at_all(
    tmp_path: Path, old: PermissionMode, new: PermissionMode
) -> None:
    """No mode that a project may choose lets any effect pass with less than before, not even reading."""
    stricter = all(_held_back(new, effect) >= _held_back(old, effect) for effect in EFFECTS)
    config = load(tmp_path, user=f"permission_mode = '{old}'", project=f"permission_mode = '{new}'")

    assert (new if stricter else old, not stricter) == (config.permission_mode, bool(config.ignored))


def at_least_as_strict(before: Config, after: Config) -> bool:
    """Compare two configurations by what they let happen."""
    modes = ("read_only", "workspace_write", "full_access")
    old, new = attrs.astuple(before.limits), attrs.astuple(after.limits)
    order = {None: 0, "allow": 0, "ask": 1, "deny": 2}

    def decisions(config: Config) -> list[int]:
        return [order[decide(config.permissions, tool=tool)] for tool in ("bash", "write", "read")]

    return all(
        (
            *(_held_back(after.permission_mode, each) >= _held_back(before.permission_mode, each) for each in EFFECTS),
            modes.index(after.sandbox.mode) <= modes.index(before.sandbox.mode),
            after.sandbox.network <= before.sandbox.network,
            set(after.sandbox.writable_roots) <= set(before.sandbox.writable_roots),
            all(was is None or (now is not None and now <= was) for was, now in zip(old, new, strict=True)),
            set(after.disabled_tools) >= set(before.disabled_tools),
            all(now >= was for was, now in zip(decisions(before), decisions(after), strict=True)),
            [rule for rule in after.permissions if rule.decision == "allow"]
            == [rule for rule in before.permissions if rule.decision == "allow"],
            (before.model, before.thinking, before.providers, before.models, before.mcp_file, before.retention)
            == (after.model, after.thinking, after.providers, after.models, after.mcp_file, after.retention),
        )
    )


@given(user=narrowing, project=narrowing)
def test_a_project_can_only_narrow(tmp_path: Path, user: dict[str, Any], project: dict[str, Any]) -> None:
    """For any two files the result is at least as strict as without the project's, or the project's is refused."""
    alone = load(tmp_path, user=to_toml(user), project="")
    together, refused_places = alone, set()
    try:
        together = load(tmp_path, user=to_toml(user), project=to_toml(project))
    except ConfigInvalid as invalid:
        refused_places = {each.place for each in invalid.problems}

    assert refused_places <= {str(tmp_path / "project" / ".session-core" / "config.toml")}
    assert at_least_as_strict(alone, together)


# --- trust ------------------------------------------------------------------------------------------------------------


def test_without_trust_it_is_not_even_read(tmp_path: Path) -> None:
    """In a folder nobody has trusted the file is not used, however wrong it is, and people are told."""
    config = load(tmp_path, project="this is not TOML", trust=False)

    path = tmp_path / "project" / ".session-core" / "config.toml"
    assert (f"{path} is not used, as this folder is not trusted",) == config.remarks


def test_trust_is_in_exactly_these_bytes(tmp_path: Path) -> None:
    """A file that changed after somebody trusted the folder is not used, even if it changed a moment ago."""
    home, project = tmp_path / "home", tmp_path / "project"
    write_project(project, "[limits]\nsteps = 5\n")
    assert find_trusted_fingerprint(home, project) is None
    TrustStore(home).trust(str(project), take_fingerprint(Workspace(str(project))))
    trusted = find_trusted_fingerprint(home, project)
    assert trusted is not None
    assert 5 == load_config(home, project, {}, trust=trusted).limits.steps

    write_project(project, "[limits]\nsteps = 4\n")
    config = load_config(home, project, {}, trust=trusted)

    assert 200 == config.limits.steps
    assert "has changed since this folder was trusted" in config.remarks[0]
    assert find_trusted_fingerprint(home, project) is None


def test_links_in_a_project_are_not_followed(tmp_path: Path) -> None:
    """A link cannot make another file of this machine be read as settings."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text("[limits]\nsteps = 5\n", encoding="utf-8")
    for number, link in enumerate((Path(".session-core"), Path(".session-core/config.toml"))):
        project = tmp_path / str(number)
        (project / link).parent.mkdir(parents=True)
        (project / link).symlink_to(other if number == 0 else other / "config.toml")
        with pytest.raises(ConfigInvalid, match="cannot be read"):
            load_config(tmp_path / "home", project, {}, trust=True)


def test_a_home_inside_of_the_project(tmp_path: Path) -> None:
    """Somebody who keeps the home in the project has one file, and it is the user's own."""
    write_user(tmp_path / ".session-core", "model = 'opus'\n")

    assert find_project_file(tmp_path / ".session-core", tmp_path) is None
    assert "opus" == load_config(tmp_path / ".session-core", tmp_path, {}, trust=True).model


def test_rules_of_a_project_hold_for_the_environment_too(tmp_path: Path) -> None:
    """What the user says in the environment goes before the project's values, but its rules stay."""
    config = load(
        tmp_path,
        project="permission_mode = 'ask_all'\npermissions = [{tool = 'bash', decision = 'deny'}]",
        environ={"SESSION_CORE_PERMISSIONS": "full"},
    )

    assert ("full", (PermissionRule(decision="deny", tool="bash"),)) == (config.permission_mode, config.permissions)
