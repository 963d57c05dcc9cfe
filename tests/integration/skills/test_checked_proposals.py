"""Checks of a proposed skill before a person is asked: texts, links, binaries, planted modules, size."""

from __future__ import annotations

import shlex

import pytest

from agent.listing import data_listing
from agent.skills import skill_growth
from tests.integration.skills.proposing_agents import GOOD, SKILL, Agents, questions, writes

pytestmark = pytest.mark.docker

BAD = SKILL + "    python /workspace/skills/greet/scripts/run.py NAME\n"


async def test_model_is_told_the_problems_of_a_proposal(agents: Agents) -> None:
    graph, model = agents.built(
        agents.command(writes(BAD)), "I propose it.", agents.command(writes(GOOD)), "I propose it now."
    )
    waiting = await agents.run(graph)
    assert "once approved it is at /skills.d/learned/greet" in model._requests[2][-1].text
    assert questions(waiting)[0]["action_requests"][0]["args"]["greet/SKILL.md"] == GOOD


async def test_bad_proposal_is_reported_once_and_never_asked_about(agents: Agents) -> None:
    graph, model = agents.built(agents.command(writes(BAD)), "I propose it.", "No.", "Hello.", "Hello.")
    result = await agents.run(graph)
    assert questions(result) == []
    assert result["status"] == "completed"
    assert questions(await agents.run(graph, "Good morning")) == []
    told = [each[-1].text for each in model._requests if "once approved it is at" in each[-1].text]
    assert len(told) == 1


async def test_links_and_binaries_are_never_kept(agents: Agents) -> None:
    place = "/workspace/skills/greet"
    more = f"ln -s /etc/passwd {place}/link && head -c 10 /dev/urandom > {place}/x.bin"
    graph, model = agents.built(agents.command(writes(GOOD, more=more)), "I propose it.", "So be it.")
    assert questions(await agents.run(graph)) == []
    assert "link is not a plain file" in model._requests[2][-1].text


async def test_modules_of_the_workspace_have_no_effect(agents: Agents) -> None:
    """The programs that pack proposals and list /data ignore modules of the workspace."""
    told = '[{"name": "planted", "files": {}, "unread": ["planted"]}]'
    planted = shlex.quote(f"print({told!r}); raise SystemExit")
    everywhere = f"for name in json os csv stat; do echo {planted} > $name.py; done"
    more = f"{everywhere}; mkdir -p data; echo a > data/t.csv"
    graph, model = agents.built(agents.command(writes(GOOD, more=more)), "I propose it.")
    waiting = await agents.run(graph)
    assert len(model._requests) == 2
    assert questions(waiting)[0]["action_requests"][0]["args"]["greet/SKILL.md"] == GOOD
    assert "t.csv" in await data_listing(agents.backend.default.sandbox)  # type: ignore[attr-defined]


@pytest.mark.thorough
async def test_too_large_proposals_are_not_fetched(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(skill_growth, "MOST_PACKED", 100)
    fetched = []
    monkeypatch.setattr(skill_growth, "_undecided", lambda packed: fetched.append(packed) or [])
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.")
    result = await agents.run(graph)
    assert (questions(result), result["status"], fetched) == ([], "completed", [])
    assert "bytes, and at most 100 are read" in caplog.text
    assert (await agents.backend.aexecute("ls -A /tmp | grep proposed")).output == ""
