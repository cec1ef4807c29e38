"""The templates for extensions, and in what they differ apart from their files."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from session_core.sep.protocol.names import Capability


@attrs.frozen(kw_only=True)
class Kind:
    """A template; texts hold `@NAME@` where the name of the extension is to stand.

    Attributes:
        about: What the extension does, for its README.
        capabilities: What it may use.
        settings: Further lines of its manifest, above all tables.
        use: A command line that shows it at work.
    """

    about: str
    capabilities: tuple[Capability, ...]
    settings: str = ""
    use: str


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "tool": Kind(
            about="Gives models the tool `@NAME@.count_words`, which counts the words of a text.",
            capabilities=("tools",),
            use='session-core run "Count the words of the first paragraph of the README"',
        ),
        "command": Kind(
            about=(
                "The command `/@NAME@` keeps notes: `/@NAME@ TITLE TEXT` keeps one, `/@NAME@ TITLE` brings it into the "
                "conversation, where the model reads it too, and `/@NAME@` lists them all."
            ),
            capabilities=("commands", "session", "kv"),
            use='session-core run "/@NAME@ style Short sentences, plain words."',
        ),
        "permission-gate": Kind(
            about=(
                "Asks you before the agent runs a dangerous command line, such as `rm -rf`. Where nobody can be asked, "
                "the answer is no. What counts as dangerous stands at the top of the source. It is a help against "
                "accidents, not a wall: there are many ways to write one and the same command."
            ),
            capabilities=("ui",),
            settings="hook_timeout_ms = 300000  # as long as a person may think; after that the answer is no\n",
            use='session-core run "Run the command: sudo true"',
        ),
        "provider": Kind(
            about="Brings the model `@NAME@/echo`, which answers with what it was told, piece by piece.",
            capabilities=("providers",),
            use='session-core run --model @NAME@/echo "Hello there"',
        ),
        "widget": Kind(
            about=(
                "The command `/@NAME@` shows a counter that stays in sight, where the frontend can show widgets. The "
                "keys `+`, `-` and `0` change it, and it is kept."
            ),
            capabilities=("commands", "ui", "kv"),
            use='session-core run "/@NAME@"',
        ),
    }
)
"""By the name that people choose them by; the first one is the usual one."""
