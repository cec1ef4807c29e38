"""The options of `run`: what to do, how to show it, and who may be asked."""

from pathlib import Path

import attrs

import session_core as sc
from frontends.commands.run.approval_text import Approve
from frontends.commands.run.prompt_kind import is_for_model
from frontends.shared.attachments import PromptAttachments


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


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options from the command line.

    Attributes:
        prompt: The prompt; None resumes an interrupted turn.
        typed: Whether a person typed the prompt, which may then be a command; a text from elsewhere never is.
        cwd: An absolute path of a directory; None is the session's directory, or this one for a new session.
        home: Where settings and sessions are; None is for callers that bring their own service.
        keeps: Whether anything is kept in the home.
        session: The typed name or id of a session to continue.
        go_on: Whether to continue the last used session of this directory.
        model, permissions, sandbox, thinking: Settings of the session, if they are to change.
        protocol: The protocol of a new session; a continued session has its own, and rejects any other.
        limits: The limits of one turn; a continued session keeps those that are not given.
        attached: The attachments of the prompt.
        output_schema: The JSON schema of the answer, if it is to be JSON.
        extensions: Whether extensions may be started.
        flags: Flags for extensions, as `name` or `name=value`.
        embedded: Whether to bypass a service that runs for the home.
        interaction: How to show the turn.
    """

    prompt: str | None
    typed: bool = True
    cwd: str | None = None
    home: Path | None = None
    is_persistent: bool = True
    session: str | None = None
    go_on: bool = False
    model: str | None = None
    permissions: sc.PermissionMode | None = None
    sandbox: sc.SandboxMode | None = None
    thinking: sc.Thinking | None = None
    protocol: str | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    attached: PromptAttachments = attrs.field(factory=PromptAttachments)
    output_schema: sc.JsonObject | None = None
    extensions: bool = True
    flags: tuple[str, ...] = ()
    embedded: bool = False
    interaction: InteractionOptions = attrs.field(factory=InteractionOptions)

    @property
    def asks_model(self) -> bool:
        """Whether the prompt goes to a model."""
        return self.prompt is None or not self.typed or is_for_model(self.prompt)

    def find_folder(self, known: "ContinuedSession | None") -> str:
        """Return the folder that the session is going to work in."""
        return self.cwd or (known.summary.cwd if known is not None else str(Path.cwd()))


@attrs.frozen(kw_only=True)
class ContinuedSession:
    """A session to continue, and how it was found."""

    summary: sc.SessionSummary
    short: str
