"""`session-core ext new`: a folder that works as it is, or nothing at all."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.arguments import TEMPLATES, parser
from session_core.sep.scaffold.template import KINDS
from tests.frontends._extensions import make_extension
from tests.frontends._kept import session_core
from tests.frontends._program import environment

Said = pytest.CaptureFixture[str]

NAMES = {each: f"my-{each}" for each in TEMPLATES}
FILES = {"extension.toml", "README.md", "pytest.ini", ".gitignore"}
LONGEST = 60


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that one works in; no extension of whoever runs the tests is seen."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_templates_are_those_there_are() -> None:
    """What can be chosen on the command line is what can be made, with the same default in front."""
    assert TEMPLATES == tuple(KINDS)


@pytest.mark.parametrize(
    "template", [pytest.param(each, marks=[pytest.mark.slow] if each != TEMPLATES[0] else []) for each in TEMPLATES]
)
async def test_what_is_made_works_at_once(template: str, work: Path) -> None:
    """Each template passes its own tests, which leave no trace in the folder, and keeps to the protocol."""
    name = NAMES[template]
    module = name.replace("-", "_")
    assert 0 == await trio.to_thread.run_sync(session_core, "ext", "new", name, "--template", template)
    folder = work / name
    texts = {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()}
    assert {f"{module}.py", f"test_{module}.py", *FILES} == set(texts)
    assert {} == {file: found for file, text in texts.items() if (found := re.findall(r"@[A-Z]+@", text))}
    assert [] == [file for file, text in texts.items() if file.endswith(".py") and len(text.splitlines()) >= LONGEST]
    manifest = sc.extensions.read_manifest(folder)
    assert (name, frozenset(KINDS[template].capabilities), ()) == (
        manifest.name,
        manifest.capabilities.enabled,
        manifest.remarks,
    )
    before = sc.extensions.compute_digest(folder)

    # No plugin that happens to be installed is needed, and none slows it down.
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # or nothing could be left behind
    reports: list[sc.extensions.ConformanceReport] = []

    async def check() -> None:
        reports.append(await sc.extensions.check_extension(folder))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            command = [sys.executable, "-m", "pytest", "-q"]
            tested = await trio.run_process(command, cwd=folder, env=env, capture_stdout=True, check=False)
    assert 0 == tested.returncode, tested.stdout.decode()
    assert re.search(rb"^[2-9] passed in ", tested.stdout, re.MULTILINE), tested.stdout.decode()
    assert ([], 0) == ([*reports[0].failures], reports[0].counts["warned"])
    assert before == sc.extensions.compute_digest(folder)


def test_what_to_type_next(home: Path, work: Path, capfd: Said) -> None:
    """The next commands are printed, and those of ours are understood; followed, they lead to one that runs."""
    assert 0 == session_core("ext", "new", "words")
    told = capfd.readouterr()
    python = shlex.quote(sys.executable)
    found, link = (shlex.quote(f"{home}/extensions{each}") for each in ("", "/words"))
    assert [
        f"✓ words was created in {work}/words, from the template tool:",
        "  words.py  test_words.py  extension.toml  README.md  pytest.ini  .gitignore",
        "Test it, check it, and let it run:",
        "  cd words",
        f"  {python} -m pytest",
        "  session-core ext check .",
        f'  mkdir -p {found} && ln -sfn "$PWD" {link}',
        "  session-core ext trust words",
    ] == told.out.splitlines()
    assert "" == told.err

    (home / "extensions").mkdir(parents=True)
    (home / "extensions" / "words").symlink_to(work / "words")
    assert 0 == session_core("ext", "trust", "words", "--yes")
    capfd.readouterr()
    assert 0 == session_core("ext", "doctor", "words", "--json")
    assert {"tools": ["words.count_words"]} == json.loads(capfd.readouterr().out)["offers"]


def test_one_that_is_made_where_it_is_looked_for(home: Path, capfd: Said) -> None:
    """In a folder of extensions it needs no link, folders above it are made, and another of its name is told of."""
    make_extension(home.parent / "smooth" / "extensions", "words")
    assert 0 == session_core("ext", "new", "words", "--into", str(home / "extensions" / "deep"))
    told = capfd.readouterr()
    assert "ln -s" not in told.out
    assert f"  cd {shlex.quote(f'{home}/extensions/deep')}\n" in told.out
    assert "another extension is called words, in " in told.err


def test_its_readme_names_the_same_folder(work: Path, capfd: Said) -> None:
    """The link that is printed is the one in the README."""
    assert 0 == session_core("ext", "new", "words")
    (printed,) = [line.strip() for line in capfd.readouterr().out.splitlines() if "ln -sfn" in line]
    assert printed in (work / "words" / "README.md").read_text(encoding="utf-8").splitlines()


TRIALS = {
    "tool": (
        'the tool my-tool.count_words, for "To be, or not to be": '
        '{"lines": 1, "words": 6, "characters": 19, "frequent": ["To", "be,", "or"]}'
    ),
    "command": "the command /my-command style Plain words.: kept as style",
    "permission-gate": (
        "its answer when the agent wants to run: sudo true: block, because this is dangerous, and nobody is here to be "
        "asked"
    ),
    "provider": 'the model my-provider/echo, asked "Hello there": Hello there',
    "widget": "the command /my-widget: count: 0 (widgets cannot be shown here)",
}


@pytest.mark.parametrize(
    "template", [pytest.param(each, marks=[pytest.mark.slow] if each != "command" else []) for each in TEMPLATES]
)
def test_one_that_is_tried_at_once(template: str, home: Path, work: Path, capfd: Said) -> None:
    """With --try it is linked, may run, is started and asked once; all that and what comes next is told."""
    name = NAMES[template]
    assert 0 == session_core("ext", "new", name, "--template", template, "--try")
    told = capfd.readouterr()
    lines = [line.partition(" (")[0] if " ms)" in line or " s)" in line else line for line in told.out.splitlines()]
    lines = [each for each in lines if not each.startswith(("  ", "● ", "its output outside"))]
    trial = TRIALS[template].partition(" (")[0]
    assert [
        f"✓ {name} was created in {work}/{name}, from the template {template}:",
        f"✓ {name} was linked to {home}/extensions/{name}, where extensions are searched.",
        f"✓ {name} may run, until one of its files changes.",
        f"{name} 0.1.0",
        "✓ it started and answered initialize",
        "✓ it answered a ping",
        f"✓ {trial}",
        "✓ it shut down and exited",
        "It has ended again, and nothing of this trial was stored. To use it:",
        "To change it, and let it run with the new files:",
    ] == lines
    assert (f"  cd {name}", f"  session-core ext trust {name}") == tuple(told.out.splitlines()[-2:])
    assert work / name == (home / "extensions" / name).readlink()
    session_core("ext", "list", "--json")
    assert ["ready"] == [json.loads(line)["state"] for line in capfd.readouterr().out.splitlines()]


def test_one_that_is_tried_where_it_is_looked_for(home: Path, capfd: Said) -> None:
    """In a folder of extensions it is tried without a link."""
    assert 0 == session_core("ext", "new", "words", "--try", "--into", str(home / "extensions" / "words"))
    assert "linked" not in capfd.readouterr().out
    assert (True, False) == ((home / "extensions" / "words").is_dir(), (home / "extensions" / "words").is_symlink())


def test_nothing_is_half_made(home: Path, work: Path, capfd: Said) -> None:
    """If the name, the place of the link or the folder is taken, --try refuses in one line and leaves all as it was."""
    make_extension(home / "extensions", "taken")
    (home / "extensions" / "stray").write_text("mine", encoding="utf-8")
    (work / "there").mkdir()
    for arguments, sentence in (
        (("taken",), f"an extension is called taken already, in {home}/extensions/taken; choose another name"),
        (("stray",), f"there is something at {home}/extensions/stray already, and it was left as it is"),
        (("words", "--into", "there"), "already, and it was left as it is; choose another folder"),
    ):
        assert 1 == session_core("ext", "new", *arguments, "--try")
        told = capfd.readouterr()
        assert ("", 1) == (told.out, len(told.err.splitlines()))
        assert sentence in told.err
    assert ["there"] == [each.name for each in work.rglob("*")]
    assert ["stray", "taken"] == sorted(each.name for each in (home / "extensions").iterdir())


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_readme_shows_commands_that_there_are(template: str, work: Path) -> None:
    """Every command line of ours in a README is one that the program understands, and there are five in all."""
    session_core("ext", "new", NAMES[template], "--template", template)
    readme = (work / NAMES[template] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert 5 == len(shown)
    assert (f"{shlex.quote(sys.executable)} -m pytest", True) == (shown[0], "ln -sfn" in shown[2])
    ours = [line for line in shown if line.startswith("session-core ")]
    inline = re.findall(r"`(session-core [^`]+)`", readme)
    assert (3, 4) == (len(ours), len(inline))
    for line in (*ours, *inline):
        assert parser().parse_args(shlex.split(line)[1:]).command is not None


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("../up",), 2, '"../up" cannot be the name of an extension: use 1 to 64 of a-z, 0-9,'),
        (("Words",), 2, '"Words" cannot be the name of an extension'),
        (("words", "--template", "game"), 2, "invalid choice: 'game'"),
        (("words", "--into", "there"), 1, "/folder/there' already, and it was left as it is"),
        (("words", "--into", "."), 1, "already, and it was left as it is"),
        (("words", "--into", "broken"), 1, "/folder/broken' already, and it was left as it is"),
        (("words", "--into", "there/file/below"), 2, "/folder/there/file/below' cannot be made: "),
        (("words", "--into", "a\0b"), 2, "cannot be the path of a folder"),
        (("words", "--into", "~nobody-of-that-name/x"), 2, "names an unknown user"),
    ],
)
def test_what_cannot_be_made(arguments: tuple[str, ...], code: int, sentence: str, work: Path, capfd: Said) -> None:
    """A wrong name, template or folder is refused in one line, and nothing is written or changed."""
    (work / "there").mkdir()
    (work / "there" / "file").write_text("mine", encoding="utf-8")
    (work / "broken").symlink_to("nowhere")
    assert code == session_core("ext", "new", *arguments)
    told = capfd.readouterr()
    assert "" == told.out
    assert sentence in told.err
    assert 1 == len(told.err.splitlines())
    assert ["broken", "there", "there/file"] == sorted(str(each.relative_to(work)) for each in work.rglob("*"))
