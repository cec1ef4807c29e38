"""How the process of an extension is started."""

import errno
import hashlib
import os
import shutil
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.sep.host.catalogue.agreed_copies import AgreedCopies
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.launch_command import (
    ExtensionLaunch,
    LaunchRefused,
    child_environment,
    expand_variables,
    prepare_launch,
)
from session_core.sep.host.process.process import open_extension_child, open_extension_process
from tests._needs import needs_node, needs_sandbox
from tests.session_core.sep._children import (
    SCRIPTS,
    Host,
    found_in,
    own_descriptors,
    pids_with_argument,
    running,
)

SHELL = "/bin/sh"


def test_the_environment_is_a_list_of_what_is_allowed() -> None:
    """Only harmless variables pass, what the manifest sets counts more, and nothing unset appears."""
    ours = {"PATH": "/bin", "HOME": "/home/x", "API_KEY": "secret", "LD_PRELOAD": "/evil.so", "LC_ALL": "C"}
    assert child_environment({"HOME": "/elsewhere", "KEY": "${env:API_KEY}"}, ours) == {
        "PATH": "/bin",
        "HOME": "/elsewhere",
        "LC_ALL": "C",
        "KEY": "secret",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert child_environment({}, {}) == {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("${env:A}", "1"),
        ("x${env:A}y${env:B}z", "x1y${env:A}z"),
        ("${env:MISSING}!", "!"),
        ("${env:A", "${env:A"),
        ("$A ${A} ${env:}", "$A ${A} "),
    ],
)
def test_references_to_variables(text: str, means: str) -> None:
    """A reference becomes the value, once and not again within it; what is unset is empty, other text stays."""
    assert expand_variables(text, {"A": "1", "B": "${env:A}"}) == means


async def test_a_bare_name_is_looked_up_on_the_path(tmp_path: Path) -> None:
    """A name without a slash is a program of the PATH, never a file in the extension's folder or a relative entry."""
    (tmp_path / "sh").write_text("#!/bin/false\n")
    (tmp_path / "sh").chmod(0o755)
    found = found_in(tmp_path, "sh", ["-c", "true"])
    relative = os.path.relpath(tmp_path)  # noqa: ASYNC240 - it is only text
    launch = await prepare_launch(found, {"PATH": f".::{relative}:/bin:/usr/bin"})
    assert launch.argv == (shutil.which("sh", path="/bin:/usr/bin"), "-c", "true")
    assert launch.bubblewrap is None


async def test_a_path_is_taken_from_the_folder(tmp_path: Path) -> None:
    """A command with a slash is a file, relative ones in the extension's folder."""
    program = tmp_path / "bin" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    launch = await prepare_launch(found_in(tmp_path, "./bin/run", []), {})
    assert launch.argv == (f"{launch.cwd}/bin/run",)
    assert (await prepare_launch(found_in(tmp_path, SHELL, []), {})).argv == (SHELL,)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program-here", "its command 'no-such-program-here' is missing: there is no such program on the PATH"),
        ("./missing", "its command './missing' is missing: there is no file"),
        ("./plain", "its command './plain' cannot be run: the file is not executable"),
        ("./folder", "its command './folder' is missing: there is no file"),
    ],
)
async def test_a_command_that_cannot_be_run_is_refused(tmp_path: Path, command: str, why: str) -> None:
    """What cannot be started is refused before anything starts, and the sentence says why."""
    (tmp_path / "plain").write_text("text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LaunchRefused) as refused:
        await prepare_launch(found_in(tmp_path, command, []), {"PATH": "/bin"})
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("command", "args", "run", "what"),
    [
        ("./.git/run", [], "", "command './.git/run'"),
        ("lib/../.git/run", [], "", "command 'lib/../.git/run'"),
        ("run", [], '[run.env]\nPATH = "{folder}/.git"', "command 'run'"),
        (SHELL, ["{alias}/.git/run"], "", "argument '.*/alias/.git/run'"),
        (SHELL, ["-e", ".git/run"], "", "argument '.git/run'"),
        (SHELL, ["-I.git"], "", "argument '-I.git'"),
        (SHELL, ["--load=x,./.git/run"], "", "argument '--load=x,./.git/run'"),
        (SHELL, [], '[run.env]\nPYTHONPATH = "lib:.git/lib"', "variable 'PYTHONPATH'"),
        (SHELL, [], '[run.env]\nLIB = "${env:UNSET}.git"', "variable 'LIB'"),
    ],
)
async def test_nothing_runs_out_of_git(tmp_path: Path, command: str, args: list[str], run: str, what: str) -> None:
    """What the digest leaves out is not run: neither the command nor an argument or variable may lead into `.git`."""
    folder, alias = tmp_path / "x", tmp_path / "alias"
    (folder / ".git").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / ".git" / "run").write_text("#!/bin/sh\n")
    (folder / ".git" / "run").chmod(0o755)
    alias.symlink_to(folder)
    args = [each.replace("{alias}", str(alias)) for each in args]
    found = found_in(folder, command, args, run=run.replace("{folder}", str(folder)))
    with pytest.raises(LaunchRefused, match=f"its {what} leads into .git, whose files are not pinned"):
        await prepare_launch(found, {"PATH": "/bin"})


async def test_a_link_called_git_is_not_run_either(tmp_path: Path) -> None:
    """A `.git` that leads elsewhere is no way around the digest."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ".git").symlink_to("/bin")
    with pytest.raises(LaunchRefused, match=r"leads into \.git"):
        await prepare_launch(found_in(tmp_path / "x", "./.git/sh", []), {})


async def test_other_things_of_that_name_are_fine(tmp_path: Path) -> None:
    """Addresses that end in `.git`, files with names like it, and the `.git` of others are no obstacle."""
    args = ["https://a.org/x.git", ".gitignore", "lib/.git/x", "/elsewhere/.git/x", "--dir=..", ""]
    launch = await prepare_launch(found_in(tmp_path, SHELL, args), {})
    assert launch.argv == (SHELL, *args)


async def test_the_pin_of_the_program(tmp_path: Path) -> None:
    """A program whose digest is pinned starts in upper and lower case of it, and no other program does."""
    digest = hashlib.sha256(await trio.Path(SHELL).read_bytes()).hexdigest()
    for pin in (digest, digest.upper()):
        assert (await prepare_launch(found_in(tmp_path, SHELL, [], run=f'sha256 = "{pin}"'), {})).argv == (SHELL,)
    with pytest.raises(LaunchRefused, match=f"is not the pinned program: its SHA-256 is {digest}"):
        await prepare_launch(found_in(tmp_path, SHELL, [], run=f'sha256 = "{"0" * 64}"'), {})


async def test_changed_files_are_refused(tmp_path: Path) -> None:
    """Files that are not those that were agreed to are not started, nor are those that cannot be checked."""
    found = found_in(tmp_path / "x", SHELL, [])
    await prepare_launch(found, {})
    (found.folder / "added").write_text("more")
    with pytest.raises(LaunchRefused, match="its files have changed since it was agreed to"):
        await prepare_launch(found, {})
    shutil.rmtree(found.folder)
    with pytest.raises(LaunchRefused, match="its files cannot be checked"):
        await prepare_launch(found, {})


async def test_who_wants_a_sandbox_does_not_run_without(tmp_path: Path) -> None:
    """An extension that asks to be confined is refused where nothing can confine it, unless that is switched off."""
    found = found_in(tmp_path, SHELL, [], more="[sandbox]")
    with pytest.raises(LaunchRefused, match="it cannot be confined: "):
        await prepare_launch(found, {}, bubblewrap_places=str(tmp_path))
    assert (await prepare_launch(found, {}, confine="never", bubblewrap_places=str(tmp_path))).bubblewrap is None


@needs_sandbox
@pytest.mark.parametrize(
    ("more", "network", "remarks"),
    [
        ('image = "x"\nmemory = 512', False, ["sandbox.image is not used", "sandbox.memory and sandbox.cpus are not"]),
        ('network = "egress"', False, ["sandbox.network is egress without any of allow_domains"]),
        ('network = "egress"\nallow_domains = ["a.org"]', True, ["sandbox.allow_domains is not enforced"]),
    ],
)
async def test_what_a_sandbox_table_means(tmp_path: Path, more: str, network: object, remarks: list[str]) -> None:
    """The network is closed unless domains are named; what cannot be had here is remarked, not passed over."""
    launch = await prepare_launch(found_in(tmp_path, SHELL, [], more=f"[sandbox]\n{more}"), {"SECRET": "x"})
    assert ("--unshare-net" in launch.argv) == (not network)
    assert [remark for remark, start in zip(launch.remarks, remarks, strict=True) if remark.startswith(start)] == list(
        launch.remarks
    )


def with_own_script(tmp_path: Path) -> Path:
    """Make a folder that has its script in it: a sandbox has a folder for temporary files of its own."""
    folder = tmp_path / "extension"
    folder.mkdir()
    shutil.copyfile(SCRIPTS / "plain.py", folder / "plain.py")
    return folder


@needs_sandbox
async def test_a_confined_extension(tmp_path: Path) -> None:
    """In the sandbox an extension works as outside, changes no file, sees none of our secrets, and leaves no trace."""
    before = own_descriptors()
    args = ["-I", "-S", "plain.py", str(tmp_path)]
    more = "[sandbox]\n[capabilities]\ntools = true"
    found = found_in(with_own_script(tmp_path), sys.executable, args, more=more)
    environ = {**os.environ, "KEY_OF_OURS": "secret"}
    seen_argv: list[tuple[str, ...]] = []

    async def prepare(which: object) -> ExtensionLaunch:
        launch = await prepare_launch(found, environ, workspace=str(tmp_path))
        seen_argv.append(launch.argv)
        return launch

    async with running(found, prepare=prepare) as (extension, _):
        assert extension.problem is None
        params = {"tool": "echo", "arguments": {"text": "hello"}, "call_id": "1"}
        assert await extension.request("tool/execute", params, timeout=300) == {"content": "hello"}
        for path in (tmp_path / "x", found.folder / "x", Path.home() / "x"):
            assert await extension.request("write", {"path": str(path)}, timeout=300) == "OSError"
        assert await extension.request("pid", timeout=300) < 10
        environment = await extension.request("environment", timeout=300)
        assert "KEY_OF_OURS" not in environment
        assert not any("PATH=" in argument for argument in seen_argv[0])
    assert own_descriptors() == before
    assert pids_with_argument(str(tmp_path)) == []


@needs_sandbox
async def test_variables_do_not_reach_what_opens_the_sandbox(tmp_path: Path) -> None:
    """Variables for the loader of programs count inside only, where they do no harm, and no command line has them."""
    outside = tmp_path / "outside"
    outside.mkdir()
    found = found_in(
        with_own_script(tmp_path),
        sys.executable,
        ["-I", "-S", "plain.py", str(tmp_path)],
        more="[sandbox]",
        run=f'[run.env]\nLD_DEBUG = "statistics"\nLD_DEBUG_OUTPUT = "{outside}/seen"\nKEY = "never-to-be-seen"',
    )

    async def prepare(which: object) -> ExtensionLaunch:
        return await prepare_launch(found, os.environ, workspace=str(tmp_path))

    async with running(found, prepare=prepare) as (extension, _):
        assert extension.problem is None
        environment = await extension.request("environment", timeout=300)
        assert environment["KEY"] == "never-to-be-seen"
        assert environment["LD_DEBUG_OUTPUT"] == f"{outside}/seen"
        assert pids_with_argument("never-to-be-seen") == []
    assert list(outside.iterdir()) == []


@needs_node
async def test_an_extension_in_another_language(tmp_path: Path) -> None:
    """A program of Node works like any other, and what it prints goes to the log."""
    found = found_in(tmp_path, "node", [str(SCRIPTS / "plain.mjs")])
    async with running(found) as (extension, _):
        assert extension.problem is None
        assert [tool.name for tool in extension.registrations.tools] == ["echo"]
        params = {"tool": "echo", "arguments": {"text": "hello"}, "call_id": "1"}
        assert await extension.request("tool/execute", params, timeout=300) == {"content": "hello"}
    assert [line.text for line in extension.log.lines() if line.source == "stdout"] == ["a word on stdout"]


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (ExtensionLaunch(argv=("/no/such/program",), env={}, cwd="/"), "there is no such program"),
        (ExtensionLaunch(argv=(SHELL,), env={}, cwd="/no/such/folder"), "the folder '/no/such/folder' does not exist"),
        (ExtensionLaunch(argv=("/etc/passwd",), env={}, cwd="/"), "Permission denied"),
        (ExtensionLaunch(argv=(SHELL, "a\0b"), env={}, cwd="/"), "embedded null byte"),
        (
            ExtensionLaunch(argv=(SHELL,), env={}, cwd="/", bubblewrap=SHELL, inside={"A": "\0--bind"}),
            "embedded null byte",
        ),
    ],
)
async def test_a_process_that_cannot_be_started(launch: ExtensionLaunch, why: str) -> None:
    """What the system refuses to start is refused in plain words, and no descriptor stays open."""
    before = own_descriptors()
    with pytest.raises(LaunchRefused, match=why) as refused:
        async with open_extension_process(launch, ExtensionLog().open_process_log(), name="x"):
            pass
    assert refused.value.final
    assert own_descriptors() == before


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("os.pipe", 0),
        ("os.pipe", 1),
        ("os.pipe", 3),
        ("os.memfd_create", 0),
        ("subprocess.Popen", 0),
    ],
)
async def test_too_many_open_files_are_told_and_pass(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Whichever descriptor cannot be had, the start is refused for now, and those that were opened are closed."""
    before = own_descriptors()
    calls, pipe = count(), os.pipe

    def failing(*_: object, **__: object) -> Any:
        if next(calls) == number:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pipe()

    monkeypatch.setattr(call, failing)
    launch = ExtensionLaunch(argv=(SHELL,), env={}, cwd="/", bubblewrap=SHELL, inside={"A": "b"})
    with pytest.raises(LaunchRefused, match="cannot run '/bin/sh' in '/': Too many open files") as refused:
        async with open_extension_process(launch, ExtensionLog().open_process_log(), name="x"):
            pass
    assert not refused.value.final
    assert own_descriptors() == before


async def test_files_that_cannot_be_opened_for_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files while the digest is taken are no change of the files, and pass; a missing right does not."""
    found = found_in(tmp_path, SHELL, [])
    for number, final in ((errno.EMFILE, False), (errno.EACCES, True)):

        def failing(*_: object, number: int = number, **__: object) -> int:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr("session_core.sep.host.catalogue.folder_digest.open_beneath", failing)
            with pytest.raises(LaunchRefused, match="its files cannot be checked") as refused:
                await prepare_launch(found, {})
        assert refused.value.final == final


def with_program(folder: Path, says: str = "good") -> Path:
    """Put a program into an extension's folder that says what it is, and what lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run").write_text(f"#!/bin/sh\necho {says} from ./helper: $(cat ./helper)\n")
    (folder / "run").chmod(0o755)
    (folder / "helper").write_text(f"{says}\n")
    return folder


async def output_of(launch: ExtensionLaunch) -> str:
    """Run a program, and return all that it prints."""
    said = b""
    with trio.fail_after(300):
        async with open_extension_child(launch, ExtensionLog().open_process_log()) as started:
            while data := await started.stdout.receive_some(1000):
                said += data
    return said.decode()


@pytest.mark.parametrize("confined", [False, pytest.param(True, marks=needs_sandbox)])
@pytest.mark.parametrize("home", ["home", None])
async def test_what_was_checked_is_what_runs(tmp_path: Path, confined: object, home: str | None) -> None:
    """Files that are swapped after the check do not run, wherever the copy lies, in the sandbox and outside."""
    folder = with_program(tmp_path / "x")
    found = found_in(folder, "./run", ["-"], more="[sandbox]" if confined else "")
    copies = AgreedCopies(tmp_path / home / "agreed" if home else None, lambda: {found.digest})
    launch = await prepare_launch(found, os.environ, hidden=(str(tmp_path / "home"),), copies=copies)
    with_program(folder, "evil")
    assert await output_of(launch) == "good from ./helper: good\n"


async def test_paths_into_its_own_folder_lead_to_the_copy(tmp_path: Path) -> None:
    """Arguments, variables and the command may name the folder itself; what lies elsewhere keeps its name."""
    folder, alias = with_program(tmp_path / "x"), tmp_path / "alias"
    (tmp_path / "library").write_text("")
    alias.symlink_to(folder)
    args = [f"{folder}/run", f"--load={alias}/run,{folder}", f"-I{folder}/lib", f"{folder}2/run", "../library", "../no"]
    run = f'[run.env]\nPYTHONPATH = "{folder}/lib:/usr/lib"\nSAYS = "in {folder}"'
    launch = await prepare_launch(found_in(folder, f"{folder}/run", args, run=run), {})
    copy = launch.cwd
    assert launch.argv == (
        f"{copy}/run",
        f"{copy}/run",
        f"--load={copy}/run,{copy}",
        f"-I{copy}/lib",
        f"{folder}2/run",
        f"{tmp_path}/library",
        "../no",
    )
    assert launch.env["PYTHONPATH"] == f"{copy}/lib:/usr/lib"
    assert launch.env["SAYS"] == f"in {copy}"


async def test_a_bare_name_that_the_path_finds_in_the_folder(tmp_path: Path) -> None:
    """A PATH that holds the folder itself finds the program of the copy."""
    folder = with_program(tmp_path / "x")
    launch = await prepare_launch(found_in(folder, "run", []), {"PATH": f"{folder}:/bin"})
    assert launch.argv == (f"{launch.cwd}/run",)


async def test_a_script_that_names_an_interpreter_in_the_folder(tmp_path: Path) -> None:
    """The scripts of a virtual environment name its interpreter by the whole path; the one in the copy is started."""
    folder = tmp_path / "x"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(SHELL, folder / "bin/sh")
    (folder / "bin/tool").write_text(f"#!{folder}/bin/sh -e\n")
    (folder / "bin/tool").chmod(0o755)
    launch = await prepare_launch(found_in(folder, "./bin/tool", ["x"]), {})
    assert launch.argv == (f"{launch.cwd}/bin/sh", "-e", f"{launch.cwd}/bin/tool", "x")


@pytest.mark.parametrize("confined", [False, pytest.param(True, marks=needs_sandbox)])
async def test_a_pinned_program_that_is_swapped_after_the_check(tmp_path: Path, confined: object) -> None:
    """The program that was compared with the pin runs, under its own name, whatever is at its place by then."""
    place, notes = with_program(tmp_path / "programs"), tmp_path / "notes"
    program = place / "run"
    shutil.copy(SHELL, program)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    script = 'echo "good as $0"'
    found = found_in(
        tmp_path / "x",
        str(program),
        ["-c", script, str(program)],
        run=f'sha256 = "{digest}"',
        more="[sandbox]" if confined else "",
    )
    launch = await prepare_launch(found, os.environ, workspace=str(tmp_path))
    program.unlink()
    program.write_text(f"#!/bin/sh\necho evil > {notes}\necho evil\n")
    program.chmod(0o755)
    assert (await output_of(launch), notes.exists()) == (f"good as {program}\n", False)


async def test_a_python_of_a_virtual_environment_still_works(tmp_path: Path) -> None:
    """An interpreter that is a link to a program elsewhere finds its own packages in the copy."""
    folder = tmp_path / "x"
    (folder / "env/bin").mkdir(parents=True)
    python = Path(sys.executable).resolve()  # noqa: ASYNC240 - nothing else is going on
    (folder / "env/bin/python").symlink_to(python)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / f"env/lib/{version}/site-packages").mkdir(parents=True)
    (folder / f"env/lib/{version}/site-packages/mine.py").write_text("print('good', __file__)")
    (folder / "env/pyvenv.cfg").write_text(f"home = {python.parent}\n")
    launch = await prepare_launch(found_in(folder, "env/bin/python", ["-c", "import json, mine"]), os.environ)
    (folder / f"env/lib/{version}/site-packages/mine.py").write_text("print('evil')")
    assert await output_of(launch) == f"good {launch.cwd}/env/lib/{version}/site-packages/mine.py\n"


async def test_people_read_the_paths_that_they_know(tmp_path: Path) -> None:
    """What a process says of its copy is told with the path of the original, and the copy goes with the process."""
    found = found_in(tmp_path / "x", SHELL, ["-c", 'echo "broken: $PWD/main.py" >&2; exit 3'])
    copies = AgreedCopies(tmp_path / "home" / "agreed")

    async def prepare(which: object) -> ExtensionLaunch:
        return await prepare_launch(found, os.environ, copies=copies)

    async with running(found, prepare=prepare) as (extension, _):
        assert extension.problem is not None
        assert f"it said: broken: {found.folder}/main.py" in extension.problem
    copies.remove_unused()
    assert [each.name for each in (tmp_path / "home" / "agreed").iterdir()] == [".lock"]


async def test_a_launch_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    """What cannot be started fails at once: no wait makes a missing program appear."""
    host = Host()
    extension = HostedExtension(found_in(tmp_path, "./missing", []), host, ExtensionLog())
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        assert extension.state == "failed"
        await extension.stop()
    assert host.states == ["failed", "stopped"]
