"""Run `make run` and `make test` in other environments: `make test-places`, or `python -m tests.places NAME...`.

Each place gets a fresh copy of this checkout, an environment of its own and a home of its own; what is printed at the
end is what the tests say there. It takes some minutes for each, and the packages are installed anew.

`--busy` keeps every processor busy meanwhile, `--times 2` does all of it twice in one copy, `--keep` keeps the folders,
which are made in PLACES_FOLDER if that is set.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.places import container

CHECKOUT = Path(__file__).parents[2]
NOBODY = 65_534
HIDDEN = ("apt", "apt-get", "bwrap", "chromium", "google-chrome", "node", "npm", "rg", "tmux")
"""Programs that the tests can use, and must not need."""
SEARCHED = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
SUMMARY = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.*?) ?=*$", re.MULTILINE)
REPORTED = re.compile(r"^=* ?((?:FAILED|ERROR|NOT TESTED) .*?) ?=*$", re.MULTILINE)


class Place(NamedTuple):
    """An environment to test in: how commands are run there, and what is different."""

    what: str
    why_not: Callable[[], str | None]
    before: Sequence[str] = ()
    """What the command line begins with."""
    environment: Mapping[str, str] = {}
    folder: str = "checkout"
    owner: int | None = None
    umask: int = 0o022


def main() -> int:
    """Test the chosen places and print the result of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.places", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="*", help=f"places to test: {', '.join(PLACES)} (default: all)")
    parser.add_argument("--busy", action="store_true", help="keep all CPUs busy during the tests")
    parser.add_argument("--times", type=int, default=1, help="how many times to test each place")
    parser.add_argument("--keep", action="store_true", help="keep the folders, and say where they are")
    options = parser.parse_args()
    if unknown := set(options.name) - set(PLACES):
        parser.error(f"unknown place: {', '.join(sorted(unknown))}; choose from {', '.join(PLACES)}")
    failed = False
    for name in options.name or PLACES:
        place = PLACES[name]
        if (reason := place.why_not()) is not None:
            print(f"{name}: SKIPPED: {reason}", flush=True)
            continue
        print(f"{name}: {place.what}{', all CPUs busy' if options.busy else ''} ...", flush=True)
        with busy_processors() if options.busy else ExitStack():
            failed |= not check_place(name, place, times=options.times, keep=options.keep)
    return 1 if failed else 0


def check_place(name: str, place: Place, *, times: int, keep: bool) -> bool:
    """Copy the checkout there, run both commands, and tell what came of it; returns whether both succeeded."""
    base = Path(tempfile.mkdtemp(prefix=f"session-core-{name}-", dir=choose_base_folder()))
    base.chmod(0o755)
    try:
        folder, home, unreadable = base / place.folder, base / "home", base / "unreadable"
        unreadable.mkdir(mode=0o700)
        copy_checkout(folder)
        home.mkdir()
        if place.owner is not None:
            for each in (folder, home, *folder.rglob("*")):
                os.chown(each, place.owner, place.owner, follow_symlinks=False)
        environment = {
            **{each: value for each, value in os.environ.items() if each not in ("VIRTUAL_ENV", "MAKEFLAGS", "MFLAGS")},
            "HOME": str(home),
            "PATH": f"{unreadable}:{os.environ['PATH']}",
            **place.environment,
        }
        succeeded = True
        for command in (("make", "run"), ("make", "test")) * times:
            log = base / f"{'-'.join(command)}.log"
            began = time.monotonic()
            with log.open("wb") as written:
                code = subprocess.run(  # noqa: TID251 - nothing else goes on here
                    (*place.before, *command),
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    umask=place.umask,
                    check=False,
                ).returncode
            text = log.read_text(errors="replace")
            said = SUMMARY.findall(text)[-1:] or text.splitlines()[-1:]
            print(f"  {' '.join(command)}: exit {code} after {time.monotonic() - began:.0f} s: {' '.join(said)}")
            for line in REPORTED.findall(text):
                print(f"    {line}")
            sys.stdout.flush()
            succeeded = succeeded and code == 0
        if not succeeded or keep:
            keep = True
            print(f"  kept in {base}")
        return succeeded
    finally:
        if not keep:
            shutil.rmtree(base, ignore_errors=True)


def choose_base_folder() -> str | None:
    """Return a folder for all of it; every sandbox has an empty /tmp of its own, in which tests could see nothing."""
    chosen = os.environ.get("PLACES_FOLDER")
    return chosen or next((each for each in ("/srv", "/opt", str(Path.home())) if os.access(each, os.W_OK)), None)


def copy_checkout(target: Path) -> None:
    """Copy what git knows or would add, as it is now."""
    listed = subprocess.run(  # noqa: TID251 - nothing else goes on here
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (source := CHECKOUT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


@contextmanager
def busy_processors() -> Iterator[None]:
    """Have one endless loop for each processor."""
    loops = [subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(os.cpu_count() or 1)]  # noqa: TID251
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def never_skipped() -> str | None:
    """Say that this place can be tested on any machine."""
    return None


def why_not_root() -> str | None:
    """Say why this place cannot be tested here: it needs Linux and root."""
    if sys.platform != "linux":
        return "this needs Linux"
    return None if os.geteuid() == 0 else "this needs root"


def hide_programs(programs: Sequence[str]) -> tuple[str, ...]:
    """Return the beginning of a command line that runs a command where these programs are not there."""
    there = sorted({os.path.realpath(f"{folder}/{name}") for folder in SEARCHED for name in programs} & _files())
    cover = "".join(f"mount --bind /dev/null '{path}' && " for path in there)
    return ("unshare", "--mount", "sh", "-c", f'{cover}exec "$@"', "sh")


def _files() -> set[str]:
    return {str(each) for folder in SEARCHED if Path(folder).is_dir() for each in Path(folder).resolve().iterdir()}


PLACES = {
    "here": Place("the current user, nothing changed", never_skipped),
    "user": Place(
        "an ordinary user, with an unreadable folder in PATH",
        why_not_root,
        before=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        owner=NOBODY,
        umask=0o002,
    ),
    "capabilities": Place(
        "root with as few capabilities as in a container",
        container.why_not,
        before=(sys.executable, container.__file__, "--only-capabilities"),
    ),
    "container": Place(
        "as in a plain container: no namespaces, no mounts, no ptrace",
        container.why_not,
        before=(sys.executable, container.__file__),
    ),
    "bare": Place(f"without {', '.join(HIDDEN)}", why_not_root, before=hide_programs(HIDDEN)),
    "odd": Place(
        "UTC+14, the locale C, umask 077, and a long path with spaces",
        never_skipped,
        environment={"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "C"},
        folder=f"a folder with blanks/{'and a rather long name ' * 5}/session core",
        umask=0o077,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
