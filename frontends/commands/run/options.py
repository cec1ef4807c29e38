"""What was asked of `run`."""

from pathlib import Path

import attrs

import session_core as sc
from frontends.commands.run.attachments import PromptAttachments
from frontends.commands.run.output_mode import InteractionOptions


@attrs.frozen(kw_only=True)
class RunOptions:
    """What was asked for on the command line.

    Attributes:
        prompt: What to say; None goes on with a turn that did not come to its end.
        typed: Whether a person typed the prompt, so that it may be a command; a text from elsewhere never is one.
        cwd: An absolute path of a directory; None is where the session works, or this directory for a new one.
        home: Where settings are, and the sessions; None is for those who bring a service of their own.
        keeps: Whether anything is kept in the home.
        session: What was typed to name a session to go on with.
        go_on: Whether to go on with the last used session of this directory.
        model, permissions, thinking: Settings of the session, if they are to differ from what they are.
        protocol: How the model acts in a new session; one that is gone on with has its own, and no other is taken.
        limits: What one turn may use; the limits of a session that goes on stay where nothing is said.
        attached: What goes along with the prompt.
        output_schema: The shape of the answer, if it is to be JSON.
        extensions: Whether extensions may be started.
        flags: What they are told, as `name` or `name=value`.
        embedded: Whether to leave a service alone that runs for the home.
        manners: How to show it.
    """

    prompt: str | None
    typed: bool = True
    cwd: str | None = None
    home: Path | None = None
    keeps: bool = True
    session: str | None = None
    go_on: bool = False
    model: str | None = None
    permissions: sc.PermissionMode | None = None
    thinking: sc.Thinking | None = None
    protocol: str | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    attached: PromptAttachments = attrs.field(factory=PromptAttachments)
    output_schema: sc.JsonObject | None = None
    extensions: bool = True
    flags: tuple[str, ...] = ()
    embedded: bool = False
    manners: InteractionOptions = attrs.field(factory=InteractionOptions)


@attrs.frozen(kw_only=True)
class ContinuedSession:
    """A session to go on with, and how it was found."""

    summary: sc.SessionSummary
    short: str
