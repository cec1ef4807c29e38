"""What is checked, a folder with an `extension.toml` or a command line, and how it is started.

Anyone who names a program to check wants it to run, so nobody is asked for consent. It gets the same reduced
environment as from a host; a folder also gets its sandbox and the same refusals.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.errors import InvalidInput, SessionCoreError
from session_core.sep.host.catalogue.consent import digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.process.launch_command import (
    ExtensionLaunch,
    LaunchRefused,
    child_environment,
    prepare_launch,
)
from session_core.sep.protocol.manifest import MANIFEST_FILE, Manifest, RunSpec, read_manifest

_NO_NAME: Final = "extension"


@attrs.frozen(kw_only=True)
class ConformanceTarget:
    """The extension to check.

    Attributes:
        label: Its description for people.
        folder: Where it runs.
        manifest: As read from the file; for a bare command line, one that enables everything.
        declared: Whether the manifest comes from a file, so its name counts.
    """

    label: str
    folder: Path
    manifest: Manifest
    declared: bool
    argv: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The name it should give itself, if known."""
        return self.manifest.name if self.declared else None

    async def prepare(self, environ: Mapping[str, str], workspace: str) -> ExtensionLaunch:
        """Return how to start it.

        Raises:
            LaunchRefused: No host would start it.
        """
        if self.declared:
            found = await trio.to_thread.run_sync(self._describe_extension, abandon_on_cancel=True)
            return await prepare_launch(found, environ, workspace=workspace)
        env = child_environment({}, environ)
        program, *rest = self.argv
        return await trio.to_thread.run_sync(self._command, program, rest, env, abandon_on_cancel=True)

    def _describe_extension(self) -> DiscoveredExtension:
        try:
            digest = digest_of(self.folder)
        except (SessionCoreError, OSError) as error:
            raise LaunchRefused(f"its files cannot be read: {error}") from error
        return DiscoveredExtension(
            name=self.manifest.name, folder=self.folder, scope="user", manifest=self.manifest, digest=digest
        )

    def _command(self, program: str, rest: Sequence[str], env: dict[str, str]) -> ExtensionLaunch:
        found = shutil.which(program, path=env["PATH"])
        if found is None:
            raise LaunchRefused(f"there is no program {program!r}, and no folder of that name with an {MANIFEST_FILE}")
        return ExtensionLaunch(argv=(str(Path(found).absolute()), *rest), env=env, cwd=str(self.folder))


def read_target(target: Path | Sequence[str], cwd: Path) -> ConformanceTarget:
    """Read the target: a path is a folder, and so is a command line of one word that is the path of a folder.

    This blocks: call it in a thread.

    Raises:
        ManifestInvalid: The manifest in the folder cannot be used.
        InvalidInput: The command line is empty.
    """
    words = [str(target)] if isinstance(target, Path) else list(target)
    if not words or not words[0]:
        raise InvalidInput("there is nothing to check: name a folder with an extension.toml, or a command line")
    folder = cwd / words[0]
    if folder.name == MANIFEST_FILE and folder.is_file():
        folder = folder.parent
    if isinstance(target, Path) or (len(words) == 1 and folder.is_dir()):
        folder = folder.absolute()
        return ConformanceTarget(label=str(folder), folder=folder, manifest=read_manifest(folder), declared=True)
    manifest = Manifest(name=_NO_NAME, version="0", run=RunSpec(command=words[0], args=tuple(words[1:])))
    return ConformanceTarget(
        label=" ".join(words), folder=cwd.absolute(), manifest=manifest, declared=False, argv=tuple(words)
    )
