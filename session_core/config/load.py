"""Merge the layers: defaults, the user's file, the project's file, variables, flags."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.config.layers import (
    FileReader,
    Layer,
    format_key_path,
    format_suggestion,
    read_environment,
    read_flags,
)
from session_core.config.nested_tables import GivenProvider, GivenRule
from session_core.config.problems import MAX_PROBLEMS, ConfigInvalid, ConfigProblem
from session_core.config.setting_kinds import format_value
from session_core.config.settings import BY_KEY, MODELS, PROVIDERS, RULES, SETTINGS, keys_in
from session_core.config.toml_files import (
    CONFIG_FILE,
    PROJECT_FOLDER,
    TomlFile,
    read_project_file,
    read_user_file,
)
from session_core.config.values import Config, SettingSource
from session_core.providers.catalogue import (
    BUILT_IN_PROVIDERS,
    ModelInfo,
    ProviderSettings,
    built_in_models,
    find_model,
    list_model_names,
    merge_models,
    micros,
)
from session_core.providers.model_choice import DEMO
from session_core.providers.timeouts import ProviderTimeouts
from session_core.sandbox.trust import Fingerprint, TooMuchToTrust, TrustStore, take_fingerprint
from session_core.sandbox.workspace import OutsideWorkspace, Workspace
from session_core.storage.retention_settings import Retention
from session_core.vocabulary.sessions import SandboxPolicy, TurnLimits

Trust = bool | Fingerprint | None
_PROJECT_FILE: Final = f"{PROJECT_FOLDER}/{CONFIG_FILE}"


def load_config(
    home: Path,
    workspace: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    trust: Trust = None,
) -> Config:
    """Read and check the whole configuration; blocks briefly.

    Args:
        home: The directory of the user's `config.toml`; the file or the directory may be missing.
        workspace: The folder that may hold `.session-core/config.toml`.
        environ: The variables; by default those of this process.
        flags: The command line's values, by keys such as `limits.steps`; None means not given.
        trust: Whether the project's file may be used because a person has trusted its content; a fingerprint trusts
            exactly the files it identifies (see `find_trusted_fingerprint`).

    Raises:
        ConfigInvalid: There are problems; the error holds all of them.
    """
    return _ConfigLoader(home, workspace, os.environ if environ is None else environ, flags or {}, trust).run()


def find_trusted_fingerprint(home: Path, workspace: Path) -> Fingerprint | None:
    """Return the fingerprint of a project's files, if a person has trusted them in their current state."""
    try:
        now = take_fingerprint(Workspace(str(workspace)))
    except (TooMuchToTrust, OutsideWorkspace, OSError, ValueError):
        return None
    return now if TrustStore(home).is_trusted(str(workspace), now) else None


def find_project_file(home: Path, workspace: Path) -> Path | None:
    """Return the path of the project's file, if it exists."""
    path = workspace / PROJECT_FOLDER / CONFIG_FILE
    try:
        # The home itself may be in the project: then the file is the user's own.
        if not os.path.lexists(path) or path.parent.resolve() == home.resolve():
            return None
    except (OSError, ValueError, RuntimeError):
        return None
    return path


@attrs.define
class _ConfigLoader:
    """One run of loading: collects values and problems, and raises only at the end."""

    _home: Path
    _workspace: Path | None
    _environ: Mapping[str, str]
    _flags: Mapping[str, object]
    _trust: Trust
    _problems: list[ConfigProblem] = attrs.field(factory=list, init=False)
    _ignored: list[ConfigProblem] = attrs.field(factory=list, init=False)
    _remarks: list[str] = attrs.field(factory=list, init=False)
    _values: dict[str, Any] = attrs.field(factory=lambda: {each.key: each.default for each in SETTINGS}, init=False)
    _sources: dict[str, SettingSource] = attrs.field(factory=dict, init=False)
    _rules: list[GivenRule] = attrs.field(factory=list, init=False)

    def run(self) -> Config:
        user = self._read_user_layer()
        self._apply_layer(user)
        self._rules += user.rules
        project = self._read_project_layer()
        if project is not None:
            self._apply_project_layer(project)
        environment, remarks = read_environment(self._environ, self._problems)
        self._remarks += remarks
        self._apply_layer(environment)
        self._apply_layer(read_flags(self._flags, self._problems))
        providers = self._merge_providers(user.providers)
        models = self._merge_models(user, providers)
        self._check_model(models, providers)
        if self._problems:
            raise ConfigInvalid(self._problems)
        return self._build_config(providers, models)

    # --- layers -------------------------------------------------------------------------------------------------------

    def _read_user_layer(self) -> Layer:
        file = read_user_file(self._home)
        if not isinstance(file, TomlFile):
            self._problems += [file] if file is not None else []
            return Layer(name="user")
        layer = FileReader(file, "user", self._problems, self._ignored).read()
        if layer.has_keys and file.others_may_read:
            run = f"chmod 600 {shlex.quote(str(file.path))}"
            what = f"there is a key in this file, and other users of this machine may read it; run: {run}"
            self._problems.append(ConfigProblem(place=str(file.path), key=PROVIDERS, what=what))
        return layer

    def _read_project_layer(self) -> Layer | None:
        path = find_project_file(self._home, self._workspace) if self._workspace is not None else None
        if path is None or self._workspace is None:
            return None
        if not self._trust:
            self._remarks.append(f"{path} is not used, as this folder is not trusted")
            return None
        file = read_project_file(self._workspace)
        if isinstance(file, TomlFile):
            if isinstance(self._trust, Fingerprint) and not self._trust.covers(_PROJECT_FILE, file.content):
                self._remarks.append(f"{path} is not used, as it has changed since this folder was trusted")
                return None
            return FileReader(file, "project", self._problems, self._ignored).read()
        self._problems += [file] if file is not None else []
        return None

    def _apply_layer(self, layer: Layer) -> None:
        self._values.update(layer.values)
        self._sources.update(layer.sources)

    def _apply_project_layer(self, project: Layer) -> None:
        """Apply the stricter values and ignore the rest: a file from another author must not stop the program."""
        for key, wanted in project.values.items():
            setting, so_far = BY_KEY[key], self._values[key]
            source = project.sources[key]
            if setting.is_stricter is None or not setting.is_stricter(so_far, wanted):
                compared = f"{_format_setting(wanted)} is not stricter than {_format_setting(so_far)}"
                what = f"this is ignored: a project's file can only make it stricter, and {compared}"
                self._ignored.append(source.problem(key, what))
                continue
            joined = wanted if setting.merge is None else setting.merge(so_far, wanted)
            if joined != so_far:
                self._values[key] = joined
                self._sources[key] = source
        for number, given in enumerate(project.rules):
            if given.rule.decision == "allow":
                what = "this is ignored: a project's file can only add rules that ask or deny, not one that allows"
                self._ignored.append(given.source.problem(format_key_path((RULES, number)), what))
            else:
                self._rules.append(given)

    # --- providers and models -----------------------------------------------------------------------------------------

    def _merge_providers(self, changes: Mapping[str, GivenProvider]) -> tuple[ProviderSettings, ...]:
        providers = {each.name: each for each in BUILT_IN_PROVIDERS}
        for name, change in changes.items():
            before = providers.get(name)
            values = dict(change.values)
            if before is None and (missing := [key for key in ("kind", "base_url") if key not in values]):
                # A wrong value has been reported already.
                if not any(each.key.startswith(f"{PROVIDERS}.{name}.") for each in self._problems):
                    what = f"a provider of your own needs {' and '.join(missing)} too"
                    self._problems.append(change.source.problem(f"{PROVIDERS}.{name}", what))
                continue
            values["chosen_by_user"] = "base_url" in values
            if "key" in values:
                values["key_env"] = None
            if "timeouts" in values:
                usual = ProviderTimeouts() if before is None else before.timeouts
                values["timeouts"] = attrs.evolve(usual, **values["timeouts"])
            providers[name] = (
                attrs.evolve(before, **values) if before is not None else ProviderSettings(name=name, **values)
            )
            self._sources.update({f"{PROVIDERS}.{name}.{key}": source for key, source in change.sources.items()})
        return tuple(providers.values())

    def _merge_models(self, user: Layer, providers: tuple[ProviderSettings, ...]) -> tuple[ModelInfo, ...]:
        known = {each.name for each in providers} | set(user.providers)
        for number, given in enumerate(user.models):
            key = format_key_path((MODELS, number))
            if given.info.provider not in known:
                name = given.info.provider
                what = f"there is no provider called {format_value(name)}{format_suggestion(name, known)}"
                self._problems.append(given.source.problem(f"{key}.name", what))
            self._sources[f"{MODELS}.{given.info.name}"] = given.source
        return merge_models([each.info for each in user.models], built_in_models())

    def _check_model(self, models: tuple[ModelInfo, ...], providers: tuple[ProviderSettings, ...]) -> None:
        name, known = self._values["model"], [each.name for each in providers]
        if name is None or name == DEMO or find_model(models, name, known):
            return
        if self._values["extensions.use"] and "/" in name and name.partition("/")[0] not in known:
            return  # an extension may provide it, which is checked when extensions start
        suggestion = format_suggestion(name, (DEMO, *list_model_names(models))) or "; see: session-core models --all"
        what = f"there is no model called {format_value(name)}{suggestion}"
        self._problems.append(self._sources["model"].problem("model", what))

    # --- the result ---------------------------------------------------------------------------------------------------

    def _build_config(self, providers: tuple[ProviderSettings, ...], models: tuple[ModelInfo, ...]) -> Config:
        values = self._values
        cost, seconds = values["limits.cost"], values["limits.seconds"]
        self._sources.update(
            {format_key_path((RULES, number)): given.source for number, given in enumerate(self._rules)}
        )
        return Config(
            model=values["model"],
            thinking=values["thinking"],
            protocol=values["protocol"],
            permission_mode=values["permission_mode"],
            permissions=tuple(given.rule for given in self._rules),
            sandbox=SandboxPolicy(**self._read_table("sandbox")),
            limits=TurnLimits(
                steps=values["limits.steps"],
                tokens=values["limits.tokens"],
                cost_micros=None if cost is None else max(1, micros(cost)),
                time_ms=None if seconds is None else seconds * 1000,
            ),
            disabled_tools=values["tools.disabled"],
            providers=providers,
            models=models,
            compaction_threshold=float(values["compaction.threshold"]),
            mcp_file=values["mcp.file"],
            skill_paths=values["skills.paths"],
            extensions=values["extensions.use"],
            extension_flags=values["extensions.flags"],
            watched_extensions=values["extensions.watch"],
            retention=Retention(**self._read_table("retention")),
            remarks=(*self._remarks, *(each.sentence for each in self._ignored[:MAX_PROBLEMS])),
            ignored=tuple(self._ignored[:MAX_PROBLEMS]),
            sources=self._sources,
        )

    def _read_table(self, name: str) -> dict[str, Any]:
        return {key: self._values[f"{name}.{key}"] for key in keys_in(name)}


def _format_setting(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))[:80] or "none"
    return format_value(value).strip("'")
