"""Which protocols there are, and when their code is loaded."""

import logging
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import trio

from session_core.protocols.faults import DuplicatePlugin, ProtocolFault, UnknownPlugin
from session_core.protocols.registry import GROUP, ProtocolRegistry
from session_core.protocols.standard import StandardProtocol
from tests.session_core.service._protocols import Watched, fails, hangs

CODE = """
from session_core.protocols.api import ProtocolFactory
from session_core.protocols.standard import StandardProtocol

class Good(StandardProtocol):
    id = "good"

class NeedsMore(StandardProtocol):
    id = "needs_more"
    def __init__(self, what): ...

class OddOptions(StandardProtocol):
    id = "odd_options"
    options = dict

class Abstract(ProtocolFactory):
    id = "abstract"

ready = Good()
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that is installed, and not imported."""
    monkeypatch.syspath_prepend(tmp_path)
    name = "protocols_of_a_test"
    (tmp_path / f"{name}.py").write_text(CODE)
    (tmp_path / f"{name}_broken.py").write_text("import there_is_no_such_module")
    (tmp_path / f"{name}_leaving.py").write_text("raise SystemExit(3)")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def entry(name: str, value: str) -> EntryPoint:
    """An entry point as an installed package has it."""
    return EntryPoint(name=name, value=value, group=GROUP)


def test_what_comes_along() -> None:
    """Without anything else there are the two protocols that come along."""
    registry = ProtocolRegistry(installed=())
    assert registry.names() == ("standard", "code")
    assert isinstance(registry.get("standard"), StandardProtocol)
    assert registry.get("standard") is registry.get("standard")


def test_code_is_loaded_when_it_is_selected(module: str) -> None:
    """Of installed protocols the names are read; the code of one is loaded when it is selected, once."""
    registry = ProtocolRegistry(installed=[entry("good", f"{module}:Good"), entry("bad", f"{module}_broken:X")])
    assert registry.names() == ("standard", "code", "good", "bad")
    assert module not in sys.modules
    good = registry.get("good")
    assert (good.id, module in sys.modules) == ("good", True)
    assert registry.get("good") is good


def test_an_entry_point_may_be_a_factory_itself(module: str) -> None:
    """An entry point leads to a class, or to a factory that is made already."""
    assert ProtocolRegistry(installed=[entry("good", f"{module}:ready")]).get("good").id == "good"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("other", "{}:Good", "calls itself 'good'"),
        ("number", "{}:number", "is not a ProtocolFactory"),
        ("needs_more", "{}:NeedsMore", "cannot be loaded: TypeError"),
        ("abstract", "{}:Abstract", "cannot be loaded: TypeError"),
        ("odd_options", "{}:OddOptions", "has options that are not all made by `option`"),
        ("missing", "{}:Missing", "cannot be loaded: AttributeError"),
        ("broken", "{}_broken:X", "cannot be loaded: ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("leaving", "{}_leaving:X", "cannot be loaded: SystemExit: 3"),
    ],
)
def test_code_that_is_no_protocol(module: str, name: str, value: str, reason: str) -> None:
    """Code that cannot be loaded, or is no protocol of that name, is a fault that says where it comes from and why."""
    where = value.format(module)
    registry = ProtocolRegistry(installed=[entry(name, where)])
    with pytest.raises(ProtocolFault) as caught:
        registry.get(name)
    assert (caught.value.plugin, caught.value.callback) == (name, "build")
    assert f"({where}) {reason}" in caught.value.reason


def test_a_protocol_that_there_is_not() -> None:
    """An unknown name is refused with those that there are."""
    with pytest.raises(UnknownPlugin) as caught:
        ProtocolRegistry([Watched()], installed=()).get("nope")
    assert (caught.value.code, caught.value.field) == ("unknown_protocol", "protocol")
    assert caught.value.message == "there is no protocol called 'nope'; known: standard, code, watched"


def test_a_version_that_is_none() -> None:
    """A protocol counts the versions of its options in whole numbers from 1."""
    for version in ("1", 0, None):
        factory = Watched()
        factory.version = version  # type: ignore[assignment]
        with pytest.raises(ProtocolFault, match="which is not a whole number"):
            ProtocolRegistry([factory], installed=()).get("watched")


def test_two_of_one_name() -> None:
    """Two protocols of one name that a program brings are refused, naming both; so is the name of one that is there."""
    watched = "tests.session_core.service._protocols.Watched"
    with pytest.raises(DuplicatePlugin) as caught:
        ProtocolRegistry([Watched(), Watched()], installed=())
    assert caught.value.message == f"two protocols are called 'watched': {watched} and {watched}"
    assert caught.value.code == "duplicate_protocol"
    with pytest.raises(DuplicatePlugin, match=r"'standard': session-core \(.*\) and session_core.protocols.standard"):
        ProtocolRegistry([StandardProtocol()], installed=())


def test_two_packages_of_one_name(module: str) -> None:
    """A name that two packages bring cannot be used, and the error says what to do; all others can be."""
    twice = [entry("good", f"{module}:Good"), entry("good", "a.b:C"), entry("other", "a.b:D")]
    registry = ProtocolRegistry(installed=twice)
    assert registry.names() == ("standard", "code", "good", "other")
    assert isinstance(registry.get("standard"), StandardProtocol)
    with pytest.raises(DuplicatePlugin) as caught:
        registry.get("good")
    both = f"an installed package ({module}:Good) and an installed package (a.b:C)"
    assert caught.value.message == f"two protocols are called 'good': {both}; uninstall one of these packages"
    assert (caught.value.code, caught.value.field) == ("duplicate_protocol", "protocol")


def test_the_program_counts_before_what_is_installed() -> None:
    """A protocol that a program brings takes the place of installed ones of its name, be they one or two."""
    for installed in ([entry("watched", "a.b:C")], [entry("watched", "a.b:C"), entry("watched", "a.b:D")]):
        own = Watched()
        registry = ProtocolRegistry([own], installed=installed)
        assert registry.get("watched") is own
        assert registry.names().count("watched") == 1


def test_what_comes_along_counts_before_what_is_installed(caplog: pytest.LogCaptureFixture) -> None:
    """A package cannot take the place of a protocol that comes along, and the log says so."""
    registry = ProtocolRegistry(installed=[entry("standard", "a.b:C")])
    assert type(registry.get("standard")) is StandardProtocol
    assert "session-core has one of this name" in caplog.text


class Second(Watched):
    """One more."""

    id = "second"


async def test_all_are_closed(autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Every protocol that was used is closed; a fault or a hang of one keeps no other from it."""
    for trouble in (fails, hangs):

        async def close(trouble: object = trouble) -> None:
            await trio.lowlevel.checkpoint()
            await trouble()  # type: ignore[operator]

        first, second, unused = Watched(close=close), Second(), StandardProtocol()
        unused.id = "unused"
        registry = ProtocolRegistry([first, second, unused], installed=())
        registry.get("watched"), registry.get("second")
        with trio.move_on_after(1), caplog.at_level(logging.ERROR):
            await registry.aclose()
        assert (first.calls, second.calls) == ([("aclose",)], [("aclose",)])
    assert [record.message for record in caplog.records] == ["the protocol watched could not be closed"]
