"""A program that has one turn on its own terminal: a scripted model which edits a file in the folder it is given."""

import sys

import trio

import session_core as sc
from frontends.commands.run.options import RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.tools.files import coding_file_tools
from tests.frontends._paper import NoSignals


async def main(folder: str) -> int:
    change = {"path": "poem.txt", "old_text": "red", "new_text": "blue \x1b[31m"}
    provider = scripted.ScriptedProvider(scripted.tool_call("edit", change), scripted.text("That was it."))
    config = sc.ServiceConfig(models={"m": provider}, tools=coding_file_tools(), store=sc.MemoryStore(), cwd=folder)
    async with sc.open_session_service(config) as service:
        return await converse(service, RunOptions(prompt="go"), StandardStreams.standard(), NoSignals())


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1]))
