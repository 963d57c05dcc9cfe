"""Skills that agents propose: approved by a person and used in later threads, in real containers."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from agent.config import build_backend
from agent.settings import LEARNED, load_settings
from tests.integration.skills.proposing_agents import APPROVE, GOOD, REJECT, Agents, questions, writes

pytestmark = pytest.mark.docker


async def test_approved_skill_is_used_in_a_new_thread(agents: Agents) -> None:
    graph, model = agents.built(agents.command(writes(GOOD)), "I propose it.")
    waiting = await agents.run(graph)
    assert "/workspace/skills/<name>/SKILL.md" in model._requests[0][0].text
    [question] = questions(waiting)
    [request] = question["action_requests"]
    assert request["name"] == "adopt_skill"
    assert request["args"]["skill"] == "greet"
    assert request["args"]["greet/SKILL.md"] == GOOD
    assert 'print("hello")' in request["description"]
    assert not (LEARNED / "greet").exists()

    result = await agents.answer(graph, APPROVE)
    assert result["status"] == "completed"
    assert result["messages"][-1].text.startswith("I propose it.")
    assert "The skill greet is kept: /skills.d/learned/greet/SKILL.md." in result["messages"][-1].text
    assert (LEARNED / "greet" / "SKILL.md").read_text() == GOOD

    use = (
        "cat /skills.d/learned/greet/SKILL.md; python /skills.d/learned/greet/scripts/run.py; "
        "touch /skills.d/learned/x; true"
    )
    graph, model = agents.built(agents.command(use), "Greeted.")
    result = await agents.run(graph, "greet Ada", "2")
    assert "**greet**: Greets people." in model._requests[0][0].text
    said = model._requests[1][-1].text
    assert "hello" in said
    assert "Read-only file system" in said


async def test_shown_files_are_kept(agents: Agents) -> None:
    """The folder changes between the question and the answer."""
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.")
    await agents.run(graph)
    await agents.backend.aexecute(
        writes(GOOD, more="echo 'import os' > /workspace/skills/greet/scripts/run.py")
    )
    await agents.answer(graph, APPROVE)
    kept = LEARNED / "greet" / "scripts" / "run.py"
    assert kept.read_text() == 'print("hello")\n'


async def test_refused_skill_is_not_asked_about_again(agents: Agents) -> None:
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.", "Hello.", "Hello.")
    await agents.run(graph)
    result = await agents.answer(graph, REJECT)
    assert "The skill greet was refused: too small." in result["messages"][-1].text
    assert not (LEARNED / "greet").exists()
    result = await agents.run(graph, "Good morning")
    assert questions(result) == []


async def test_changed_skill_needs_a_new_approval(agents: Agents) -> None:
    graph, _ = agents.built(
        agents.command(writes(GOOD)), "I propose it.", agents.command(writes(GOOD + "More.\n")), "Changed."
    )
    await agents.run(graph)
    await agents.answer(graph, APPROVE)
    assert questions(await agents.run(graph, "make it better"))
    await agents.answer(graph, APPROVE)
    assert (LEARNED / "greet" / "SKILL.md").read_text().endswith("More.\n")


async def test_no_skill_is_kept_without_approvals(agents: Agents) -> None:
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.", approvals="auto")
    result = await agents.run(graph)
    assert (questions(result), result["status"]) == ([], "completed")
    assert not (LEARNED / "greet").exists()


async def test_off_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, workspace_dir=tmp_path / "workspace")
    backend = build_backend(settings)
    with backend.default:  # type: ignore[attr-defined]
        agents = Agents("deep", settings, backend)
        graph, model = agents.built(agents.command(writes(GOOD)), "I propose it.")
        assert questions(await agents.run(graph)) == []
        assert "/workspace/skills" not in model._requests[0][0].text
        assert (await backend.aexecute("ls /skills.d")).output == ""


@pytest.mark.thorough
async def test_proposal_replaces_a_skill_of_the_project(agents: Agents) -> None:
    change = (
        "mkdir -p skills && cp -r /skills/csv-analytics skills/ && chmod -R u+w skills/csv-analytics && "
        "sed -i 's/^description: .*/description: Ours. Use it for CSV./' skills/csv-analytics/SKILL.md"
    )
    graph, _ = agents.built(agents.command(change), "I propose it.")
    waiting = await agents.run(graph)
    [request] = questions(waiting)[0]["action_requests"]
    assert request["args"]["takes the place of"] == "/skills/csv-analytics"
    await agents.answer(graph, APPROVE)
    graph, model = agents.built("Hello.", "Hello.")
    await agents.run(graph, "hello", "2")
    prompt = model._requests[0][0].text
    assert "**csv-analytics**: Ours. Use it for CSV." in prompt
    assert prompt.count("csv-analytics**") == 1
    assert "already used" not in prompt


async def test_answer_cannot_change_the_proposal(agents: Agents) -> None:
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.")
    waiting = await agents.run(graph)
    [request] = questions(waiting)[0]["action_requests"]
    for wrong in (
        {"type": "edit", "edited_action": {"name": "adopt_skill", "args": request["args"]}},
        {"type": "approve", "digest": "0" * 64},
        {"type": "approve", "scope": "tool"},
    ):
        asked = questions(await agents.answer(graph, wrong))
        assert "error" in asked[0]
        assert not (LEARNED / "greet").exists()
    state = await graph.aget_state({"configurable": {"thread_id": "1"}})
    assert not state.values.get("grants"), "what was refused grants nothing"
    await agents.answer(graph, {"type": "approve", "digest": request["digest"]})
    assert (LEARNED / "greet").exists()


async def test_synchronous_call(agents: Agents) -> None:
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.")
    config = {"configurable": {"thread_id": "1"}}

    def whole() -> Any:
        graph.invoke({"messages": [HumanMessage("learn to greet")]}, config)
        graph.invoke(Command(resume={"decisions": [APPROVE]}), config)
        return graph.invoke(Command(resume={"decisions": [APPROVE]}), config)

    result = await asyncio.to_thread(whole)
    assert "The skill greet is kept" in result["messages"][-1].text
    assert (LEARNED / "greet" / "SKILL.md").read_text() == GOOD


@pytest.mark.thorough
async def test_failed_write_is_reported(agents: Agents) -> None:
    graph, _ = agents.built(agents.command(writes(GOOD)), "I propose it.")
    await agents.run(graph)
    await asyncio.to_thread(shutil.rmtree, LEARNED)
    LEARNED.write_text("a file in its place")
    result = await agents.answer(graph, APPROVE)
    assert "The skill greet could not be kept: " in result["messages"][-1].text


@pytest.mark.thorough
async def test_at_most_five_proposals_in_one_question(agents: Agents) -> None:
    names = [f"greet{number}" for number in range(7)]
    write = " && ".join(writes(GOOD.replace("greet", name), name=name) for name in names)
    graph, _ = agents.built(agents.command(write), "I propose them.", "Good morning.", "Good morning.")
    waiting = await agents.run(graph)
    asked = [request["args"]["skill"] for request in questions(waiting)[0]["action_requests"]]
    assert asked == names[:5]
    config = {"configurable": {"thread_id": "1"}}
    mixed = [APPROVE, REJECT, APPROVE, APPROVE, REJECT]
    result = await graph.ainvoke(Command(resume={"decisions": mixed}), config)
    assert result["messages"][-1].text.count(" is kept: ") == 3
    assert sorted(path.name for path in LEARNED.glob("[!.]*")) == ["greet0", "greet2", "greet3"]
    waiting = await agents.run(graph, "hello")
    asked = [request["args"]["skill"] for request in questions(waiting)[0]["action_requests"]]
    assert asked == names[5:]
