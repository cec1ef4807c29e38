"""What can be wrong with a protocol: typed, and always naming the plugin.

Faults of a plugin's code end the turn that met them (`ProtocolFault`), and nothing else. What a caller asked for and
cannot have is an error of the service, refused before anything is written.
"""

from typing import Literal

from session_core.errors import Conflict, InvalidInput, NotFound, SessionCoreError

Callback = Literal[
    "build",
    "upgrade",
    "initialize",
    "restore",
    "appended",
    "apply_extension",
    "check_turn_extension",
    "before_model_call",
    "instructions",
    "driver",
    "execute",
    "probe",
    "capture",
    "prose",
    "close",
]


class ProtocolFault(Exception):
    """A plugin has raised, hung, or broken its contract.

    Attributes:
        plugin: Its id.
        callback: What it was asked.
        reason: What happened, in a sentence.
    """

    def __init__(self, plugin: str, callback: Callback, reason: str) -> None:
        super().__init__(f"the protocol {plugin} failed in {callback}: {reason}")
        self.plugin = plugin
        self.callback = callback
        self.reason = reason


class CallbackContextExpired(Exception):
    """A plugin has used a context after the callback that it was given for."""


class ExtensionRejected(Exception):
    """A protocol does not take what it was given beside the conversation; the message is for people."""


class StateNotKeepable(Exception):
    """The state of an executor cannot be written down as it is now; the message names what is in the way."""


class UnknownPlugin(NotFound):
    """There is no protocol of this id here."""

    code = "unknown_protocol"


class DuplicatePlugin(Conflict):
    """Two protocols claim one place; the message names both."""

    code = "duplicate_protocol"


class ProtocolTooNew(Conflict):
    """A session was written by a later version of its protocol than there is here."""

    code = "protocol_too_new"


class OptionsInvalid(InvalidInput):
    """Options of a protocol have the wrong shape; `field` leads to the place."""

    code = "invalid_options"


class OptionConflict(Conflict):
    """An option that is fixed for a session's life was stated anew, and differently.

    Attributes:
        recorded: What the session has.
        requested: What was stated.
    """

    code = "option_conflict"

    def __init__(self, plugin: str, option: str, *, recorded: object, requested: object) -> None:
        super().__init__(
            f"the option {option!r} of the protocol {plugin} is {recorded!r} for this session and cannot become "
            f"{requested!r}",
            field=f"options.{plugin}.{option}",
        )
        self.recorded = recorded
        self.requested = requested


class StateRejected(SessionCoreError):
    """The kept state of an executor cannot be restored: a part is missing, or is not what was kept."""

    code = "executor_state_rejected"
