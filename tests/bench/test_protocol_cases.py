"""The measurement of protocols measures what it says: the same turn, once through the layer and once around it."""

import math

import attrs
import pytest

from bench import __main__ as program
from bench import protocols
from bench.workshop import open_workshop
from session_core.storage.memory import MemoryStore


@pytest.mark.slow
async def test_the_case_measures_something() -> None:
    """The case, in small, gives a ratio and figures that were really measured."""
    result = await protocols._protocols(2, 1, 10)
    assert ("protocols", True) == (result.name, result.name in program.CASES)
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))


async def test_both_ways_lead_to_the_same() -> None:
    """A turn around the layer takes the same steps and leaves the same conversation, and does not touch the layer."""
    said = []
    async with open_workshop(MemoryStore()) as workshop:
        for around in (False, True):
            session_id = await workshop.new_session()
            protocol = protocols.protocol_of(workshop, session_id)
            if around:
                protocols.go_around(protocol)
                protocol.bundle = attrs.evolve(protocol.bundle, driver=object())  # type: ignore[arg-type] # asking it fails
            await workshop.turn(session_id, 4)
            said.append([(each.role, each.text) for each in (await workshop.service.load_session(session_id)).messages])
    assert said[0] == said[1]
    assert 4 == sum(role == "assistant" for role, _ in said[0])
