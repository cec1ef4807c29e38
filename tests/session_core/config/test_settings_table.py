"""The table of settings: complete, documented, and free of contradictions."""

from pathlib import Path

from session_core.config.setting_report import describe_settings
from session_core.config.settings import BY_VARIABLE, SETTINGS, TABLES, TOP_LEVEL, keys_in
from session_core.config.toml_files import CONFIG_FILE
from tests.session_core.config._documents import load

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_every_setting_is_documented() -> None:
    """The document has a row for each setting with its variable, and none for others."""
    rows = [line.split("|") for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("| `")]
    documented = {row[1].strip().strip("`"): row[3].strip().strip("`") for row in rows if len(row) == 6}

    assert {each.key: each.variable or "" for each in SETTINGS} == documented


def test_defaults_are_valid() -> None:
    """Each default would be accepted if somebody wrote it down, or stands for nothing said."""
    for each in SETTINGS:
        if each.default is not None:
            given = list(each.default) if isinstance(each.default, tuple) else each.default
            assert each.default == each.kind.read(given), each.key


def test_defaults_are_at_least_as_strict_as_themselves() -> None:
    """A project may always repeat what is in force."""
    for each in SETTINGS:
        if each.is_stricter is not None and each.default is not None:
            assert each.is_stricter(each.default, each.default), each.key


def test_names() -> None:
    """No name is used twice, and tables and single settings do not get in each other's way."""
    assert len(TOP_LEVEL) == len(set(TOP_LEVEL))
    assert len(SETTINGS) == len({each.key for each in SETTINGS})
    assert len(BY_VARIABLE) == sum(each.variable is not None for each in SETTINGS)
    assert all(keys_in(table) for table in TABLES)


def test_what_is_set_can_be_seen(tmp_path: Path) -> None:
    """Every variable changes what is shown of its setting, and says where it came from."""
    texts = {"model": "opus", "thinking": "high", "permission_mode": "full", "sandbox.mode": "read_only"}
    texts["extensions.use"] = "0"
    for variable, setting in BY_VARIABLE.items():
        text = texts.get(setting.key, "1")
        config = load(tmp_path, environ={variable: text})
        [shown] = [each for each in describe_settings(config, {}) if each.key == setting.key]
        assert (variable, "environment") == (str(shown.source), shown.source.layer)
        assert shown.value != setting.default


def test_the_name_of_the_file() -> None:
    """The file has the name that the documents give it."""
    assert CONFIG_FILE == "config.toml"
    assert f"`{CONFIG_FILE}`" in DOCUMENT.read_text("utf-8")
