"""Check whether the running service has the keys of this shell: it has only the keys from its own start."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import trio

import session_core as sc
from frontends.server.daemon.attached_client import open_talk
from frontends.server.daemon.runtime_paths import service_process
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import format_command

_ANSWER_S: Final = 5.0
"""How long it may take to list its models: this is only a remark."""


def keyed_models(home: Path, folder: Path, environ: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the models that a variable set here makes available, by provider; blocks briefly.

    There are none if the user has chosen the demo.

    Raises:
        ConfigInvalid: The configuration is wrong.
    """
    config = load_folder_config(home, folder, environ)
    if config.model == sc.setup.DEMO:
        return {}
    set_here = {each.name for each in config.providers if each.key_env and environ.get(each.key_env, "").strip()}
    found: dict[str, set[str]] = {}
    for each in sc.setup.available_models(config, environ):
        if each.available and each.info.provider in set_here:
            found.setdefault(each.info.provider, set()).add(each.info.name)
    return found


def format_lacking_keys(home: Path, keyed: Mapping[str, set[str]], models: Iterable[sc.ListedModel]) -> str:
    """Describe that the service has no model of a provider whose key is set here; empty if it has some of each."""
    usable = {each.name for each in models if each.usable}
    if all(names & usable for names in keyed.values()):
        return ""
    end = format_command(home, "shutdown", "")
    return f"the running service was started without the key that is set here; to use it, end the service: {end}"


async def describe_lacking_keys(service: sc.SessionMethods, home: Path, folder: Path) -> str:
    """Describe that a service lacks a key that is set here; empty if it does not, or does not answer."""
    try:
        with trio.move_on_after(_ANSWER_S):
            keyed = await trio.to_thread.run_sync(keyed_models, home, folder, os.environ)
            return (
                format_lacking_keys(home, keyed, (await service.list_models(cwd=str(folder))).models) if keyed else ""
            )
    except sc.SessionCoreError:
        pass  # users of the service will see the real error
    return ""


async def describe_lacking_keys_at_home(home: Path, folder: Path) -> str:
    """Describe that a home's running service lacks a key that is set here; empty if none runs."""
    try:
        if await trio.to_thread.run_sync(service_process, home) is None:
            return ""
        async with open_talk(home, role="observer", name="models") as talk:
            return await describe_lacking_keys(talk, home, folder)
    except sc.SessionCoreError:
        return ""
