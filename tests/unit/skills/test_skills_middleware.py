"""SkillsMiddleware inside `create_deep_agent`: the section of the prompt that models receive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError, blockbuster_ctx
from deepagents import create_deep_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from libs.middleware.skills.skills_middleware import Skill, SkillsMiddleware, discover_skills

SECTION = "## Skills"


class ScriptedModel(BaseChatModel):
    """Plays `replies` in order and keeps the system text of every request."""

    replies: list[AIMessage]
    systems: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.systems.append("".join(message.text for message in messages if message.type == "system"))
        reply = self.replies[len(self.systems) - 1]
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy())])


def put(root: Path, name: str, description: str = "Does it. Use when asked.") -> Path:
    file = root / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: {description}\n---\nSECRET BODY\n")
    return file


def delegate() -> AIMessage:
    args = {"description": "do it", "subagent_type": "general-purpose"}
    return AIMessage("", tool_calls=[{"name": "task", "args": args, "id": "1"}])


def run(middleware: SkillsMiddleware | None, *replies: AIMessage) -> list[str]:
    model = ScriptedModel(replies=list(replies))
    agent = create_deep_agent(
        model=model, system_prompt="You help.", middleware=[middleware] if middleware else []
    )
    agent.invoke({"messages": [("user", "go")]})
    return model.systems


def test_main_agent_and_subagent_get_the_same_section(tmp_path: Path) -> None:
    put(tmp_path, "csv-analytics", "Reads CSV files.")
    middleware = SkillsMiddleware(tmp_path)
    main, subagent, main_again = run(middleware, delegate(), AIMessage("done"), AIMessage("end"))
    for system in (main, subagent, main_again):
        assert system.endswith(middleware.section())
        assert system.count(SECTION) == 1
        assert "- **csv-analytics**: Reads CSV files. (`/skills/csv-analytics/SKILL.md`)" in system
        assert "SECRET BODY" not in system
    assert main.startswith("You help.")
    assert main == main_again


def test_no_skills_leave_the_prompt_unchanged(tmp_path: Path) -> None:
    replies = delegate(), AIMessage("done"), AIMessage("end")
    without = run(None, *replies)
    for source in (tmp_path, tmp_path / "nowhere", []):
        assert run(SkillsMiddleware(source), *replies) == without


def test_changed_skills_are_seen_on_the_next_turn(tmp_path: Path) -> None:
    model = ScriptedModel(replies=[])
    first = put(tmp_path, "first")
    middleware = SkillsMiddleware(tmp_path)
    agent = create_deep_agent(model=model, middleware=[middleware])

    def system() -> str:
        model.replies.append(AIMessage("ok"))
        agent.invoke({"messages": [("user", "go")]})
        return model.systems[-1]

    assert "first" in system()
    put(tmp_path, "second")
    assert "- **second**: Does it." in system()
    put(tmp_path, "first", "Does something else.")
    assert "- **first**: Does something else." in system()
    first.unlink()
    after = system()
    assert "**first**" not in after
    assert "**second**" in after


def test_each_folder_has_its_own_path(tmp_path: Path) -> None:
    put(tmp_path / "own", "a")
    put(tmp_path / "extra", "b")
    middleware = SkillsMiddleware({"/skills": tmp_path / "own", "/skills.d/extra": tmp_path / "extra"})
    assert [skill.path for skill in middleware.skills] == ["/skills/a/SKILL.md", "/skills.d/extra/b/SKILL.md"]
    assert middleware.sources == ["/skills", "/skills.d/extra"]
    assert "`/skills.d/extra/b/SKILL.md`" in run(middleware, AIMessage("ok"))[0]


@pytest.fixture
def no_blocking_call() -> Iterator[BlockBuster]:
    with blockbuster_ctx() as blockbuster:
        yield blockbuster


async def test_event_loop_is_never_blocked(tmp_path: Path, no_blocking_call: BlockBuster) -> None:
    model = ScriptedModel(replies=[delegate(), AIMessage("done"), AIMessage("end")])
    no_blocking_call.deactivate()
    put(tmp_path, "a")
    agent = create_deep_agent(model=model, middleware=[SkillsMiddleware(tmp_path)])
    put(tmp_path, "b")
    no_blocking_call.activate()
    with pytest.raises(BlockingError):  # the detector detects
        os.stat(tmp_path)  # noqa: PTH116
    await agent.ainvoke({"messages": [("user", "go")]})
    assert len(model.systems) == 3
    assert all("**a**" in system and "**b**" in system for system in model.systems)


def test_given_list_is_never_read_again(tmp_path: Path) -> None:
    put(tmp_path, "a")
    middleware = SkillsMiddleware(discover_skills(tmp_path))
    put(tmp_path, "b")
    assert middleware.skills == (Skill("a", "Does it. Use when asked.", "/skills/a/SKILL.md"),)
