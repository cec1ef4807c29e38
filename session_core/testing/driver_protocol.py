"""A protocol that consists of nothing but a driver, for tests of drivers."""

from typing import Any, Final

from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext
from session_core.protocols.driver import Driver

TRIED: Final = "tried"
"""The id of the protocol below."""


def driver_settings(driver: Driver) -> dict[str, Any]:
    """Return the settings of a service whose sessions use this driver: `ServiceConfig(**driver_settings(driver))`."""
    return {"protocols": (DriverProtocol(driver),), "protocol": TRIED}


class DriverProtocol(ProtocolFactory):
    """Gives every session the same driver."""

    id = TRIED

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def build(self, context: BuildContext) -> ProtocolBundle:
        """Return a bundle with the driver."""
        return ProtocolBundle(driver=self._driver)
