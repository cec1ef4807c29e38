"""`session-core ext list, info, trust, enable, disable`: what there is, who has agreed, and what people are shown."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends import entry
from frontends.commands.extensions.list_and_info import extension_lines
from frontends.commands.extensions.trust import ask_consent, consent_lines
from frontends.shared.extension_lookup import find_extensions, pick
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.providers.secrets import Secret
from session_core.sep.host.models.credentials import CredentialFile, LoginKey, StoredCredentials
from tests.frontends._extensions import make_extension
from tests.frontends._kept import session_core
from tests.frontends._paper import Paper, written

Said = pytest.CaptureFixture[str]
TASKS = ("list", "info", "trust", "enable", "disable", "reload", "logs", "login", "logout", "doctor")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No extension of whoever runs the tests is seen; the project is an empty folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name in ("SMOOTH_HOME", "SMOOTH_EXTENSIONS_ALLOW", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def states(home: Path, project: Path) -> dict[str, str]:
    """Every extension by the name of its scope and its folder, with its state."""
    return {f"{each.scope} {each.folder.name}": each.state for each in find_extensions(home, project).entries}


def test_without_extensions(home: Path, capfd: Said) -> None:
    """Where there are none it is said where they would go, and nothing is made on the disk."""
    assert 0 == session_core("ext", "list")
    assert f"No extensions; put each into its own folder in {home / 'extensions'}\n" == capfd.readouterr().out
    assert not home.exists()


def test_from_trust_to_a_change(home: Path, alone: Path, capfd: Said) -> None:
    """An extension runs after a yes to its files as they are, and not any more when one of them has changed."""
    folder = make_extension(home / "extensions", "gate")
    assert {"user gate": "no_consent"} == states(home, alone)

    assert 0 == session_core("ext", "trust", "gate", "--yes")
    assert capfd.readouterr().out.endswith(f"✓ gate in {folder} may run, until one of its files changes.\n")
    assert {"user gate": "ready"} == states(home, alone)
    assert 0 == session_core("ext", "trust", str(folder))
    assert "already has your consent" in capfd.readouterr().out

    (folder / "program.py").write_text("import os\n", encoding="utf-8")
    assert 0 == session_core("ext", "list")
    told = capfd.readouterr()
    assert "no consent  its files have changed since it was agreed to (program.py has changed)\n" in told.out
    assert "● to review one and let it run: session-core ext trust gate\n" == told.err


def test_one_that_is_watched(home: Path, alone: Path, capfd: Said) -> None:
    """One that is watched is told as such, before and after a change; one that is not there is a remark of a check."""
    folder = make_extension(home / "extensions", "gate")
    (home / "config.toml").write_text('[extensions]\nwatch = ["gate", "nosuch"]\n', encoding="utf-8")
    assert {"user gate": "no_consent"} == states(home, alone)
    assert 0 == session_core("ext", "trust", "gate", "--yes")
    capfd.readouterr()
    assert 0 == session_core("ext", "list")
    assert "  ready, watched  " in capfd.readouterr().out

    (folder / "more.py").write_text("", encoding="utf-8")
    assert {"user gate": "watched"} == states(home, alone)
    assert 0 == session_core("ext", "info", "gate")
    told = "watched, yours: its files have changed since it was agreed to (more.py is new); it is watched, so the"
    assert told in capfd.readouterr().out

    assert 0 == session_core("config", "check")
    err = capfd.readouterr().err
    assert "config.toml, line 2: extensions.watch: there is no extension called 'nosuch', so nothing is watched" in err
    assert "'gate'" not in err


def test_nobody_to_ask(home: Path, alone: Path, capfd: Said) -> None:
    """Without a terminal and without --yes nobody has agreed to anything, and no file says so."""
    make_extension(home / "extensions", "gate")

    assert 2 == session_core("ext", "trust", "gate")
    assert "ext trust asks first, and there is no terminal to ask on" in capfd.readouterr().err
    assert {"user gate": "no_consent"} == states(home, alone)
    assert not (home / sc.extensions.CONSENT_FILE).exists()


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("sure\n", False), ("", False)]
)
async def test_the_question(home: Path, alone: Path, typed: str, agreed: bool) -> None:  # noqa: FBT001 - a parameter
    """What would run is shown before the question, and whatever is not clearly a yes is a no."""
    make_extension(home / "extensions", "gate")
    (found,) = (await trio.to_thread.run_sync(find_extensions, home, alone)).entries
    ours, theirs = os.pipe()
    try:
        os.write(theirs, typed.encode())
    finally:
        os.close(theirs)
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=ours)
    try:
        assert agreed is await ask_consent(found, streams)
    finally:
        os.close(ours)
    out, err = written(streams)
    assert "" == out
    assert f"  runs        {shlex.quote(sys.executable)} program.py\n" in err
    assert err.endswith(f"? Let gate in {found.folder} run, with these files? [y/N] ")


def test_what_somebody_is_shown(home: Path, alone: Path) -> None:
    """Before a yes one sees the command, names of variables, rights, sandbox and files; never a value."""
    more = (
        'env = {KEY = "${env:GH_TOKEN}-${env:B}", PLAIN = "secret"}\nsha256 = "' + "ab" * 32 + '"\n'
        '[sandbox]\nnetwork = "egress"\nallow_domains = ["example.org"]\nmemory = "1G"\n'
        '[capabilities]\nkv = true\nui = true\n[resources]\nskills = "skills"\n'
    )
    folder = make_extension(home / "extensions", "gate", "x = 1\n", more=more)
    (folder / "skills").mkdir()
    (folder / "skills" / "a.md").write_text("a", encoding="utf-8")
    (folder / "link").symlink_to("program.py")
    (found,) = find_extensions(home, alone).entries

    assert [
        "gate 1.2",
        f"  lies in     {folder}",
        f"  runs        {shlex.quote(sys.executable)} program.py",
        "  variables   KEY (from $GH_TOKEN, $B), PLAIN",
        "  may use     kv, ui",
        "  sandbox     it asks for one, network to example.org, memory 1024 MiB",
        f"  program     only with the SHA-256 {'ab' * 32}",
        "  brings      skills in skills",
        f"  files       SHA-256 of all of them {sc.extensions.compute_digest(folder).whole}",
        f"  extension.toml  {(folder / 'extension.toml').stat().st_size} bytes",
        "  link -> program.py",
        "  program.py  6 bytes",
        "  skills/  1 file, 1 byte",
        (
            "it runs with your rights, and receives events of all sessions; "
            "if one byte of its files changes, you are asked again"
        ),
    ] == consent_lines(Style(), found)


def test_files_that_change_meanwhile(home: Path, alone: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """A yes counts for what was shown: if a file changes before the answer, nothing is agreed to."""
    folder = make_extension(home / "extensions", "gate")

    def changed_while_asked(*_: object) -> bool:
        (folder / "program.py").write_text("evil\n", encoding="utf-8")
        return True

    monkeypatch.setattr("frontends.commands.extensions.trust.trio.run", changed_while_asked)

    assert 1 == session_core("ext", "trust", "gate")
    assert "the files changed during the review" in capfd.readouterr().err
    assert {"user gate": "no_consent"} == states(home, alone)


def test_off_and_on(home: Path, alone: Path, capfd: Said) -> None:
    """One that was switched off does not run, keeps its consent, and runs again when it is switched on."""
    make_extension(home / "extensions", "gate")
    session_core("ext", "trust", "gate", "--yes")
    assert 0 == session_core("ext", "disable", "gate")
    assert {"user gate": "disabled"} == states(home, alone)
    assert 0 == session_core("ext", "enable", "gate")
    assert {"user gate": "ready"} == states(home, alone)

    make_extension(home / "extensions", "new")
    capfd.readouterr()
    assert 0 == session_core("ext", "enable", "new")
    assert "it does not run yet: nobody has agreed to it yet" in capfd.readouterr().err
    assert "no_consent" == states(home, alone)["user new"]


def test_trust_switches_on_again(home: Path, alone: Path, capfd: Said) -> None:
    """Who agrees to one that is switched off is told that it runs again, and --yes lists what was agreed to."""
    folder = make_extension(home / "extensions", "gate")
    session_core("ext", "trust", "gate", "--yes")
    first = capfd.readouterr()
    session_core("ext", "disable", "gate")
    (folder / "more.txt").write_text("more")
    capfd.readouterr()
    assert 0 == session_core("ext", "trust", "gate", "--yes")
    again = capfd.readouterr()

    assert {"user gate": "ready"} == states(home, alone)
    assert "it was disabled, and is now enabled again" in again.err
    assert "enabled again" not in first.err
    assert "  runs        " in first.out
    assert "  more.txt" in again.out
    assert "  more.txt" not in first.out


def test_an_extension_of_a_project(home: Path, alone: Path, capfd: Said) -> None:
    """What a project brings needs both the trust in its folder and a yes of its own, whichever comes first."""
    make_extension(alone / ".session-core" / "extensions", "gate")
    assert {"project gate": "untrusted"} == states(home, alone)
    assert 0 == session_core("ext", "list")
    assert "to review and trust the files of this project: session-core trust\n" in capfd.readouterr().err

    assert 0 == session_core("ext", "trust", "gate", "--yes")
    assert (
        "it belongs to this project, and does not run until the folder is trusted; to review" in capfd.readouterr().err
    )
    assert {"project gate": "untrusted"} == states(home, alone)

    assert 0 == session_core("trust", "--yes")
    assert {"project gate": "ready"} == states(home, alone)


def test_every_folder_is_looked_through(home: Path, alone: Path, tmp_path: Path) -> None:
    """Of one name the project's first folder wins, then its second, then the home, then that of Smooth."""
    parents = [
        alone / ".session-core" / "extensions",
        alone / ".smooth" / "extensions",
        home / "extensions",
        tmp_path / "user" / ".smooth" / "extensions",
    ]
    folders = [make_extension(parent, "same", folder=f"f{number}") for number, parent in enumerate(parents)]
    make_extension(parents[1], "second")
    make_extension(parents[3], "fourth")
    (alone / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    session_core("trust", "--yes")
    for folder in (*folders, parents[1] / "second", parents[3] / "fourth"):
        session_core("ext", "trust", str(folder), "--yes")

    def counting() -> dict[str, Path]:
        return {each.name: each.folder for each in find_extensions(home, alone).entries if each.state == "ready"}

    for folder in folders:
        others = {"second": parents[1] / "second", "fourth": parents[3] / "fourth"}
        assert {"same": folder, **others} == counting()
        session_core("ext", "disable", str(folder))


def test_another_place_for_smooth(home: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SMOOTH_HOME moves the user's second folder; one that is no absolute path does not count."""
    make_extension(tmp_path / "elsewhere" / "extensions", "moved")
    make_extension(tmp_path / "user" / ".smooth" / "extensions", "usual")
    monkeypatch.setenv("SMOOTH_HOME", str(tmp_path / "elsewhere"))
    assert {"user moved": "no_consent"} == states(home, alone)
    monkeypatch.setenv("SMOOTH_HOME", "elsewhere")
    assert {"user usual": "no_consent"} == states(home, alone)


def test_a_home_inside_of_the_project(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps the home in the folder they work in finds their own extensions there, without trusting a project."""
    home = alone / ".session-core"
    monkeypatch.setenv("SESSION_CORE_HOME", str(home))
    make_extension(home / "extensions", "gate")
    assert {"user gate": "no_consent"} == states(home, alone)


def test_an_untrusted_project_hides_nothing(home: Path, alone: Path) -> None:
    """An extension of the user's own goes on running, whatever a project that nobody trusts calls its own."""
    make_extension(home / "extensions", "gate")
    session_core("ext", "trust", "gate", "--yes")
    make_extension(alone / ".smooth" / "extensions", "gate")

    assert {"user gate": "ready", "project gate": "untrusted"} == states(home, alone)
    assert "user" == pick(find_extensions(home, alone), "gate").scope


def test_a_folder_that_nobody_looks_into(home: Path, alone: Path, tmp_path: Path, capfd: Said) -> None:
    """One may agree to an extension anywhere, is told how to have it found, and that works."""
    folder = make_extension(tmp_path / "a place", "gate")

    assert 0 == session_core("ext", "trust", str(folder), "--yes")
    link = f"ln -sfn '{folder}' {shlex.quote(str(home / 'extensions' / 'gate'))}"
    assert f"to link it there: {link}\n" in capfd.readouterr().err
    (home / "extensions").mkdir()
    (home / "extensions" / "gate").symlink_to(folder)
    assert {"user gate": "ready"} == states(home, alone)


def test_one_name_for_two(home: Path, tmp_path: Path, capfd: Said) -> None:
    """A name that fits several is refused with their folders, unless one of them is clearly meant."""
    one = make_extension(home / "extensions", "gate", folder="one")
    two = make_extension(home / "extensions", "gate", folder="two")

    assert 2 == session_core("ext", "trust", "gate", "--yes")
    assert [
        "session-core: 'gate' matches 2 extensions; type the folder of the one you mean",
        f"  {one}  nobody has agreed to it yet",
        f"  {two}  nobody has agreed to it yet",
    ] == capfd.readouterr().err.splitlines()
    assert 0 == session_core("ext", "trust", str(one), "--yes")
    assert 0 == session_core("ext", "info", "gate", "--json")
    assert str(one) == json.loads(capfd.readouterr().out.splitlines()[-1])["folder"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["info", "nope"], 2, "there is no extension called 'nope'; see: session-core ext list"),
        (["info", "./nope"], 2, "there is no folder './nope'"),
        (["info", "a\0/b"], 2, "'a/b' cannot be the path of a folder"),
        (["trust", "."], 1, "extension.toml in this folder"),
        (["enable"], 2, "the following arguments are required: NAME"),
        (["logout", "nope"], 2, "there is no extension called 'nope', and no login of one"),
        (["login", "nope"], 2, "there is no extension called 'nope'"),
        (["login", "gate/"], 2, "'gate/' is neither NAME nor NAME/PROVIDER of an extension"),
        (["logout", "gate/"], 2, "'gate/' is neither NAME nor NAME/PROVIDER of an extension"),
        (["polish"], 2, "argument task: invalid choice: 'polish'"),
        ([], 2, "the following arguments are required: task"),
        (["logs", "x", "--lines", "0"], 2, "argument --lines: '0' is not a whole number of at least 1"),
        (["list", "--cwd", "/no/such/place"], 2, "--cwd: there is no '/no/such/place'"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, sentence: str, capfd: Said) -> None:
    """What makes no sense is one clear line."""
    assert code == session_core("ext", *arguments)
    told = capfd.readouterr()
    assert ("", 1) == (told.out, told.err.count("\n"))
    assert sentence in told.err


def test_nothing_foreign_reaches_the_terminal(home: Path, alone: Path, capfd: Said) -> None:
    """Escape codes in commands, folder names, files and broken manifests are made harmless everywhere."""
    folder = make_extension(home / "extensions", "gate", folder="\x1b]0;evil\x07")
    (folder / "\x1b[31mred").write_text("x", encoding="utf-8")
    manifest = folder / "extension.toml"
    manifest.write_text(manifest.read_text().replace("program.py", "\\u001b[31mx\\u202e"), encoding="utf-8")
    make_extension(home / "extensions", "\x1b[31m", folder="bad")
    for arguments in (["list"], ["info", "gate"], ["info", "bad"], ["trust", "gate", "--yes"], ["disable", "gate"]):
        session_core("ext", *arguments)
        told = capfd.readouterr()
        assert all(line.isprintable() for line in (told.out + told.err).split("\n")), arguments
    (found,) = find_extensions(home, alone).entries_named("gate")
    assert all(line.isprintable() for line in consent_lines(Style(), found))


def test_a_bad_extension_spoils_no_other(home: Path, capfd: Said) -> None:
    """A manifest that cannot be read is listed with the reason, beside those that can."""
    make_extension(home / "extensions", "good")
    bad = make_extension(home / "extensions", "bad")
    (bad / "extension.toml").write_text('name = "bad"\n', encoding="utf-8")

    assert 0 == session_core("ext", "list", "--json")
    listed = {each["name"]: each for each in map(json.loads, capfd.readouterr().out.splitlines())}
    assert ("no_consent", "invalid") == (listed["good"]["state"], listed["bad"]["state"])
    assert [sys.executable, "program.py"] == listed["good"]["command"]
    assert f"{bad / 'extension.toml'}: " in listed["bad"]["reason"]
    assert 1 == session_core("ext", "info", "bad")


def test_everything_about_one(home: Path, capfd: Said) -> None:
    """`info --json` has the whole manifest, but no value of a variable; `info` says what has no effect."""
    make_extension(home / "extensions", "gate", more='colour = "red"\nenv = {KEY = "secret"}\n')

    assert 0 == session_core("ext", "info", "gate", "--json")
    told = capfd.readouterr().out
    assert (["KEY"], 1, None) == tuple(json.loads(told)[key] for key in ("variables", "protocol", "sandbox"))
    assert "secret" not in told
    assert 0 == session_core("ext", "info", "gate")
    told = capfd.readouterr().out
    assert "  state       no consent, yours: nobody has agreed to it yet\n" in told
    assert "  remark      run.colour is not known here and has no effect\n" in told
    assert "secret" not in told


def test_hooks_are_called_hooks(home: Path, capfd: Said) -> None:
    """Of what a manifest lists, events and hooks are told apart."""
    more = '[capabilities]\nevents = ["tool_call", "turn_start", "message_end"]\n'
    file = make_extension(home / "extensions", "gate", more=more) / "extension.toml"
    file.write_text("hook_timeout_ms = 50\n" + file.read_text())

    assert 0 == session_core("ext", "info", "gate")
    told = capfd.readouterr().out
    assert "  is told of  turn_start, message_end\n" in told
    assert "  hooks       tool_call, message_end, each within 50 ms\n" in told


def test_logging_out(home: Path, capfd: Said) -> None:
    """`info` tells who is logged in, and `logout` forgets all logins of an extension, or one, and says which."""
    folder = make_extension(home / "extensions", "gate")
    file = CredentialFile(home / "extension-logins.json")
    for provider in ("words", "signs"):
        login = LoginKey(extension="gate", folder=os.path.realpath(folder), provider=provider)
        file.save(login, StoredCredentials(api_key=Secret("very-secret")))

    assert 0 == session_core("ext", "info", "gate")
    both = capfd.readouterr().out
    assert 0 == session_core("ext", "logout", "gate/words")
    one = capfd.readouterr().out
    assert 0 == session_core("ext", "info", "gate", "--json")
    left = json.loads(capfd.readouterr().out)["logins"]
    assert 0 == session_core("ext", "logout", "gate")
    assert f"✓ logged out of signs of gate in {folder}\n" == capfd.readouterr().out
    assert 0 == session_core("ext", "logout", "gate")

    assert "  logins      words, signs (to log out: session-core ext logout gate)\n" in both
    assert "secret" not in both
    assert f"✓ logged out of words of gate in {folder}\n" == one
    assert ["signs"] == left
    assert ("you are not logged in to a provider of gate\n", ()) == (capfd.readouterr().out, file.all())


def test_the_table_fits(home: Path, alone: Path) -> None:
    """No line of the list is wider than the terminal."""
    make_extension(home / "extensions", "gate" * 10)
    lines = extension_lines(Style(), find_extensions(home, alone).entries, width=60)
    assert 2 == len(lines)
    assert all(len(line) <= 60 for line in lines)


def test_switched_off_altogether(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """Who has switched off all extensions is told so, rather than what to do about a single one."""
    make_extension(home / "extensions", "gate")
    monkeypatch.setenv("SESSION_CORE_EXTENSIONS", "false")
    assert 0 == session_core("ext", "list")
    assert "● none of them runs, because extensions.use is false here" in capfd.readouterr().err


def test_a_list_of_those_who_may(home: Path, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SMOOTH_EXTENSIONS_ALLOW only those on the list may run."""
    for name in ("gate", "other"):
        make_extension(home / "extensions", name)
        session_core("ext", "trust", name, "--yes")
    monkeypatch.setenv("SMOOTH_EXTENSIONS_ALLOW", "gate, ")
    assert {"user gate": "ready", "user other": "not_allowed"} == states(home, alone)


def test_a_damaged_file_of_consents(home: Path, capfd: Said) -> None:
    """If it cannot be read nothing runs, and that is said."""
    make_extension(home / "extensions", "gate")
    session_core("ext", "trust", "gate", "--yes")
    (home / sc.extensions.CONSENT_FILE).write_text("{", encoding="utf-8")

    assert 0 == session_core("ext", "list")
    told = capfd.readouterr()
    assert "no consent" in told.out
    assert "is damaged, so no extension runs until you agree to it again" in told.err


@pytest.mark.parametrize("task", ["", *TASKS])
def test_help(task: str, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    """Every task explains itself in lines of at most 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert 0 == entry.main(["ext", *task.split(), "--help"])
    told = capsys.readouterr().out
    assert told.startswith(f"usage: session-core ext {task}".rstrip())
    assert [] == [line for line in told.splitlines() if len(line) > 80]
    assert ("examples:" in told) == (task == "")
    assert ("--home DIR" in told) == (task != "")
