"""The system prompt, built for each turn from the files as they are then."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import attrs
import trio

from session_core.agent.instructions import collect_instructions, project_root
from session_core.agent.prompt import Environment, build_system_prompt, read_git_branch
from session_core.agent.skills import discover_skills
from session_core.assembly.surroundings import AgentEnvironment
from session_core.config.load import find_trusted_fingerprint
from session_core.config.values import Config
from session_core.sandbox.trust import Fingerprint
from session_core.tools.skills import Skill
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.tools import ToolSpec


@attrs.frozen(kw_only=True)
class SystemPromptBuilder:
    """Builds the system prompt of each turn from the files as they are then."""

    place: AgentEnvironment
    config: Config

    @property
    def _user(self) -> Path:
        return Path(self.place.environ.get("HOME") or Path.home())

    def skills_in(self, folder: str) -> tuple[Skill, ...]:
        """Return the skills for sessions in a folder; those of its project only if it is trusted as it is now."""
        trust = find_trusted_fingerprint(self.place.home, Path(os.path.realpath(folder)))
        return self._skills(folder, trust)

    def _skills(self, folder: str, trust: Fingerprint | None) -> tuple[Skill, ...]:
        own = str(self._user / ".agents" / "skills")
        return discover_skills(folder, trust=trust, user_folder=own, more_folders=self.config.skill_paths).skills

    async def system_prompt(self, settings: Settings, tools: tuple[ToolSpec, ...]) -> str:
        return await trio.to_thread.run_sync(self._make, settings, tools)

    def _trusted_folders(self, folder: str, user: Path) -> dict[str, Fingerprint]:
        """Return this folder and those above it in the same project, if a person has trusted each as it is now."""
        here, top = Path(os.path.realpath(folder)), Path(project_root(folder, home=str(user)))
        within = [each for each in (here, *here.parents) if each.is_relative_to(top)]
        return {
            str(each): trust
            for each in within
            if (trust := find_trusted_fingerprint(self.place.home, each)) is not None
        }

    def _make(self, settings: Settings, tools: tuple[ToolSpec, ...]) -> str:
        folder, user = settings.cwd, self._user
        trust = self._trusted_folders(folder, user)
        skills = self._skills(folder, trust.get(os.path.realpath(folder)))
        collected = collect_instructions(
            folder, trust=trust, user_file=str(user / ".agents" / "AGENTS.md"), home=str(user)
        )
        environment = Environment(
            cwd=folder,
            platform=platform.system(),
            date=datetime.now(UTC).astimezone().date().isoformat(),
            git_branch=read_git_branch(folder),
        )
        return build_system_prompt(environment, instructions=collected.texts, skills=skills, tools=tools)
