"""How patient we are with each provider is a setting, within bounds."""

from pathlib import Path

import pytest

from session_core.config.problems import ConfigInvalid
from session_core.config.setting_report import describe_settings
from session_core.providers.timeouts import ProviderTimeouts
from tests.session_core.config._documents import load


def test_timeouts_of_a_provider(tmp_path: Path) -> None:
    """Each time can be set for each provider; what is not said stays as it is."""
    text = "[providers.ollama.timeouts]\nconnect = 2.5\nprogress = 3600\n"
    config = load(tmp_path, user=text)
    patience = {each.name: each.timeouts for each in config.providers}

    assert ProviderTimeouts(connect_s=2.5, progress_s=3_600) == patience["ollama"]
    assert ProviderTimeouts() == patience["openai"]
    [shown] = [each for each in describe_settings(config, {}) if each.key.endswith(".timeouts")]
    assert ("providers.ollama.timeouts", 1) == (shown.key, shown.source.line)
    assert {"connect": 2.5, "read": 120.0, "progress": 3_600.0, "total": 3_600.0} == shown.value


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("timeouts = {connect = 0}", "providers.openai.timeouts.connect", "expected a number from 1 to 300, not 0"),
        (
            "timeouts = {conect = 9}",
            "providers.openai.timeouts.conect",
            "did you mean providers.openai.timeouts.connect?",
        ),
        ("timeouts = {read = 'x'}", "providers.openai.timeouts.read", "expected a number from 1 to 3,600, not 'x'"),
        ("timeouts = 5", "providers.openai.timeouts", "expected a table with seconds: connect, read, progress, total"),
    ],
)
def test_timeouts_that_make_no_sense(tmp_path: Path, text: str, key: str, what: str) -> None:
    """A time beyond its bounds is refused with what it may be."""
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, user=f"[providers.openai]\n{text}\n")

    [problem] = refused.value.problems
    assert (2, key) == (problem.line, problem.key)
    assert what in problem.what
