"""Which MCP servers there are, and the errors in the files that list them, by their lines."""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.json_lines import line_in_file

MCP_FILE = "mcp.json"


@attrs.frozen(kw_only=True)
class ServerListing:
    """The servers in the files, and what people should know about these."""

    servers: tuple[sc.setup.ServerConfig, ...] = ()
    mistakes: tuple[sc.setup.ConfigProblem, ...] = ()
    remarks: tuple[str, ...] = ()


def load_servers(home: Path, cwd: Path, mcp_file: str | None, environ: Mapping[str, str]) -> sc.setup.McpConfig:
    """Read the files that list servers; `mcp_file` takes the place of the user's own. Starts none."""
    return sc.setup.load_mcp_config(
        folder=str(cwd),
        trusted=sc.setup.find_trusted_fingerprint(home, cwd),
        environment=environ,
        user_file=Path(mcp_file) if mcp_file else home / MCP_FILE,
        project_file=cwd / MCP_FILE,
    )


def read_servers(home: Path, cwd: Path, settings: sc.setup.Config) -> ServerListing:
    """Read which servers there are, with the errors in the files by their lines."""
    trust = sc.setup.find_trusted_fingerprint(home, cwd)
    loaded = load_servers(home, cwd, settings.mcp_file, os.environ)
    # An untrusted folder is not an error in its file.
    counting = [each for each in loaded.problems if trust is not None or each.file != str(cwd / MCP_FILE)]
    place = sc.setup.current_environment(home, str(cwd), is_persistent=False)
    return ServerListing(
        servers=loaded.servers,
        mistakes=tuple(
            sc.setup.ConfigProblem(
                place=each.file, line=line_in_file(Path(each.file), each.field), key=each.field, what=each.message
            )
            for each in counting
        ),
        remarks=(
            *settings.remarks,
            *(str(each) for each in loaded.problems if each not in counting),
            *sc.setup.list_trust_remarks(place, trusted=trust is not None),
        ),
    )
