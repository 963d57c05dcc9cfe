"""A reply whose blocks were cut off: what had ended is kept, and the model reads that the rest is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent.run.code_steps import CodeSteps
from libs.code_blocks import SandboxRunner
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records.command_log import CommandRecords
from libs.sandbox.protocol import RunResult
from tests.support.code_loops import (
    TASK,
    bash,
    looping,
    outputs,
    playing,
    python,
    said_to_the_model,
)
from tests.support.sandboxes import NEW_INTERPRETER, NEW_SANDBOX


async def test_interrupted_reply_continues_with_recorded_results(tmp_path: Path) -> None:
    """A block that had ended gives its result. Later blocks need a directory that is gone."""
    blocks = [bash("echo a >> log; cd /; echo a"), bash("echo b >> log"), bash("echo c >> log")]
    records = CommandRecords(tmp_path / "commands.sqlite")
    with LocalSandbox(tmp_path / "w", records=records, thread=lambda: "t") as sandbox:
        runner = SandboxRunner(lambda: sandbox, scratch=str(tmp_path / "scratch"))

        class FailsOnce(SandboxRunner):
            """Fails once, after the first block."""

            async def run(self, language: str, code: str, **options: Any) -> RunResult:
                result = await runner.run(language, code, **options)
                if "echo a" in code and not cut:
                    cut.append(code)
                    raise ConnectionError
                return result

            async def begun(self, keys: Sequence[str]) -> set[str]:
                return await runner.begun(keys)

        cut: list[str] = []
        model = playing("\n".join(blocks), "Done.")
        with looping(tmp_path / "o", model, checkpointer=InMemorySaver(), runner=FailsOnce) as graph:
            config: Any = {"configurable": {"thread_id": "t"}}
            with pytest.raises(ConnectionError):
                await graph.ainvoke({"messages": [HumanMessage(TASK)]}, config)
            result = await graph.ainvoke(None, config)
    records.close()
    assert [(each["output"], each["exit_code"]) for each in result["executions"]] == [("a\n", 0)]
    assert (tmp_path / "w" / "log").read_text() == "a\n"
    [said] = said_to_the_model(result)
    assert "Block 1 (bash) succeeded" in said
    assert "Block 2 (bash) was not run.\n" in said
    assert "Nothing was run a second time" in said
    assert "mend its cause" not in said
    assert result["status"] == "completed"


FIRST = python("x = 1\nopen('begun', 'w')\nimport time; time.sleep(60)")


class Recorded(SandboxRunner):
    """Has a command log, in which every block has begun."""

    async def begun(self, keys: Sequence[str]) -> set[str]:
        return set(keys)


async def cut_off(tmp_path: Path, config: Any, *, settled: bool, **options: Any) -> None:
    """Cancel a run while the block FIRST runs. `settled`: as `code-agent run` does it."""
    with looping(tmp_path, playing(FIRST), **options) as graph:
        running = asyncio.create_task(graph.ainvoke({"messages": [HumanMessage(TASK)]}, config))
        while not (tmp_path / "workspace" / "begun").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])
        if settled:
            node, answer = CodeSteps().cut_off(await graph.aget_state(config)) or ("", None)
            await graph.aupdate_state(config, answer, as_node=node)


def told_as_cut_off(result: Any) -> list[bool]:
    begin = "How the code of your last reply ended is unknown:"
    return [text.startswith(begin) for text in said_to_the_model(result)]


@pytest.mark.parametrize("settled", [False, True])
async def test_reply_whose_run_was_cut_off_is_named_and_its_variables_are_told_as_lost(
    tmp_path: Path, *, settled: bool
) -> None:
    options: Any = {"checkpointer": InMemorySaver(), "runner": Recorded}
    config: Any = {"configurable": {"thread_id": "t"}}
    await cut_off(tmp_path, config, settled=settled, **options)
    with looping(tmp_path, playing(FIRST, python("'x' in globals()"), "No."), **options) as graph:
        result = await graph.ainvoke({"messages": [HumanMessage("Go on.")]}, config)
    assert told_as_cut_off(result) == [False, True, False]
    assert outputs(result) == [f"{NEW_SANDBOX}{NEW_INTERPRETER}False"]
    assert result["status"] == "completed"


async def test_run_that_goes_on_after_it_was_cut_off_may_end_without_code(tmp_path: Path) -> None:
    options: Any = {"checkpointer": InMemorySaver(), "runner": Recorded}
    config: Any = {"configurable": {"thread_id": "t"}}
    await cut_off(tmp_path, config, settled=True, **options)
    with looping(tmp_path, playing(FIRST, "I was stopped."), **options) as graph:
        result = await graph.ainvoke(None, config)
    assert told_as_cut_off(result) == [True]
    assert result["status"] == "completed"
