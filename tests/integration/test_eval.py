"""The runner of tests/eval, with a scripted model in the place of a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.outputs import ChatGenerationChunk

from agent.config import load_settings
from libs.models.scripted import Conversation, Reply, ScriptedChatModel
from tests.eval import __main__ as program
from tests.eval.run import Score, run_task
from tests.eval.tasks import choose

pytestmark = pytest.mark.docker

MONTH = """\
I add up March 2024.
```python
import pandas as pd
takings = pd.read_csv("/data/takings.csv", parse_dates=["date"])
print(round(takings[takings["date"].dt.strftime("%Y-%m") == {month}]["amount"].sum(), 2))
```"""
BARS = """\
```python
import pandas as pd
import matplotlib.pyplot as plt
total = pd.read_csv("/data/branches.csv").groupby("branch")["sales"].sum()
plt.bar(total.index, total, color="#ff0000")
plt.savefig("/results/branches.png")
plt.close()
```"""
RAIN = """\
```python
import pandas as pd
import matplotlib.pyplot as plt
rain = pd.read_csv("/data/rain.csv", parse_dates=["day"])
total = rain.groupby(rain["day"].dt.month)["millimetres"].sum()
total.plot(color="#ff0000", title="Rain", grid=True)
plt.savefig("/results/rain.png")
plt.close()
print(total.idxmax())
```"""
LABELS = """\
```python
import pandas as pd
import matplotlib.pyplot as plt
best = pd.read_csv("/data/matches.csv").groupby("team")["points"].sum().nlargest(5)
best.plot.bar()
plt.savefig("/results/teams.svg")
plt.close()
```"""
REPORT = """\
```python
import pandas as pd
from skills.pdf import generate
total = pd.read_csv("/data/harvest.csv").groupby("field")["kilograms"].sum()
rows = "\\n".join(f"| {field} | {weight:,} |" for field, weight in total.items())
generate("| field | kilograms |\\n|---|---|\\n" + rows, "harvest", title="Harvest")
```"""
READ = """\
```python
from pypdf import PdfReader
text = PdfReader("/data/report.pdf").pages[8].extract_text()
assert "Kestrel" in text and "464,371" in text, text
```"""
BIRDS = """\
```python
import pandas as pd
import matplotlib.pyplot as plt
count = pd.read_csv("/data/sightings.csv")["species"].value_counts()
count.plot.bar(color="#ff8000", title="Birds")
plt.savefig("/results/birds.png")
plt.close()
```"""
SAVINGS = """\
```python
import pandas as pd
import matplotlib.pyplot as plt
savings = pd.read_csv("/data/savings.csv")
plt.plot(savings["month"], savings["saved"].cumsum(), color="#ff0000")
plt.xticks(rotation=45)
plt.savefig("/results/savings.png")
plt.close()
```"""
MAY = """\
```python
import pandas as pd
from skills.pdf import generate
people = pd.read_csv("/data/birthdays.csv", parse_dates=["born"])
people = people[people["born"].dt.month == 5]
rows = "\\n".join(f"| {one.name} | {one.born:%d %B %Y} |" for one in people.itertuples(index=False))
generate("| name | date of birth |\\n|---|---|\\n" + rows, "may", title="Birthdays in May")
```"""
PHOTOS = """\
```bash
for photo in /data/photos/*; do
  name=$(basename "$photo")
  mkdir -p "/results/photos/${name:4:4}" && cp "$photo" "/results/photos/${name:4:4}/"
done
```"""
COOKBOOK = """\
```python
from pypdf import PdfReader
pages = [page.extract_text() for page in PdfReader("/data/cookbook.pdf").pages]
meatless = [page for page in pages if "Vegetarian: yes" in page]
quickest = min(meatless, key=lambda page: int(page.split("Time: ")[1].split()[0]))
assert (len(meatless), quickest.split("\\n")[0].strip()) == (9, "Bean Tacos"), pages
```"""


async def play(name: str, folder: Path, *replies: str) -> Score:
    model = ScriptedChatModel(
        conversations=(Conversation(replies=tuple(Reply(text=text) for text in replies)),)
    )
    [task] = choose(name)
    return await run_task(task, model, load_settings(None), seconds=60, transcripts=folder)


async def test_a_right_answer_is_solved(tmp_path: Path) -> None:
    score = await play(
        "month-total", tmp_path, MONTH.format(month='"2024-03"'), "In March 2024 it was 2,966.13."
    )
    assert score.solved, score
    assert (score.status, score.steps, score.blocks) == ("completed", 2, 1)
    assert score.tokens > 500
    kept = (tmp_path / "month-total.md").read_text()
    assert kept.startswith("# month-total: solved")
    assert "2966.13" in kept


async def test_a_wrong_answer_is_not(tmp_path: Path) -> None:
    score = await play(
        "month-total", tmp_path, MONTH.format(month='"2023-03"'), "In March 2024 it was 3,100.00."
    )
    assert (score.solved, score.why) == (False, "2,966.13 is not in the answer")


@pytest.mark.parametrize(
    ("name", "code", "answer"),
    [
        ("bar-plot", BARS, "See /results/branches.png."),
        ("line-plot", RAIN, "September had the most rain; see /results/rain.png."),
        ("svg-plot", LABELS, "See /results/teams.svg."),
        ("pdf-report", REPORT, "See /results/harvest.pdf."),
        ("pdf-page", READ, "464,371 EUR, on page 9."),
        ("bird-count", BIRDS, "See /results/birds.png."),
        ("running-total", SAVINGS, "At the end it is 295; see /results/savings.png."),
        ("may-birthdays", MAY, "See /results/may.pdf."),
        ("photo-years", PHOTOS, "See /results/photos."),
        ("cookbook", COOKBOOK, "9 are vegetarian, and Bean Tacos take the least time."),
    ],
)
async def test_what_the_sandbox_makes_is_understood(
    name: str, code: str, answer: str, tmp_path: Path
) -> None:
    score = await play(name, tmp_path, code, answer)
    assert score.solved, (tmp_path / f"{name}.md").read_text()


async def test_a_program_is_run_in_the_sandbox(tmp_path: Path) -> None:
    code = "```bash\necho 'print(open(\"/proc/1/cmdline\").read()[:6])' > /results/roman.py\n```"
    score = await play("roman", tmp_path, code, "Done.")
    assert score.why.startswith("roman.py 1994 prints")


async def test_no_result_and_no_end(tmp_path: Path) -> None:
    score = await play("bar-plot", tmp_path, "```bash\nmkfifo /results/branches.png\n```", "Done.")
    assert "cannot be read" in score.why
    score = await play("bar-plot", tmp_path, *["```\nplt.plot()\n```"] * 5)
    assert (score.why, score.blocks) == ("the run ended with no_execution", 0)


def test_the_program_prints_a_table_and_writes_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([{"text": "```bash\nls /data\n```"}, {"text": "There are 377 nights."}]))
    monkeypatch.setattr(program, "REPORTS", tmp_path)
    monkeypatch.setattr(program, "ROOT", tmp_path)
    assert program.main(["day-first", "--model", f"scripted:{script}"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 solved" in printed
    [report] = [json.loads(path.read_text()) for path in tmp_path.glob("*/report.json")]
    assert (report["solved"], report["total"], report["steps"]) == (1, 1, 2)
    assert report["tasks"][0]["answer"] == "There are 377 nights."


class Failing(ScriptedChatModel):
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        raise ConnectionError("too many requests")


async def test_a_call_that_fails_costs_one_task(tmp_path: Path) -> None:
    model = Failing(conversations=(Conversation(replies=(Reply(text="x"),)),))
    [task] = choose("roman")
    score = await run_task(task, model, load_settings(None), seconds=60, transcripts=tmp_path)
    assert score.why == "the run ended with ConnectionError: too many requests"


def test_a_model_that_cannot_be_called_ends_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert program.main(["roman", "--model", f"scripted:{tmp_path / 'missing.yaml'}"]) == 2
    assert "missing.yaml" in capsys.readouterr().err
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert program.main(["roman", "--model", "anthropic:any"]) == 2
    assert "ANTHROPIC_API_KEY" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        program.main(["nothing-of-that-name"])
