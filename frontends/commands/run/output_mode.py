"""How a turn is shown at the command line, and who may be asked."""

from collections.abc import Sequence

import attrs

import session_core as sc
from frontends.commands.run.approval_text import Approve
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.style import Style

_REMARK_CHARS = 400


@attrs.frozen(kw_only=True)
class InteractionOptions:
    """How to show a turn and who is asked; with `structured` the answer is JSON of a given shape.

    `yes` allows every tool call; without it, `approve` decides who is asked.
    """

    json: bool = False
    quiet: bool = False
    yes: bool = False
    approve: Approve = "ask"
    structured: bool = False

    @property
    def is_narrated(self) -> bool:
        """Whether a person is watching."""
        return not (self.json or self.quiet)


def output_text(output: sc.JsonValue, *, pretty: bool) -> str:
    """Return a JSON answer as text that means the same everywhere and cannot control a terminal."""
    return dump_json(output, default=dict, indent=2 if pretty else None)


def remark_lines(style: Style, remarks: Sequence[str]) -> str:
    """Return remarks for people, one line each."""
    mark = style.yellow(style.symbol("●"))
    return "".join(f"{mark} {one_line(remark, _REMARK_CHARS)}\n" for remark in remarks)
