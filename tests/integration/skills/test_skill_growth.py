"""Skills that agents propose: approved by a person and used in later threads, in real containers."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent.config import build_backend
from agent.listing import data_listing
from agent.run.agents import build_agent
from agent.settings import LEARNED, load_settings
from agent.skills import skill_growth
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

pytestmark = pytest.mark.docker

SKILL = (
    "---\nname: greet\ndescription: Greets people. Use when somebody is to be greeted.\n---\n\n# Greet\n\n"
)
GOOD = SKILL + "    python /skills.d/learned/greet/scripts/run.py NAME\n"
BAD = SKILL + "    python /workspace/skills/greet/scripts/run.py NAME\n"
APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "too small"}


class Recording(ScriptedChatModel):
    """Plays its script and records the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._requests.append(list(messages))
        return super()._next(messages)


def writes(text: str, *, name: str = "greet", more: str = "true") -> str:
    folder = f"/workspace/skills/{name}"
    return (
        f"mkdir -p {folder}/scripts && printf %s {shlex.quote(text)} > {folder}/SKILL.md && "
        f"echo 'print(\"hello\")' > {folder}/scripts/run.py && {more}"
    )


class Agents:
    """One of the two agents on a workspace."""

    def __init__(self, kind: Any, settings: Any, backend: WorkspaceBackend) -> None:
        self.kind, self.settings, self.backend = kind, settings, backend
        self.saver = InMemorySaver()

    def command(self, text: str) -> Reply:
        if self.kind == "code":
            return Reply(text=f"I do it.\n```bash\n{text}\n```")
        return Reply(tool_calls=(ToolUse(name="execute", args={"command": text}),))

    def built(self, *replies: str | Reply, approvals: str = "ask") -> tuple[Any, Recording]:
        script = tuple(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)
        model = Recording(conversations=(Conversation(replies=script),))
        graph = build_agent(
            self.kind,
            model,
            checkpointer=self.saver,
            settings=self.settings.model_copy(update={"approvals": approvals}),
            backend=self.backend,
        )
        return graph, model

    async def run(self, graph: Any, task: str = "learn to greet", thread: str = "1") -> Any:
        """Run with every command approved, up to a question about a skill or the end."""
        config = {"configurable": {"thread_id": thread}}
        result = await graph.ainvoke({"messages": [HumanMessage(task)]}, config)
        while (asked := questions(result)) and asked[0]["action_requests"][0]["name"] != "adopt_skill":
            count = len(asked[0]["action_requests"])
            result = await graph.ainvoke(Command(resume={"decisions": [APPROVE] * count}), config)
        return result

    async def answer(self, graph: Any, decision: Any, thread: str = "1") -> Any:
        config = {"configurable": {"thread_id": thread}}
        return await graph.ainvoke(Command(resume={"decisions": [decision]}), config)


def questions(result: Any) -> list[Any]:
    return [each.value for each in result.get("__interrupt__", ())]


@pytest.fixture(params=["deep", pytest.param("code", marks=pytest.mark.thorough)])
async def agents(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agents]:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", skills_evolve=True)
    backend = build_backend(settings)
    with backend.default:  # type: ignore[attr-defined]
        yield Agents(request.param, settings, backend)


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
