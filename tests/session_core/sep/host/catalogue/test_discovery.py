"""Only extensions that may run count, and no folder of somebody else makes one of the user's disappear."""

import os
from pathlib import Path

import attrs
import pytest

from session_core.sep.host.catalogue import discovery
from session_core.sep.host.catalogue.consent import Consents, digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension, Discovery, SkippedExtension, discover
from session_core.sep.host.catalogue.search_paths import SearchPaths
from session_core.sep.protocol.manifest import read_manifest


@attrs.frozen
class World:
    """A user's folder, a project's folder, and what was agreed to."""

    user: Path
    project: Path
    consents: Consents

    def look(self, *, trusted: bool = True, allow: frozenset[str] | None = None) -> Discovery:
        places = SearchPaths(user=(self.user,), project=(self.project,), trusted=trusted, allow=allow)
        return discover(places, self.consents)

    def agree(self, folder: Path) -> None:
        self.consents.agree(read_manifest(folder).name, folder, digest_of(folder))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nothing is there yet."""
    return World(tmp_path / "user", tmp_path / "project", Consents())


def make(parent: Path, name: str, *, folder: str | None = None, more: str = "") -> Path:
    place = parent / (folder or name)
    place.mkdir(parents=True)
    manifest = f'name = "{name}"\nversion = "1"\n{more}\n[run]\ncommand = "./run"\n'
    (place / "extension.toml").write_text(manifest)
    (place / "run").write_text(f"{parent}")
    return place


def names(found: Discovery) -> list[str]:
    return [each.name for each in found.found]


def kinds(found: Discovery) -> list[tuple[str, str, str]]:
    return [(each.name, each.scope, each.kind) for each in found.skipped]


def test_missing_folders_are_empty(world: World) -> None:
    """Folders that are not there hold no extensions and are no fault."""
    assert Discovery() == world.look()
    assert Discovery() == discover(SearchPaths(user=(), project=(), trusted=True), world.consents)


def test_everything_is_told_of_what_counts(world: World) -> None:
    """What counts comes with its folder, scope, manifest and digest, sorted by the names in the manifests."""
    first = make(world.user, "zebra", folder="a")
    second = make(world.project, "apple", folder="z")
    world.agree(first)
    world.agree(second)
    found = world.look()
    assert [
        DiscoveredExtension(
            name="apple", folder=second, scope="project", manifest=read_manifest(second), digest=digest_of(second)
        ),
        DiscoveredExtension(
            name="zebra", folder=first, scope="user", manifest=read_manifest(first), digest=digest_of(first)
        ),
    ] == list(found.found)
    assert found.found[0] == found.find("apple")
    assert found.find("other") is None


def test_an_untrusted_project_takes_nothing_away(world: World) -> None:
    """A repository with an extension called like the user's gate changes nothing before it is trusted."""
    gate = make(world.user, "gate")
    world.agree(gate)
    world.agree(make(world.project, "gate"))
    found = world.look(trusted=False)
    assert [gate] == [each.folder for each in found.found]
    assert [("gate", "project", "untrusted")] == kinds(found)


def test_what_is_not_trusted_is_not_read(world: World) -> None:
    """Of an untrusted project not even the manifests are read: its folders are named, and that is all."""
    make(world.project, "echo", folder="claims-to-be-something-else")
    [skipped] = world.look(trusted=False).skipped
    assert ("claims-to-be-something-else", None, None) == (skipped.name, skipped.manifest, skipped.digest)


@pytest.mark.parametrize("flaw", ["no consent", "changed", "disabled", "switched off", "invalid"])
def test_only_what_may_run_takes_the_place_of_another(world: World, flaw: str) -> None:
    """Even in a trusted project, an extension that may not run itself hides none of the user's."""
    gate = make(world.user, "gate")
    world.agree(gate)
    rival = make(world.project, "gate", more="disabled = true" if flaw == "disabled" else "")
    if flaw != "no consent":
        world.agree(rival)
    if flaw == "changed":
        (rival / "run").write_text("evil")
    elif flaw == "switched off":
        world.consents.set_enabled("gate", rival, enabled=False)
    elif flaw == "invalid":
        (rival / "extension.toml").write_text("name = ")
    found = world.look()
    assert [gate] == [each.folder for each in found.found]
    kind = {"no consent": "no_consent", "changed": "no_consent", "invalid": "invalid"}.get(flaw, "disabled")
    assert [("gate", "project", kind)] == kinds(found)


def test_a_project_wins_when_it_may_run(world: World) -> None:
    """A trusted project's extension that was agreed to counts in place of the user's, which is told."""
    user, project = make(world.user, "echo"), make(world.project, "echo")
    world.agree(user)
    world.agree(project)
    found = world.look()
    assert [project] == [each.folder for each in found.found]
    [skipped] = found.skipped
    assert ("echo", user, "shadowed") == (skipped.name, skipped.folder, skipped.kind)
    assert str(project) in skipped.reason


def test_the_earlier_folder_of_the_user_wins(world: World, tmp_path: Path) -> None:
    """Of two with one name, the first folder counts, and within a folder the first by name."""
    folders = [make(world.user, "echo", folder="b"), make(world.user, "echo", folder="a")]
    folders.append(make(tmp_path / "older", "echo", folder="0"))
    for each in folders:
        world.agree(each)
    found = discover(SearchPaths(user=(world.user, tmp_path / "older"), project=(), trusted=False), world.consents)
    assert [folders[1]] == [each.folder for each in found.found]
    assert [("echo", "user", "shadowed")] * 2 == kinds(found)


def test_consent_is_for_exactly_these_files(world: World) -> None:
    """Nothing runs unasked, a changed byte asks again, and who looks is told what to agree to."""
    folder = make(world.user, "echo")
    [unknown] = world.look().skipped
    assert (
        SkippedExtension(
            name="echo",
            folder=folder,
            scope="user",
            kind="no_consent",
            reason="nobody has agreed to it yet",
            manifest=read_manifest(folder),
            digest=digest_of(folder),
        )
        == unknown
    )
    assert unknown.digest is not None
    world.consents.agree(unknown.name, unknown.folder, unknown.digest)
    assert ["echo"] == names(world.look())
    (folder / "run").write_text("other")
    [changed] = world.look().skipped
    assert ("no_consent", "its files have changed since it was agreed to") == (changed.kind, changed.reason)


def test_a_consent_does_not_move_to_another_folder(world: World) -> None:
    """A project with a copy of an extension that was agreed to elsewhere has to be agreed to itself."""
    user = make(world.user, "echo")
    world.agree(user)
    copy = make(world.project, "echo")
    (copy / "run").write_bytes((user / "run").read_bytes())
    assert digest_of(copy) == digest_of(user)
    found = world.look()
    assert [user] == [each.folder for each in found.found]
    assert [("echo", "project", "no_consent")] == kinds(found)


def test_a_list_of_names_allows_no_other(world: World) -> None:
    """With a list only those on it run, with an empty list nobody, and without one everybody."""
    for name in ("a", "b"):
        world.agree(make(world.user, name))
    assert (["a"], [("b", "user", "not_allowed")]) == (
        names(found := world.look(allow=frozenset({"a", "c"}))),
        kinds(found),
    )
    assert [] == names(world.look(allow=frozenset()))
    assert ["a", "b"] == names(world.look(allow=None))


def test_one_bad_extension_spoils_no_other(world: World) -> None:
    """A broken manifest, a missing one and files that cannot be pinned are told, and the rest is found."""
    world.agree(make(world.user, "good"))
    (make(world.user, "broken") / "extension.toml").write_text('version = "1"')
    (make(world.user, "missing") / "extension.toml").unlink()
    os.mkfifo(make(world.user, "pipe") / "pipe")
    make(world.user, "hidden", folder=".hidden")
    (world.user / "file").write_text("no folder")
    found = world.look()
    assert ["good"] == names(found)
    assert [(name, "user", "invalid") for name in ("broken", "missing", "pipe")] == kinds(found)
    assert ["name: is missing", "there is no extension.toml", "'pipe' is neither"] == [
        next(words for words in ("name: is missing", "there is no extension.toml", "'pipe' is neither") if words in why)
        for why in (each.reason for each in found.skipped)
    ]


def test_links(world: World, tmp_path: Path) -> None:
    """A user may link to an extension elsewhere, even twice; a project may not lead us out of itself."""
    elsewhere = make(tmp_path / "elsewhere", "echo")
    world.agree(elsewhere)
    for parent in (world.user, world.project):
        parent.mkdir()
        (parent / "link").symlink_to(elsewhere)
    (world.user / "second").symlink_to(elsewhere)
    found = world.look()
    assert [(world.user / "link", "user")] == [(each.folder, each.scope) for each in found.found]
    assert [("link", "project", "invalid")] == kinds(found)


def test_a_project_folder_that_is_a_link_is_refused(world: World) -> None:
    """A project cannot make the user's own folder pass for its own."""
    world.agree(make(world.user, "echo"))
    world.project.symlink_to(world.user)
    found = world.look()
    assert [("echo", "user")] == [(each.name, each.scope) for each in found.found]
    assert [("project", "project", "invalid")] == kinds(found)


def test_a_swapped_manifest_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that changes between the two looks at it does not run."""
    folder = make(world.user, "echo")
    world.agree(folder)
    before = read_manifest(folder)
    (folder / "extension.toml").write_text('name = "echo"\nversion = "1"\n[run]\ncommand = "evil"\n')
    world.agree(folder)
    monkeypatch.setattr(discovery, "read_manifest", lambda _: before)
    found = world.look()
    assert ([], [("echo", "user", "invalid")]) == (names(found), kinds(found))
    assert "being changed" in found.skipped[0].reason


def test_there_is_an_end_to_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many extensions, folders or files beside them are told, and never all of them read."""
    for name in ("a", "b", "c"):
        world.agree(make(world.user, name))
    monkeypatch.setattr(discovery, "MAX_EXTENSIONS", 2)
    assert (["a", "b"], [("c", "user", "invalid")]) == (names(found := world.look()), kinds(found))
    monkeypatch.setattr(discovery, "_MAX_FOLDERS", 1)
    assert ["a"] == names(world.look())
    assert [("b", "user", "invalid"), ("c", "user", "invalid")] == kinds(world.look())
    monkeypatch.setattr(discovery, "_MAX_ENTRIES", 2)
    assert ([], [("user", "user", "invalid")]) == (names(found := world.look()), kinds(found))


def test_a_file_in_the_place_of_the_folder_is_told(world: World) -> None:
    """What is no folder of extensions is a fault that is told, and nothing worse."""
    world.user.write_text("in the way")
    assert [("user", "user", "invalid")] == kinds(world.look())
