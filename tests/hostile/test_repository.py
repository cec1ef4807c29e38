"""Opening a hostile repository does nothing before a person trusts it, and afterwards only what trust is meant for."""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from session_core.config.load import find_trusted_fingerprint
from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.sandbox.trust import PROJECT_FILES, TooMuchToTrust
from tests._mostly_slow import mostly_slow
from tests.hostile._repository import (
    INJECTED,
    SECRET,
    Ground,
    Seen,
    new_ground,
    nobody_called,
    open_and_ask,
    programs_started,
    tree,
)
from tests.hostile._repository_files import TRICKS
from tests.hostile._repository_tricks import Trick

every_trick = pytest.mark.parametrize("trick", mostly_slow(TRICKS, quick=15), ids=lambda trick: trick.name)
BOUND_CHARS = 2_000_000


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What opening an empty folder looks like."""
    with new_ground(tmp_path_factory.mktemp("empty") / "ground") as (ground, _):
        return trio.run(open_and_ask, ground)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Ground, socket.socket]]:
    """Ground for one repository."""
    with new_ground(tmp_path / "ground") as laid_out:
        yield laid_out
        closed = tmp_path / "ground" / "repo" / "closed"
        if closed.exists():
            closed.chmod(0o700)  # else nobody but root could remove it


def unlike(seen: Seen, other: Seen) -> list[str]:
    """Name what of two openings differs, but for the place and what is said about it."""
    configs = [attrs.evolve(each.config, remarks=(), sources={}) for each in (seen, other)]
    pairs: dict[str, tuple[object, object]] = {
        "config": (configs[0], configs[1]),
        "prompt": (seen.prompt_without_place, other.prompt_without_place),
        "tools": (seen.tools, other.tools),
    }
    return [name for name, (one, two) in pairs.items() if one != two]


def test_there_are_many_tricks() -> None:
    """Each trick has a name of its own, and there are enough to be worth the name."""
    names = [trick.name for trick in TRICKS]

    assert len(names) == len(set(names)) >= 70


@every_trick
async def test_before_trust_nothing_happens(
    hostile: tuple[Ground, socket.socket], empty: Seen, trick: Trick, caplog: pytest.LogCaptureFixture
) -> None:
    """Opened and looked at by a model, it is like an empty folder: no program, no call, no write, no secret told."""
    ground, listener = hostile
    with programs_started() as started:
        trick.plant(ground)
        before = tree(ground.repo, ground.outside, ground.user, ground.traces)

        calls = [("list", {"path": "."}), *(("read", {"path": path}) for path in trick.looks_at)]
        seen = await open_and_ask(ground, calls)

        assert "completed" == seen.outcome
        assert [] == unlike(seen, empty)
        assert INJECTED not in seen.prompt
        assert SECRET not in seen.told + caplog.text
        assert len(seen.told) < BOUND_CHARS
        assert [] == started()
        assert nobody_called(listener)
        assert before == tree(ground.repo, ground.outside, ground.user, ground.traces)


@every_trick
async def test_after_trust_only_what_is_meant_counts(
    hostile: tuple[Ground, socket.socket], empty: Seen, trick: Trick, caplog: pytest.LogCaptureFixture
) -> None:
    """Trust in exactly these files lets instructions, skills, servers and stricter settings count, and nothing else."""
    ground, listener = hostile
    trick.plant(ground)
    try:
        ground.trust()
    except TooMuchToTrust:
        assert "too_much" == trick.after_trust
        assert find_trusted_fingerprint(ground.home, ground.repo) is None
        return
    if trick.after_trust == "refused":
        try:
            config = (await open_and_ask(ground)).config
            problems: Sequence[ConfigProblem] = config.ignored
            assert attrs.evolve(config, ignored=(), remarks=empty.config.remarks) == empty.config
        except ConfigInvalid as refused:
            problems = refused.problems
        assert trick.refused == tuple(each.key for each in problems)
        sentences = [each.sentence for each in problems]
        assert all(sentence.isprintable() and SECRET not in sentence for sentence in sentences)
        return
    seen = await open_and_ask(ground)

    assert SECRET not in seen.told + caplog.text
    assert nobody_called(listener)
    assert (["mcp"] if trick.after_trust == "program" else []) == [each.name for each in ground.traces.iterdir()]
    check_effect(trick, seen, empty)


def check_effect(trick: Trick, seen: Seen, empty: Seen) -> None:
    """Check what a trusted trick may have changed."""
    differs = unlike(seen, empty)
    match trick.after_trust:
        case "instructions":
            assert ["prompt"] == differs
            assert INJECTED in seen.prompt
            assert 1 == seen.prompt.count("</instructions>") == seen.prompt.count('<instructions from="')
            assert "\0" not in seen.prompt
        case "skill":
            assert ["prompt"] == differs
            assert INJECTED in seen.prompt
        case "stricter":
            assert "config" in differs
            assert (seen.config.limits.steps or 0) <= (empty.config.limits.steps or 0)
            assert all(rule.decision == "deny" for rule in seen.config.permissions)
        case "anything":
            assert set(differs) <= {"prompt"}
        case expected:
            assert expected in {"nothing", "program"}
            assert [] == differs


@every_trick
def test_one_changed_byte_ends_the_trust(hostile: tuple[Ground, socket.socket], trick: Trick) -> None:
    """Whichever of the trusted files is changed, the folder is not trusted any more, and opening it is inert again."""
    ground, _ = hostile
    trick.plant(ground)
    try:
        ground.trust()
    except TooMuchToTrust:
        return
    for file in steering_files(ground):
        mode = file.stat().st_mode
        file.chmod(mode | 0o600)  # one of them may not be read, not even by its owner
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        assert find_trusted_fingerprint(ground.home, ground.repo) is None
        file.write_bytes(content)
        file.chmod(mode)
    assert find_trusted_fingerprint(ground.home, ground.repo) is not None


def steering_files(ground: Ground) -> list[Path]:
    """The ordinary files of a repository that steer an agent."""
    found: list[Path] = []
    for name in PROJECT_FILES:
        path = ground.repo / name
        if path.is_symlink() or not path.exists():
            continue
        found += [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return [file for file in found if not any(part.is_symlink() for part in (file, *file.parents))]
