"""Ordinary work in a real sandbox, offline, with what the home directory shows: see docs/sandbox-builds.md."""

import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import AsyncGenerator

import pytest
import trio

from session_core.processes.child import Launch
from session_core.processes.run import run_in_group
from session_core.sandbox.plan import SandboxPlan, plan_sandbox
from session_core.sandbox.seccomp import filter_in_memory
from session_core.sandbox.secrets import home_folders
from tests._needs import needs_node, needs_program
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import Ran, World, make_world


@pytest.fixture
async def world(require_sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    """A project, for once with the real home directory of whoever runs the tests."""
    base = (world_base() / "builds" / f"{os.getpid()}-{tmp_path_factory.mktemp('x').name}").resolve()
    made = await make_world(base)
    shutil.rmtree(made.root)
    made.root.mkdir()
    yield made
    shutil.rmtree(base, ignore_errors=True)


async def _build(world: World, script: str, *, changes_protected: bool = False) -> Ran:
    home = os.environ.get("HOME") or home_folders()[0]
    plan: SandboxPlan = plan_sandbox(
        str(world.root),
        user_home=home,
        environment=os.environ,
        homes=home_folders(),
        protected=not changes_protected,
        filter_file=filter_in_memory(),
    )
    # Not by a thread that may end before the program: bubblewrap would end with it.
    argv = world.argv(["bash", "-c", f"set -e; {script}"], plan)
    done = await run_in_group(
        Launch(argv=argv, cwd="/", bubblewrap=world.bubblewrap.path), on_output=lambda _text: None
    )
    return Ran(code=done.exit_code, text=done.output)


def _write(world: World, **files: str) -> None:
    for name, content in files.items():
        (world.root / name.replace("__", ".")).write_text(content)


async def test_git(world: World) -> None:
    """`git status` and `git log` work; `git commit` does with a yes to changing protected files."""
    ran = await _build(
        world,
        "git init -q .; git config user.email a@b; git config user.name me; echo x > f; git add f; git commit -qm one",
        changes_protected=True,
    )
    assert (ran.code, ran.text) == (0, "")
    assert (await _build(world, "echo y >> f; git status --short; git log --format=%s")).text == " M f\none\n"
    assert (await _build(world, "git commit -qam two")).code != 0


@pytest.mark.slow
@needs_program("make")
@needs_program("gcc")
async def test_make_and_gcc(world: World) -> None:
    """A program in C is compiled by make, several files at a time."""
    _write(
        world,
        a__c='#include <stdio.h>\nint b(void);\nint main(void) { printf("%d\\n", b()); return 0; }\n',
        b__c="int b(void) { return 42; }\n",
        Makefile="prog: a.o b.o\n\t$(CC) -o $@ $^\n",
    )
    assert (await _build(world, "make -s -j2 && ./prog")).text == "42\n"


@pytest.mark.slow
@needs_program("perl")
async def test_perl(world: World) -> None:
    """A script uses modules of the system."""
    assert (await _build(world, "perl -MFile::Temp -MPOSIX -e 'print POSIX::floor(1.5)'")).text == "1"


@needs_program("python3")
@pytest.mark.slow
async def test_python(world: World) -> None:
    """A virtual environment is made, and a wheel from a folder is installed into it."""
    info = "greet-1.0.dist-info"
    with zipfile.ZipFile(world.root / "greet-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("greet.py", "print('hello')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"greet.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    ran = await _build(
        world,
        "python3 -m venv v; v/bin/pip install -q --no-index --find-links . greet 2>&1; v/bin/python -m greet",
    )
    assert ran.text.endswith("hello\n"), ran


@needs_program("npm")
@pytest.mark.slow
async def test_npm(world: World) -> None:
    """A package from a local archive is installed, and again from the lock file; the cache has to be elsewhere."""
    with tarfile.open(world.root / "greet.tgz", "w:gz") as archive:
        for name, content in (
            ("package/package.json", json.dumps({"name": "greet", "version": "1.0.0", "main": "i.js"})),
            ("package/i.js", "console.log('hello')\n"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    _write(world, package__json=json.dumps({"name": "x", "version": "1.0.0"}))
    options = "--offline --no-audit --no-fund --silent --cache /tmp/npm"
    ran = await _build(
        world,
        f"npm install {options} ./greet.tgz; node -e 'require(\"greet\")'; rm -r node_modules; npm ci {options};"
        " node -e 'require(\"greet\")'",
    )
    assert ran.text == "hello\nhello\n", ran


@pytest.mark.slow
@needs_node
async def test_node_tests(world: World) -> None:
    """Node runs tests, each file in a process of its own."""
    _write(world, a__test__js="require('node:test')('adds', () => require('assert').equal(1 + 1, 2));\n")
    ran = await _build(world, "node --test 2>&1 | grep -E '^(#|.) pass'")
    assert ran.text.rstrip().endswith("pass 1")


@needs_program("cargo")
@pytest.mark.slow
async def test_cargo(world: World) -> None:
    """A crate without dependencies is built and run offline."""
    (world.root / "src").mkdir()
    (world.root / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    (world.root / "src/main.rs").write_text('fn main() { println!("hello"); }\n')
    ran = await _build(world, "cargo run -q --offline 2>&1")
    assert ran.text == "hello\n", ran


@needs_program("javac")
@pytest.mark.slow
async def test_java(world: World) -> None:
    """A class is compiled and run."""
    _write(world, A__java='class A { public static void main(String[] a) { System.out.println("hello"); } }\n')
    assert (await _build(world, "javac A.java && java A")).text == "hello\n"


@needs_program("mvn")
@pytest.mark.slow
async def test_maven(world: World) -> None:
    """A project is compiled offline, with the plugins that the local repository has."""
    (world.root / "src/main/java").mkdir(parents=True)
    (world.root / "src/main/java/A.java").write_text("class A { }\n")
    (world.root / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId>"
        "<version>1</version><properties><maven.compiler.source>17</maven.compiler.source>"
        "<maven.compiler.target>17</maven.compiler.target></properties></project>"
    )
    command = "mvn -q -o -B compile && test -f target/classes/A.class"
    outside = await trio.run_process(["bash", "-c", command], cwd=world.root, capture_stdout=True, check=False)
    if outside.returncode != 0:
        pytest.skip("Maven's plugins are not in ~/.m2")
    shutil.rmtree(world.root / "target")
    assert (await _build(world, command)).code == 0
