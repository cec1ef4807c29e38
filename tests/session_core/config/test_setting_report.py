"""What may be seen of a configuration: every setting with its place, and no key."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.config.setting_report import ShownSetting, describe_settings, dollars
from session_core.config.settings import SETTINGS
from session_core.config.values import SettingSource
from session_core.providers.secrets import MASK
from tests.session_core.config._documents import KEY, load


def test_every_setting_is_shown(tmp_path: Path) -> None:
    """Each setting of the table is there, in its order, by the value it has in the file."""
    config = load(tmp_path, user="[limits]\ncost = 0.5\nseconds = 60\n")
    shown = {each.key: each.value for each in describe_settings(config, {})}

    assert [each.key for each in SETTINGS] == list(shown)[: len(SETTINGS)]
    assert (0.5, 60, 200, None) == tuple(shown[f"limits.{key}"] for key in ("cost", "seconds", "steps", "tokens"))


def test_rules_providers_and_own_models(tmp_path: Path) -> None:
    """What is more than a single value has a line for each of its parts."""
    config = load(
        tmp_path,
        user="permissions = [{tool = 'bash', decision = 'ask'}]\n[[models]]\nname = 'ollama/x'\nid = 'y'\n",
    )
    place = str(tmp_path / "home" / "config.toml")
    shown = {each.key: each for each in describe_settings(config, {})}

    assert shown["permissions[1]"] == ShownSetting(
        key="permissions[1]",
        value={"decision": "ask", "tool": "bash"},
        source=SettingSource(layer="user", place=place, line=1),
    )
    assert ("y", 2) == (shown["models.ollama/x"].value, shown["models.ollama/x"].source.line)
    assert "http://127.0.0.1:11434/v1" == shown["providers.ollama.base_url"].value
    assert "providers.ollama.key" not in shown


def test_keys_are_masked(tmp_path: Path) -> None:
    """That there is a key is shown, with where it comes from; the key is not."""
    user = f"[providers.openai]\nkey = '{KEY}'\nheaders = {{x-key = '{KEY}'}}\n"
    config = load(tmp_path, user=user)
    shown = describe_settings(config, {"ANTHROPIC_API_KEY": KEY, "OPENROUTER_API_KEY": " "})
    keys = {each.key: (each.value, each.source.place) for each in shown if each.key.endswith((".key", ".headers"))}

    place = str(tmp_path / "home" / "config.toml")
    assert {
        "providers.anthropic.key": (MASK, "ANTHROPIC_API_KEY"),
        "providers.openai.key": (MASK, place),
        "providers.openai.headers": ({"x-key": MASK}, place),
    } == keys
    assert KEY not in repr(shown) + json.dumps([each.value for each in shown])


@given(key=st.text("abcdefXYZ0123456789-_", min_size=8, max_size=40))
def test_no_key_ever_shows(tmp_path: Path, key: str) -> None:
    """Whatever a key looks like, no text made of the configuration holds it."""
    unlike = f"#{key}#"
    config = load(
        tmp_path, user=f"[providers.mine]\nkind = 'anthropic'\nbase_url = 'https://x.example'\nkey = '{unlike}'\n"
    )
    shown = describe_settings(config, {"ANTHROPIC_API_KEY": unlike})

    assert unlike not in repr(config) + str(config) + repr(shown) + json.dumps([each.value for each in shown])


@pytest.mark.parametrize(("micros", "expected"), [(0, 0), (1, 0.000001), (1_250_000, 1.25), (3_000_000, 3)])
def test_dollars(micros: int, expected: float) -> None:
    """Money is shown as it is written."""
    assert expected == dollars(micros)
