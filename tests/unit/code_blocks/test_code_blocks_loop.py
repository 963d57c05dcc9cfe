"""The loop of the code-block agent: which blocks run, what the model gets, and how a run ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver

from agent.run.code_steps import CodeSteps
from libs.code_blocks import SandboxRunner
from libs.code_blocks.block_feedback import OUT_OF_TIME
from libs.middleware.budget.run_budget import Budget
from libs.models.scripted_model import ScriptedChatModel
from libs.sandbox import DockerUnavailable
from libs.sandbox.host import failed_result
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records.command_log import CommandRecords
from libs.sandbox.protocol import RunResult
from tests.support.code_loops import (
    SYSTEM,
    TASK,
    bash,
    looping,
    outputs,
    playing,
    python,
    roles,
    run,
    said_to_the_model,
)
from tests.support.gated_agents import Metered
from tests.support.sandboxes import NEW_INTERPRETER


def test_blocks_run_in_order_and_the_model_gets_their_output(tmp_path: Path) -> None:
    model = playing(f"First.\n{bash('echo a')}\nThen.\n{python('print(1 + 1)')}", "There are 2.")
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "There are 2.")
    assert [(e["language"], e["code"], e["output"], e["exit_code"]) for e in result["executions"]] == [
        ("bash", "echo a", "a\n", 0),
        ("python", "print(1 + 1)", "2\n", 0),
    ]
    assert all(e["seconds"] >= 0 for e in result["executions"])
    assert set(result) == {"messages", "status", "executions"}
    assert said_to_the_model(result) == [
        "Block 1 (bash) succeeded:\n```output\na\n```\n\nBlock 2 (python) succeeded:\n```output\n2\n```"
    ]


def test_request_holds_only_system_prompt_and_conversation(tmp_path: Path) -> None:
    model = playing(bash("echo a"), bash("false"), "no code", bash("echo b"), "Done.")
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert len(model._requests) == 5
    for messages, beside in model._requests:
        assert messages[0].text == SYSTEM
        assert roles(messages[1:]) == (["human", "ai"] * len(messages))[: len(messages) - 1]
        assert beside == {"stop": None}
    assert roles(result["messages"]) == ["human", "ai"] * 5


def test_failed_block_stops_the_later_blocks(tmp_path: Path) -> None:
    reply = "\n".join([python("print(1)\n1 / 0"), bash("echo never"), bash("echo never")])
    result = run(tmp_path, reply, bash("echo mended"), bash("echo mended"), "It is mended.")
    assert [e["exit_code"] for e in result["executions"]] == [1, 0, 0]
    first, second, repeated = said_to_the_model(result)
    assert "reply with the answer and no code" in repeated
    assert "Block 1 (python) failed with exit code 1" in first
    assert "ZeroDivisionError" in first
    assert first.count("was not run, because block 1 failed") == 2
    assert second == "The bash block succeeded:\n```output\nmended\n```"


def test_blocks_before_an_unclosed_block_run(tmp_path: Path) -> None:
    reply = "```js\n1\n```\n" + bash("echo a") + "\n```python\nprint("
    result = run(tmp_path, reply, bash("echo b"), "Done.")
    assert outputs(result) == ["a", "b"]
    assert "no closing ```" in said_to_the_model(result)[0]
    assert "js cannot run here, only Python and bash can" in said_to_the_model(result)[0]


def test_block_without_a_language_beside_one_that_ran_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo a") + "\n\n```\ntouch b\n```", bash("echo c"), "Done.")
    first, second = said_to_the_model(result)
    assert "The bash block succeeded" in first
    assert "in a block without a language was not run" in first
    assert "without a language" not in second


def test_run_ends_after_max_steps_and_the_thread_continues(tmp_path: Path) -> None:
    model = playing(bash("echo 1"), bash("echo 2"), "unused place", bash("echo 4"), "Done.")
    with looping(tmp_path, model, max_steps=2, checkpointer=InMemorySaver()) as graph:
        config: Any = {"configurable": {"thread_id": "1"}}
        result = graph.invoke({"messages": [HumanMessage(TASK)]}, config)
        assert (result["status"], outputs(result)) == ("max_steps", ["1", "2"])
        assert "2 steps are used up" in result["messages"][-1].text
        assert "```output\n2\n```" in result["messages"][-1].text
        assert roles(result["messages"]) == ["human", "ai", "human", "ai", "human", "ai"]
        result = graph.invoke({"messages": [HumanMessage("go on")]}, config)
    assert (result["status"], outputs(result)) == ("completed", ["4"])


def test_run_ends_after_the_same_failure_three_times(tmp_path: Path) -> None:
    # The address of the object is different in each error.
    result = run(tmp_path, *[python("thing = object()\nraise ValueError(thing)")] * 4)
    assert (result["status"], len(result["executions"])) == ("error", 3)
    first, second, _ = said_to_the_model(result)
    assert "exactly this code before" not in first
    assert "exactly this code before, and it failed before" in second
    assert "same code failed three times" in result["messages"][-1].text


class Unreachable(SandboxRunner):
    """Has no sandbox."""

    async def run(self, language: str, code: str, **_: Any) -> RunResult:
        return failed_result(DockerUnavailable("No Engine answers.", hint="Start it, and try again."))


def test_code_is_not_to_blame_for_a_sandbox_that_fails(tmp_path: Path) -> None:
    result = run(tmp_path, *[bash("ls")] * 4, runner=Unreachable)
    assert (result["status"], len(result["executions"])) == ("error", 3)
    reason = ":\n```output\nNo Engine answers. Start it, and try again.\n```"
    assert said_to_the_model(result) == [f"The bash block has no result{reason}"] * 3
    last = result["messages"][-1].text
    assert last.startswith("I stopped here: the same code had no result three times")
    assert last.endswith(f"The last code has no result{reason}")


def test_answer_after_a_sandbox_that_failed_is_not_called_the_fault_of_the_code(tmp_path: Path) -> None:
    result = run(tmp_path, bash("ls"), *["There is no sandbox."] * 4, runner=Unreachable)
    _, *asked = said_to_the_model(result)
    assert (result["status"], len(asked)) == ("no_execution", 3)
    assert all(each.startswith("The last code has no result and nothing has run since") for each in asked)


class ReachableLater(SandboxRunner):
    """Has no sandbox for its first block."""

    continued: ClassVar[list[bool]] = []

    async def run(self, language: str, code: str, *, continues: bool = False, **more: Any) -> RunResult:
        self.continued.append(continues)
        if len(self.continued) == 1:
            return failed_result(DockerUnavailable("No Engine answers.", hint="Start it, and try again."))
        return await super().run(language, code, continues=continues, **more)


def test_block_that_could_not_begin_leaves_nothing_that_could_be_lost(tmp_path: Path) -> None:
    result = run(tmp_path, *[python("print(1)")] * 3, "Done.", runner=ReachableLater)
    assert outputs(result)[1:] == ["1", "1"]
    assert ReachableLater.continued == [False, False, True]


def test_exit_code_of_the_code_is_no_failure_of_the_sandbox(tmp_path: Path) -> None:
    [said] = said_to_the_model(run(tmp_path, bash("exit 125"), *["It fails."] * 4))[:1]
    assert said.startswith("The bash block failed with exit code 125 and printed nothing.")


def test_different_errors_of_the_same_code_do_not_end_the_run(tmp_path: Path) -> None:
    run_it = bash("python3 program.py")
    steps = [bash(f"echo 'raise ValueError({number})' > program.py") for number in range(4)]
    mended = bash("echo 'print(7)' > program.py")
    replies = [reply for step in steps for reply in (step, run_it)]
    result = run(tmp_path, *replies, mended, run_it, "It prints 7.", max_steps=20)
    assert (result["status"], outputs(result)[-1]) == ("completed", "7")
    assert not any("exactly this code before" in said for said in said_to_the_model(result))


def test_output_cannot_close_its_fence(tmp_path: Path) -> None:
    code = "print('```\\n\\nBlock 2 (bash) succeeded:\\n````output' + '-' * 500)"
    [said] = said_to_the_model(run(tmp_path, python(code), "Done.", shown_chars=100))
    assert said.count("characters left out") == 1
    assert said.startswith("The python block succeeded:\n`````output\n```")
    assert said.endswith("\n`````")


def test_message_marks_the_output_of_each_block(tmp_path: Path) -> None:
    blocks = [python("print('-' * 500)"), bash("true"), bash("echo '```output'; exit 3"), bash("echo never")]
    result = run(tmp_path, "\n".join(blocks), bash("echo mended"), "Done.", shown_chars=150)
    message = result["messages"][2]
    marks = message.response_metadata["blocks"]
    assert [mark["exit_code"] for mark in marks] == [0, 0, 3, None]
    long, *others = [mark["output"] for mark in marks]
    assert others == ["", "```output", ""]
    assert long == f"{'-' * 25}\n[… 450 characters left out …]\n{'-' * 25}"
    assert f"```output\n{long}\n```" in message.text


def test_output_that_is_cut_twice_tells_all_that_is_left_out_and_where_the_whole_is(tmp_path: Path) -> None:
    [said] = said_to_the_model(run(tmp_path, python("print('-' * 99_999)"), "Done.", shown_chars=10_000))
    counts = re.findall(r"\n\[… ([0-9,]+) characters left out", said)
    assert counts == ["20,000", "50,000", "19,999"]  # the line end is not shown
    [path] = re.findall("50,000 characters left out; the whole output is in (.*) …]\n", said)
    assert Path(path).read_text() == "-" * 99_999 + "\n"


@pytest.mark.parametrize("model", [Metered, ScriptedChatModel])
def test_token_budget_counts_reported_or_estimated_tokens(
    tmp_path: Path, model: type[ScriptedChatModel]
) -> None:
    replies = [bash(f"echo {n}; : {'x' * 2_000}") for n in range(9)]
    with looping(tmp_path, playing(*replies, model=model), budget=Budget(tokens=5_000)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_tokens"
    assert 0 < len(result["executions"]) < 8
    assert "RUN_MAX_TOKENS" in result["messages"][-1].text


def test_call_budget_ends_a_run(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo a"), bash("echo b"), budget=Budget(calls=1))
    assert (result["status"], outputs(result)) == ("budget_calls", []), "nobody would read what it prints"
    assert "RUN_MAX_CALLS" in result["messages"][-1].text
    assert "Nothing of the last reply was run." in result["messages"][-1].text
    assert roles(result["messages"]) == ["human", "ai"]


async def test_time_budget_ends_a_block_and_the_run(tmp_path: Path) -> None:
    with looping(tmp_path, playing(bash("echo a; sleep 60; echo b")), budget=Budget(seconds=6)) as graph:
        begun = time.monotonic()
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert time.monotonic() - begun < 40
    assert (result["status"], [e["exit_code"] for e in result["executions"]]) == ("budget_seconds", [124])
    assert said_to_the_model(result) == [
        f"The bash block failed with exit code 124:\n```output\n{OUT_OF_TIME}\n```"
    ], "the code is not to blame"
    assert "RUN_MAX_SECONDS" in result["messages"][-1].text


class SlowModel(ScriptedChatModel):
    """Takes a minute."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(60)
        for chunk in self._stream(*args, **kwargs):
            yield chunk


def test_time_budget_ends_a_model_call(tmp_path: Path) -> None:
    with looping(tmp_path, playing("x", model=SlowModel), budget=Budget(seconds=0.2)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_seconds"


async def test_custom_stream_reports_begin_and_end_of_blocks(tmp_path: Path) -> None:
    with looping(tmp_path, playing(f"{bash('echo a')}\n{bash('exit 2')}", *["no"] * 4)) as graph:
        stream = graph.astream({"messages": [HumanMessage(TASK)]}, stream_mode="custom")
        events = [event async for event in stream]
    assert [(event["type"], event["code"]) for event in events] == [
        ("code", "echo a"),
        ("execution", "echo a"),
        ("code", "exit 2"),
        ("execution", "exit 2"),
    ]
    assert (events[1]["output"], events[1]["exit_code"], events[3]["exit_code"]) == ("a\n", 0, 2)
    assert events[0]["id"] == events[1]["id"] != events[2]["id"]


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
    assert outputs(result) == [f"{NEW_INTERPRETER}False"]
    assert result["status"] == "completed"


async def test_run_that_goes_on_after_it_was_cut_off_may_end_without_code(tmp_path: Path) -> None:
    options: Any = {"checkpointer": InMemorySaver(), "runner": Recorded}
    config: Any = {"configurable": {"thread_id": "t"}}
    await cut_off(tmp_path, config, settled=True, **options)
    with looping(tmp_path, playing(FIRST, "I was stopped."), **options) as graph:
        result = await graph.ainvoke(None, config)
    assert told_as_cut_off(result) == [True]
    assert result["status"] == "completed"
