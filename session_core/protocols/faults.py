"""The errors of protocols: typed, and always naming the plugin.

A fault of a plugin's code ends the turn that met it (`ProtocolFault`), and nothing else. An impossible request of a
caller is an error of the service, refused before anything is written.
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
        callback: The callback that failed.
        reason: What happened, in a sentence.
    """

    def __init__(self, plugin: str, callback: Callback, reason: str) -> None:
        super().__init__(f"the protocol {plugin} failed in {callback}: {reason}")
        self.plugin = plugin
        self.callback = callback
        self.reason = reason


class CallbackContextExpired(Exception):
    """A plugin has used a context after the end of its callback."""


class InputRejected(Exception):
    """A protocol does not accept input outside the conversation; the message is for people."""


class StateNotKeepable(Exception):
    """The current state of an executor cannot be saved; the message names the obstacle."""


class UnknownPlugin(NotFound):
    """No protocol has this id here."""

    code = "unknown_protocol"


class DuplicatePlugin(Conflict):
    """Two protocols claim one id; the message names both."""

    code = "duplicate_protocol"


class ProtocolTooNew(Conflict):
    """A session was written by a later version of its protocol than the one here."""

    code = "protocol_too_new"


class OptionsInvalid(InvalidInput):
    """Options of a protocol have the wrong shape; `field` is the path to the error."""

    code = "invalid_options"


class OptionConflict(Conflict):
    """An option that is fixed for a session's life was stated again with another value.

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
    """The stored state of an executor cannot be restored: a part is missing, or differs from what was stored."""

    code = "executor_state_rejected"
