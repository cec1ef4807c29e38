"""Flags of extensions, as people write them."""

from session_core.assembly.extension_setup import flags_of


def test_flags_are_read_as_they_are_meant() -> None:
    """A name alone is true, a value is what it looks like, and what JSON has no form for stays text."""
    written = ["plan", "--depth=3", "share=0.5", "loud=false", "name=Ada", "list=[1]", "odd=NaN", "empty="]
    assert {
        "plan": True,
        "depth": 3,
        "share": 0.5,
        "loud": False,
        "name": "Ada",
        "list": "[1]",
        "odd": "NaN",
        "empty": "",
    } == flags_of(written)
