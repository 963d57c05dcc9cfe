"""The runner of tests/eval, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.outputs import ChatGenerationChunk

from agent.config import load_settings
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel
from tests.eval import __main__ as program
from tests.eval.run import Score, run_task
from tests.eval.tasks import choose

pytestmark = pytest.mark.docker

MONTH = """\
```python
import pandas as pd
takings = pd.read_csv("/data/takings.csv", parse_dates=["date"])
print(round(takings[takings["date"].dt.strftime("%Y-%m") == "2024-03"]["amount"].sum(), 2))
```"""


async def play(
    name: str, folder: Path, *replies: str, kind: type[ScriptedChatModel] = ScriptedChatModel
) -> Score:
    model = kind(conversations=(Conversation(replies=tuple(Reply(text=text) for text in replies)),))
    [task] = choose(name)
    return await run_task(task, model, load_settings(None), seconds=60, transcripts=folder)


def test_right_answer_solves_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([{"text": MONTH}, {"text": "In March 2024 it was 2,966.13."}]))
    monkeypatch.setattr(program, "REPORTS", tmp_path)
    monkeypatch.setattr(program, "ROOT", tmp_path)
    assert program.main(["month-total", "--model", f"scripted:{script}"]) == 0
    assert "1 of 1 solved" in capsys.readouterr().out
    [report] = [json.loads(path.read_text()) for path in tmp_path.glob("*/report.json")]
    assert (report["solved"], report["total"], report["steps"]) == (1, 1, 2)
    assert report["tokens"] > 500
    [score] = report["tasks"]
    assert (score["status"], score["blocks"]) == ("completed", 1)
    [transcript] = tmp_path.glob("*/month-total.md")
    assert transcript.read_text().startswith("# month-total: solved")
    assert "2966.13" in transcript.read_text()


@pytest.mark.thorough
async def test_unreadable_results_fail_the_task(tmp_path: Path) -> None:
    score = await play("bar-plot", tmp_path, "```bash\nmkfifo /results/branches.png\n```", "Done.")
    assert "cannot be read" in score.why
    code = "```bash\necho 'print(open(\"/proc/1/cmdline\").read()[:6])' > /results/roman.py\n```"
    score = await play("roman", tmp_path, code, "Done.")
    assert score.why.startswith("roman.py 1994 prints")
    score = await play("bar-plot", tmp_path, *["```\nplt.plot()\n```"] * 5)
    assert (score.why, score.blocks) == ("the run ended with no_execution", 0)


class Failing(ScriptedChatModel):
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        raise ConnectionError("too many requests")


async def test_failed_call_of_the_model_fails_one_task(tmp_path: Path) -> None:
    score = await play("roman", tmp_path, "x", kind=Failing)
    assert score.why == "the run ended with ConnectionError: too many requests"


def test_unusable_model_ends_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert program.main(["roman", "--model", f"scripted:{tmp_path / 'missing.yaml'}"]) == 2
    assert "missing.yaml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        program.main(["nothing-of-that-name"])
