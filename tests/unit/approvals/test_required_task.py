"""A run without a task is refused before the model is called."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent import code_graph, exec_graph, graph
from agent.settings import load_settings
from libs.middleware.required_task import TaskMissing
from tests.support.gated_agents import agent, questions, run, say, scripted, thread

GRAPHS = [graph, code_graph, exec_graph]
WITHOUT_TASK: list[dict[str, Any]] = [{}, {"messages": []}, {"input": "Count the rows."}]


@pytest.mark.parametrize("module", GRAPHS, ids=["deep", "code", "exec"])
@pytest.mark.parametrize("given", WITHOUT_TASK, ids=["empty", "no message", "unknown key"])
async def test_input_without_a_message_is_refused(
    tmp_path: Path, module: ModuleType, given: dict[str, Any]
) -> None:
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    for saver, config in ((InMemorySaver(), thread()), (None, None)):
        made = module.build_graph(scripted({}), checkpointer=saver, settings=settings)
        with pytest.raises(TaskMissing, match='"role": "user"'):
            made.invoke(given, config)
        with pytest.raises(TaskMissing, match="send no input"):
            await made.ainvoke(given, config)


async def test_thread_goes_on_without_input_only_if_it_has_something_to_do(tmp_path: Path) -> None:
    script = {"go": [[run("one")], "Dropped.", "Answered."]}
    made = agent(tmp_path, scripted(script), checkpointer=InMemorySaver())
    assert questions(made.invoke(say("go"), thread()))
    assert questions(made.invoke(None, thread())), "the question is asked again"
    assert (await made.ainvoke({}, thread()))["messages"][-1].text == "Dropped."
    with pytest.raises(TaskMissing):
        made.invoke({}, thread())
    assert made.invoke(None, thread())["messages"][-1].text == "Dropped.", "nothing is pending"
    made.update_state(thread(), {"messages": [HumanMessage("And now?")]}, as_node="__start__")
    assert made.invoke({"messages": []}, thread())["messages"][-1].text == "Answered."
