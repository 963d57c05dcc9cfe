"""The loop of the code-block agent: which blocks run, and what the model gets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.messages import HumanMessage

from libs.code_blocks import SandboxRunner
from libs.sandbox import DockerUnavailable
from libs.sandbox.host import failed_result
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
    assert "A block without a language was not run" in first
    assert "without a language" not in second


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
