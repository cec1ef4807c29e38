"""What is said before anything else is."""

import pytest

from frontends.terminal.panels.welcome import describe_model


@pytest.mark.parametrize(
    ("chosen", "default", "said"),
    [
        (None, "", []),
        (None, "a/one", ["a/one answers, F4 chooses another"]),
        ("b/two\x1b", "a/one", ["b/two answers, F4 chooses another"]),
        ("demo", "a/one", ["demo answers, F4 chooses another"]),
        (
            None,
            "demo",
            [
                "the demo model answers, a script that works offline",
                "",
                "For a real model, see: session-core models --all",
            ],
        ),
    ],
)
def test_who_answers_is_told(chosen: str | None, default: str, said: list[str]) -> None:
    """A new session says which model answers, as soon as that is known; without a real one, how to get one."""
    assert describe_model(chosen, default) == said
