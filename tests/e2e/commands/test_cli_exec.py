"""`code-agent run --agent exec`: its JSON lines, and the keys that a program can read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.cli_program import Program, call

pytestmark = pytest.mark.docker


def program_call(code: str, **args: Any) -> dict[str, Any]:
    return call("execute_code", code=code, **args)


@pytest.mark.thorough
def test_json_lines_come_in_order(program: Program) -> None:
    code = "open('results/a.txt', 'w').write('1')\nprint('working')\nprint('{\"answer\": \"Ran.\"}')"
    program.script(program_call(code))

    lines = program.lines("--agent", "exec", "--thread", "w", "--approve", "auto", "run it")
    types = [line["type"] for line in lines]
    assert types.index("message") < types.index("command") < types.index("output") < types.index("file")
    result = lines[-1]
    assert (result["thread_id"], result["status"], result["files"]) == ("w", "completed", ["results/a.txt"])
    assert result["text"].startswith("Ran.")
    [execution] = result["executions"]
    assert (execution["language"], execution["code"], execution["exit_code"]) == ("python", code, 0)


@pytest.mark.thorough
def test_program_gets_a_key_only_if_the_setting_says_so(program: Program) -> None:
    program.environment |= {
        "APPROVALS": "auto",
        "WEATHER_API_KEY": "w-5e9b1f7c2a8d",
        "OPENAI_API_KEY": "sk-5e9b1f7c2a8d",
    }
    look = (
        "import os, json\nprint(json.dumps({'answer': str(sorted(n for n in os.environ if 'API_KEY' in n))}))"
    )
    tell = "import os\nprint(os.environ['WEATHER_API_KEY'])"
    program.script(program_call(look), "(made of what it printed)", program_call(tell))

    assert program.lines("--agent", "exec", "--thread", "k", "which?")[-1]["text"] == "[]"
    program.environment |= {"EXEC_PASS_KEYS": "1"}
    result = program.lines("--thread", "k", "print it")[-1]
    assert "w-5e9b1f7c2a8d" not in json.dumps(result)
    assert "[REDACTED]" in result["text"]
