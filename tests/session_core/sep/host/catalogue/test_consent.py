"""What people agreed to is kept privately, and anything else is no agreement."""

import json
import stat
import threading
from pathlib import Path

import pytest

from session_core.errors import StoreUnusable
from session_core.sep.host.catalogue import consent
from session_core.sep.host.catalogue.consent import ConsentRecord, Consents

HERE = Path("/extensions/echo")
ONE, TWO = 64 * "1", 64 * "2"


@pytest.fixture(params=["file", "memory"])
def consents(request: pytest.FixtureRequest, tmp_path: Path) -> Consents:
    """Nothing has been agreed to yet."""
    return Consents(tmp_path / "home/extensions.json" if request.param == "file" else None)


def test_only_what_was_agreed_to_stands(consents: Consents) -> None:
    """Another digest, name or folder is not what a person has agreed to."""
    assert "unknown" == consents.find_status("echo", HERE, ONE)
    consents.agree("echo", HERE, ONE)
    assert "agreed" == consents.find_status("echo", HERE, ONE)
    assert "changed" == consents.find_status("echo", HERE, TWO)
    assert "unknown" == consents.find_status("echo2", HERE, ONE)
    assert "unknown" == consents.find_status("echo", Path("/elsewhere/echo"), ONE)


def test_an_agreement_is_replaced_and_withdrawn(consents: Consents) -> None:
    """The newest agreement counts alone, and one that is taken back leaves nothing."""
    consents.agree("echo", HERE, ONE)
    consents.agree("echo", HERE, TWO)
    assert ("changed", "agreed") == (consents.find_status("echo", HERE, ONE), consents.find_status("echo", HERE, TWO))
    consents.withdraw("echo", HERE)
    consents.withdraw("echo", HERE)
    assert ("unknown", ()) == (consents.find_status("echo", HERE, TWO), consents.all())


def test_switching_off_is_no_agreement(consents: Consents) -> None:
    """Switching on again restores what was agreed to, and does not agree to what never was."""
    consents.set_enabled("echo", HERE, enabled=False)
    assert "disabled" == consents.find_status("echo", HERE, ONE)
    consents.set_enabled("echo", HERE, enabled=True)
    assert "unknown" == consents.find_status("echo", HERE, ONE)
    consents.agree("echo", HERE, ONE)
    consents.set_enabled("echo", HERE, enabled=False)
    assert ConsentRecord(name="echo", folder=str(HERE), digest=ONE, enabled=False) == consents.find("echo", HERE)
    consents.set_enabled("echo", HERE, enabled=True)
    assert "agreed" == consents.find_status("echo", HERE, ONE)


def test_a_folder_is_known_by_where_it_lies(consents: Consents, tmp_path: Path) -> None:
    """A link to the folder means the same extension; turned elsewhere, it means another."""
    (tmp_path / "real").mkdir()
    (tmp_path / "other").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    consents.agree("echo", link, ONE)
    assert "agreed" == consents.find_status("echo", tmp_path / "real", ONE)
    link.unlink()
    link.symlink_to("other")
    assert "unknown" == consents.find_status("echo", link, ONE)


def test_which_files_have_changed(tmp_path: Path) -> None:
    """What is changed, new or gone is named, three at the most; nothing where that was not kept, or is not known."""
    file, odd = tmp_path / "home/extensions.json", {"\udcff": "1", "x" * 201: "1"}
    Consents(file).agree("echo", HERE, ONE, {"a": "1", "b": "1", "c": "1", **odd})
    consents = Consents(file)
    assert "a has changed, 'd\\n' is new, b is gone and 1 more" == consents.describe_changes(
        "echo", HERE, {"a": "2", "d\n": "1"}
    )
    assert "c is gone" == consents.describe_changes("echo", HERE, {"a": "1", "b": "1", **odd})
    assert "" == consents.describe_changes("echo", HERE, {})
    consents.agree("echo", HERE, TWO)
    assert "" == consents.describe_changes("echo", HERE, {"a": "2"})


def test_the_files_of_many_extensions_are_not_all_kept(tmp_path: Path) -> None:
    """There is room for the files of the newest; the consent of the others stays without them."""
    consents = Consents(tmp_path / "home/extensions.json")
    for number in range(40):
        consents.agree(f"e{number}", HERE, ONE, {f"f{each}": "1" for each in range(256)})
    kept = consents.all()
    assert [*[0] * 8, *[256] * 32] == [len(each.files) for each in kept]
    assert {ONE} == {each.digest for each in kept}


def test_what_is_kept_is_private_and_read_by_others(tmp_path: Path) -> None:
    """The file is for its owner alone, is whole at any time, and another process reads what this one wrote."""
    file = tmp_path / "home/extensions.json"
    Consents(file).agree("echo", HERE, ONE)
    assert "agreed" == Consents(file).find_status("echo", HERE, ONE)
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert ["extensions.json", "extensions.lock"] == sorted(each.name for each in file.parent.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": 2, "extensions": []}',
        '{"format": 1}',
        '{"format": 1, "extensions": {}}',
        '{"format": 1, "extensions": [{"name": "echo"}]}',
        '{"format": 1, "extensions": [{"name": "../x", "folder": "/x", "digest": "1", "enabled": true}]}',
        '{"format": 1, "extensions": [{"name": "echo", "folder": "/x", "digest": 1, "enabled": true}]}',
        '{"format": 1, "extensions": [{"name": "echo", "folder": "/x", "digest": "1", "enabled": 1}]}',
        100_000 * "[",
    ],
)
def test_a_damaged_file_agrees_to_nothing(tmp_path: Path, content: str) -> None:
    """Whatever is wrong with the file, nothing runs by it, the person is told, and the old file is kept."""
    file = tmp_path / "extensions.json"
    file.write_text(content)
    consents = Consents(file)
    assert "unknown" == consents.find_status("echo", HERE, ONE)
    assert consents.remark is not None
    assert str(file) in consents.remark
    consents.agree("echo", HERE, ONE)
    again = Consents(file)
    assert ("agreed", None) == (again.find_status("echo", HERE, ONE), again.remark)
    assert content == file.with_suffix(".damaged").read_text()


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file does not grow without end: who was decided about longest ago goes first."""
    monkeypatch.setattr(consent, "MAX_CONSENTS", 2)
    consents = Consents(tmp_path / "extensions.json")
    for name in ("a", "b", "a", "c"):
        consents.agree(name, HERE, ONE)
    assert ["a", "c"] == [each.name for each in consents.all()]


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    """Those who agree at the same time all find their agreement in the file."""
    file = tmp_path / "extensions.json"
    names = [f"x{number}" for number in range(12)]
    threads = [threading.Thread(target=Consents(file).agree, args=(name, HERE, ONE)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(names) == {each["name"] for each in json.loads(file.read_text())["extensions"]}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where the file cannot be, agreeing is a typed error, and not a silent loss."""
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(StoreUnusable):
        Consents(tmp_path / "home/extensions.json").agree("echo", HERE, ONE)
