"""Worked examples for a small model, and which of them come nearest to a task.

A small model does as it has seen done, and most as in the example that is nearest to its task. So there is
one for each technique, in `agent/examples`, a file for each group of them, and a run is shown those whose
words are most like those of its task. `listing` and `output` are what the sandbox prints: a test compares.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["EXAMPLES", "WorkedExample", "nearest"]

EXAMPLES = Path(__file__).with_name("examples")
_MAX_WORDS = 200
_COMMON = frozenset(
    (
        *("a", "according", "all", "and", "are", "as", "at", "be", "by", "csv", "data", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "in", "into", "is", "it", "its", "many", "much", "of", "on"),
        *("or", "results", "that", "the", "their", "them", "there", "they", "this", "to", "was", "were"),
        *("what", "which", "who", "with", "work"),
    )
)
"""Words that say nothing of how a task is done."""
_PLACE = re.compile(r"/(?:data|results)\b[\w./<>-]*?(\.\w+)?(?=[^\w./<>-]|\.?$|\.\s)")
"""The path of a file: what it is called says nothing either, its ending does."""
_TASK, _ABOUT = 1.0, 2.0
"""What a word counts where it stands in an example's task, which has words of its subject, and in `about`."""


class WorkedExample(BaseModel):
    """A task, and how it is done.

    `about` holds words by which it is found besides those of the task; `files` are those of /data, a PDF file
    as its pages, their lines separated by |.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    task: str
    files: dict[str, str | list[str]] = Field(default_factory=dict)
    listing: str = ""
    plan: list[str]
    code: str
    output: str = ""
    answer: str

    @property
    def reply(self) -> str:
        """What the model is to say: the plan and the code."""
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(self.plan, 1))
        return f"Plan:\n{steps}\n```python\n{self.code.rstrip()}\n```"


def nearest(task: str, count: int) -> list[WorkedExample]:
    """The `count` examples whose words are most like those of a task (BM25), the nearest last."""
    examples = _all()
    found_words = dict.fromkeys(re.findall(r"\w+", _without_names(task.lower())))
    words = [word for word in found_words if len(word) > 1 and word not in _COMMON]
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(_index())
        found = [
            number
            for (number,) in database.execute(
                "SELECT rowid FROM example WHERE example MATCH ? ORDER BY bm25(example, ?, ?) LIMIT ?",
                (" OR ".join(f'"{word}"' for word in words[:_MAX_WORDS]) or '""', _TASK, _ABOUT, count),
            )
        ]
    others = [number for number in range(len(examples)) if number not in found]
    return [examples[number] for number in reversed((found + others)[:count])]


@cache
def _index() -> bytes:
    """A database of the examples' words."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE example USING fts5(task, about, tokenize = 'porter')")
        database.executemany(
            "INSERT INTO example (rowid, task, about) VALUES (?, ?, ?)",
            [(number, _without_names(each.task), each.about) for number, each in enumerate(_all())],
        )
        database.commit()
        return database.serialize()


def _without_names(text: str) -> str:
    return _PLACE.sub(r" \1 ", text)


@cache
def _all() -> list[WorkedExample]:
    # Those of tables first: they are what fits where nothing does.
    files = sorted(EXAMPLES.glob("*.yaml"), key=lambda file: (file.stem != "tables", file.stem))
    return [
        WorkedExample.model_validate(each)
        for file in files
        for each in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]
