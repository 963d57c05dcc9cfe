"""The system prompt of the code-block agent: a snapshot of the first request, and the settings in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from deepagents.backends import LocalShellBackend
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from syrupy.assertion import SnapshotAssertion

from agent.code_graph import build_graph
from agent.config import load_settings
from agent.prompts import code_prompt
from agent.prompts.worked_examples import worked_examples
from libs.backends.workspace_backend import WorkspaceBackend
from libs.code_blocks import block_feedback, read_reply, words_only
from libs.models.deferred_model import DeferredChatModel
from tests.support.code_loops import Recording, playing

VENDOR_WORDS = re.compile(r"tool.?use|function.?call|tool.?call", re.IGNORECASE)


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")


def first_request(tmp_path: Path, **overrides: Any) -> tuple[list[Any], dict[str, Any]]:
    model: Recording = playing("Hello!", "Hello!")
    settings = load_settings(None, workspace_dir=tmp_path, **overrides)
    graph = build_graph(model, settings=settings, checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("Hello")]}, {"configurable": {"thread_id": "1"}})
    return model._requests[0]


def test_the_first_request(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    messages, beside = first_request(tmp_path)
    assert beside == {"stop": None}
    assert [message.type for message in messages] == ["system", "human"]
    # Skills have their own tests: here, where their list stands.
    text = re.sub(r"^- \*\*.*\n?", "- (a skill)\n", messages[0].text, flags=re.MULTILINE)
    assert re.sub(r"(- \(a skill\)\n)+", r"\1", text) == snapshot


def test_prompt_uses_no_words_of_tool_calling(tmp_path: Path) -> None:
    told = "".join(Path(module.__file__).read_text() for module in (block_feedback, words_only))
    said = "".join(
        (first_request(tmp_path)[0][0].text, code_prompt.SKILL_STEPS, code_prompt.SKILL_EXAMPLE, told)
    )
    assert VENDOR_WORDS.findall(said) == []


def test_local_model_gets_no_example_of_skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_prompt.SKILL_EXAMPLE in first_request(tmp_path)[0][0].text
    monkeypatch.setattr("agent.code_graph.is_local", lambda _: True)
    monkeypatch.setattr("agent.code_graph.example_turns", list)  # the script counts replies
    text = first_request(tmp_path)[0][0].text
    assert code_prompt.SKILL_STEPS in text
    assert code_prompt.SKILL_EXAMPLE not in text


@pytest.mark.parametrize("tables", [True, False])
def test_example_in_the_prompt_is_read_as_code(tables: bool) -> None:
    text = code_prompt.system_prompt(load_settings(None), skills="", data="", tables=tables)
    example = text.split("## Example\n")[1]
    [block] = read_reply(example).blocks
    assert block.language == "python"
    compile(block.code, "example", "exec")


def test_prompt_states_the_settings(tmp_path: Path) -> None:
    text = first_request(tmp_path, sandbox_timeout=7, sandbox_tmp="64m", approvals="auto")[0][0].text
    assert "A block may take 7 seconds" in text
    assert "(64 MB)" in text
    assert "without anybody's approval" in text
    assert "A person approves each block" in first_request(tmp_path, approvals="ask")[0][0].text


def test_local_shell_backend_is_refused(tmp_path: Path) -> None:
    shell = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    with pytest.raises(TypeError, match="LocalShellBackend has none"):
        build_graph(playing("Hello!"), settings=load_settings(None), backend=shell)


async def test_local_model_gets_worked_examples_as_turns(tmp_path: Path) -> None:
    local = DeferredChatModel(label="local", build=lambda: FakeListChatModel(responses=["Hello!"]))
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    graph = build_graph(local, settings=settings, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with blockbuster_ctx():
        await graph.ainvoke({"messages": [HumanMessage("Hello")]}, thread)
    system, *turns = (await graph.aget_state(thread)).values["opening"]
    assert "## Example" not in system.text
    assert [turn.type for turn in turns] == ["human", "ai"] * (2 * len(worked_examples()))
    assert not any(read_reply(turn.text).blocks for turn in turns[3::4])
    assert VENDOR_WORDS.findall("".join(turn.text for turn in turns)) == []


async def test_examples_without_the_tables_library_do_not_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skills").mkdir()
    monkeypatch.setattr("agent.settings.application_settings.ROOT", tmp_path)
    local = DeferredChatModel(label="local", build=lambda: FakeListChatModel(responses=["Hello!"]))
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", approvals="auto")
    graph = build_graph(local, settings=settings, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"messages": [HumanMessage("Hello")]}, thread)
    [system] = (await graph.aget_state(thread)).values["opening"]
    assert "skills.tables" not in system.text
