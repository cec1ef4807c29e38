"""The values of one layer: a file, the environment, or flags. Each value is checked alone; nothing is merged here."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from session_core.config import nested_tables
from session_core.config.nested_tables import GivenModel, GivenProvider, GivenRule
from session_core.config.problems import ConfigProblem
from session_core.config.setting_kinds import InvalidValue
from session_core.config.settings import (
    BY_KEY,
    BY_VARIABLE,
    MODELS,
    OTHER_VARIABLES,
    PROVIDERS,
    RULES,
    TABLES,
    TOP_LEVEL,
    Setting,
    keys_in,
)
from session_core.config.toml_files import TomlFile
from session_core.config.toml_key_lines import find_line
from session_core.config.values import LayerName, SettingSource
from session_core.providers.catalogue import find_nearest_name
from session_core.providers.secrets import redact

VARIABLE_PREFIX: Final = "SESSION_CORE_"
NOT_FOR_PROJECTS: Final = "this is ignored: a project's file cannot set it, only your own config.toml can"
_BEYOND_A_PROJECT: Final = frozenset({"hooks", "extensions", "trust", "trusted", "mcp_servers"})
"""Keys that are not settings of any file, but that a project may try to set."""


@attrs.define(kw_only=True)
class Layer:
    """The values of a layer, each with its source."""

    name: LayerName
    values: dict[str, Any] = attrs.field(factory=dict)
    sources: dict[str, SettingSource] = attrs.field(factory=dict)
    rules: list[GivenRule] = attrs.field(factory=list)
    providers: dict[str, GivenProvider] = attrs.field(factory=dict)
    models: list[GivenModel] = attrs.field(factory=list)
    has_keys: bool = False


class FileReader:
    """Reads the tables of one file into a layer, and collects the problems."""

    def __init__(
        self, file: TomlFile, name: LayerName, problems: list[ConfigProblem], ignored: list[ConfigProblem]
    ) -> None:
        self.file = file
        self.layer = Layer(name=name)
        self._problems = problems
        self._ignored = ignored

    def read(self) -> Layer:
        """Read everything."""
        for key, value in self.file.tables.items():
            if self.layer.name == "project" and not self._is_allowed_in_projects(key):
                continue
            if key == RULES:
                self.layer.rules = nested_tables.read_rules(value, self)
            elif key == PROVIDERS:
                self.layer.providers = nested_tables.read_providers(value, self)
                self.layer.has_keys = nested_tables.has_keys(value)
            elif key == MODELS:
                self.layer.models = nested_tables.read_models(value, self)
            elif key in TABLES:
                self._read_table(key, value)
            elif key in BY_KEY:
                self._read_setting(BY_KEY[key], (key,), value)
            else:
                self.report_unknown((key,), TOP_LEVEL)
        return self.layer

    def _read_table(self, name: str, value: object) -> None:
        if not isinstance(value, dict):
            self.report_wrong((name,), f"expected a table, [{name}]")
            return
        for key, each in value.items():
            setting = BY_KEY.get(f"{name}.{key}") if key in keys_in(name) else None
            if setting is None:
                self.report_unknown((name, key), keys_in(name))
            elif self.layer.name == "project" and setting.is_stricter is None:
                self.report_not_for_projects((name, key))
            else:
                self._read_setting(setting, (name, key), each)

    def _read_setting(self, setting: Setting, path: tuple[str, ...], value: object) -> None:
        known, read = self.attempt(path, lambda: setting.kind.read(value))
        if known:
            self.layer.values[setting.key] = read
            self.layer.sources[setting.key] = self.source(path)

    def _is_allowed_in_projects(self, key: str) -> bool:
        """Return whether a project may set this at all; if not, report it."""
        settings = [each for each in BY_KEY.values() if each.key == key or each.key.startswith(f"{key}.")]
        if key == RULES or any(each.is_stricter is not None for each in settings):
            return True
        if settings or key in {PROVIDERS, MODELS} or key in _BEYOND_A_PROJECT:
            self.report_not_for_projects((key,))
        else:
            self.report_unknown((key,), TOP_LEVEL)
        return False

    # --- for the parts of the file that are read elsewhere ------------------------------------------------------------

    def attempt(self, path: Sequence[str | int], read: Callable[[], Any]) -> tuple[bool, Any]:
        """Return whether a value could be read, and the value; on failure, report the problem."""
        try:
            return True, read()
        except InvalidValue as wrong:
            self.report_wrong(path, str(wrong))
            return False, None

    def report_wrong(self, path: Sequence[str | int], what: str) -> None:
        """Report a problem."""
        self._problems.append(self.source(path).problem(format_key_path(path), what))

    def report_unknown(self, path: Sequence[str | int], beside: Iterable[str]) -> None:
        """Report that there is no such setting, and which of those beside it was probably meant."""
        known = [format_key_path((*path[:-1], each)) for each in beside]
        self.report_wrong(path, f"there is no such setting{format_suggestion(format_key_path(path), known)}")

    def report_not_for_projects(self, path: Sequence[str | int]) -> None:
        """Report that only the user's own file can set this, and that it is ignored here."""
        self._ignored.append(self.source(path).problem(format_key_path(path), NOT_FOR_PROJECTS))

    def source(self, path: Sequence[str | int]) -> SettingSource:
        """Return the source of a value."""
        return SettingSource(layer=self.layer.name, place=str(self.file.path), line=find_line(self.file.lines, path))


def format_key_path(path: Sequence[str | int]) -> str:
    """Return a key as people write it, without anything that looks like a secret or controls a terminal."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else ("." if text else "") + _quote_key(part)
    safe = redact("".join(each if each.isprintable() else "?" for each in text[:2_000]))
    return safe if len(safe) <= 120 else f"{safe[:120]}..."


def _quote_key(part: str) -> str:
    return part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'


def format_suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that asks whether another name was meant."""
    probably = find_nearest_name(name, known)
    return f"; did you mean {probably}?" if probably is not None else ""


def read_environment(environ: Mapping[str, str], problems: list[ConfigProblem]) -> tuple[Layer, list[str]]:
    """Return the values of the variables, and remarks about unknown variables that look like ours."""
    layer, remarks = Layer(name="environment"), []
    for variable, text in environ.items():
        setting = BY_VARIABLE.get(variable)
        if setting is not None and text.strip():  # set but empty counts as not set
            _apply(layer, setting, variable, partial(setting.kind.read_text, text.strip()), problems)
        elif setting is None and variable.startswith(VARIABLE_PREFIX) and variable not in OTHER_VARIABLES:
            remarks.append(
                f"{format_key_path((variable,))} is set but has no effect{format_suggestion(variable, BY_VARIABLE)}"
            )
    return layer, remarks


def read_flags(flags: Mapping[str, object], problems: list[ConfigProblem]) -> Layer:
    """Return the values of flags: settings by key, each a string as typed, or the value itself."""
    layer = Layer(name="flag")
    for key, value in flags.items():
        if value is None:
            continue
        setting = BY_KEY.get(key)
        place = flag_name(key)
        if setting is None:
            what = f"there is no such setting{format_suggestion(key, BY_KEY)}"
            problems.append(ConfigProblem(place=place, key=format_key_path(key.split(".")), what=what))
        elif isinstance(value, str):
            _apply(layer, setting, place, partial(setting.kind.read_text, value), problems)
        else:
            given = list(value) if isinstance(value, tuple) else value
            _apply(layer, setting, place, partial(setting.kind.read, given), problems)
    return layer


def flag_name(key: str) -> str:
    """Return the name of the flag for a setting, as the command line has it."""
    return "--permissions" if key == "permission_mode" else f"--{key.replace('.', '-').replace('_', '-')}"


def _apply(layer: Layer, setting: Setting, place: str, read: Callable[[], Any], problems: list[ConfigProblem]) -> None:
    source = SettingSource(layer=layer.name, place=place)
    try:
        layer.values[setting.key] = read()
        layer.sources[setting.key] = source
    except InvalidValue as wrong:
        problems.append(source.problem(setting.key, str(wrong)))
