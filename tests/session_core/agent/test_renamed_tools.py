"""A tool that once had another name: what was said, allowed or called by that name keeps its meaning."""

import json
from pathlib import Path
from typing import Any

import pytest

from session_core.permissions.call_facts import compute_fingerprint
from session_core.permissions.rules import PermissionRule, RuleDecision
from session_core.permissions.standing_grants import StandingGrants
from session_core.testing.scripted import tool_call
from session_core.tools.shell import ShellTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.tools import all_names_of, present_name
from tests.session_core.agent._talk import talk
from tests.session_core.service._helpers import of_type

FULL_ACCESS = SandboxPolicy(mode="full_access")
ECHO = {"command": "echo hello"}


@pytest.mark.parametrize("called", ["bash", "shell"])
@pytest.mark.parametrize("rule", ["shell", "bash", "sh*"])
@pytest.mark.parametrize(("decision", "status"), [("allow", "success"), ("deny", "denied")])
async def test_rules(called: str, rule: str, decision: RuleDecision, status: str) -> None:
    """Rules by either name hold for calls by either name, and what runs is the tool that there is."""
    rules = (PermissionRule(decision=decision, tool=rule),)
    async with talk(tool_call(called, ECHO), tools=(ShellTool(),), rules=rules, sandbox=FULL_ACCESS) as turn:
        (result,) = await turn.results()
        assert (status, status == "success") == (result.status, "hello" in result.text)
        assert [] == of_type(turn.service, turn.session_id, ev.ApprovalRequested)


async def test_standing_grants(tmp_path: Path) -> None:
    """A call that was allowed for good under the earlier name of its tool is not asked about again."""
    (folder := tmp_path / "work").mkdir()
    about: dict[str, Any] = {"tools": (ShellTool(),), "sandbox": FULL_ACCESS, "cwd": str(folder)}
    async with talk(tool_call("bash", ECHO), **about) as turn:
        async with turn.service.follow(turn.session_id) as feed:  # the preview takes a thread
            async for _ in feed:
                if of_type(turn.service, turn.session_id, ev.ApprovalRequested):
                    break
        shown = (await turn.answer("deny")).shown
        await turn.results()
    fingerprint = compute_fingerprint("shell", JsonObject(ECHO), str(folder), shown)
    file = tmp_path / "standing.json"
    allowed = {fingerprint: {"tool": "shell", "summary": "run: echo hello"}}
    file.write_text(json.dumps({"version": 1, "allowed": allowed}), encoding="utf-8")

    async with talk(tool_call("bash", ECHO), standing=StandingGrants(file), **about) as turn:
        assert ["success"] == [result.status for result in await turn.results()]
        assert [] == of_type(turn.service, turn.session_id, ev.ApprovalRequested)


def test_names() -> None:
    """A name that some tool has now is left as it is; an earlier one leads to the present one where that exists."""
    assert (("bash", "shell"), ("read",)) == (all_names_of("bash"), all_names_of("read"))
    assert ["shell", "bash", "shell", "gone"] == [
        present_name("shell", ()),
        present_name("shell", ("bash",)),
        present_name("shell", ("bash", "shell")),
        present_name("gone", ("bash",)),
    ]
