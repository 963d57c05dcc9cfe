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
from typing import NamedTuple, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["EXAMPLES", "WorkedExample", "chosen", "nearest"]

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


_UNLIKE = 0.7
"""What is left of an example's likeness for each way in which it is of another kind."""
_LIKE, _FEWEST = 0.4, 2
"""How much of the nearest one's likeness an example that is shown has at least, and how many are anyway."""
_LISTED = re.compile(r"^- (.+?): |^/data/(.*?) \(|'([^'\n]{3,})'", re.MULTILINE)
"""Columns, files and values in a listing."""
_FILE = re.compile(r"^/data/\S.*?(\.\w+)?(?:\.gz|\.\d+)* \([\d,]+ bytes\)", re.MULTILINE)
_DATES = re.compile(
    r"^- .+?: .*?\b(?:dates|times|months)\b|\d\d:\d\d|\d{4}-\d\d|\.(?:log|pdf|jsonl?)\b", re.MULTILINE
)
"""What may be dates; other kinds of files may hold some that a listing does not show."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx")
_READS = "from skills.tables import"
_ON_DATES = re.compile(r"\.dt\.|\b(?:in_period|per_period|latest|to_datetime|Timedelta|date_range)\b")
_MAKES = re.compile(
    r"/results|\b(?:bars?|build|charts?|clean|convert|copy|create|diagram|draw|export|files?|graph|histogram|make|picture|"
    r"pie|plot|program|raise|rename|report|save|script|split|store|write)\b",
    re.IGNORECASE,
)
"""Words of a task that asks for a file."""


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


def chosen(task: str, most: int, *, listing: str = "") -> list[WorkedExample]:
    """The examples to show for a task, the nearest last; see `nearest`. None is far behind that one.

    What only sounds a little alike misleads more than it helps. Two are shown at least.
    """
    ranked = _ranked(task, listing)
    best = max(ranked.values(), default=0.0)
    like = sum(score >= _LIKE * best for score in ranked.values())
    return nearest(task, min(most, max(_FEWEST, like)), listing=listing)


def nearest(task: str, count: int, *, listing: str = "") -> list[WorkedExample]:
    """The `count` examples whose words are most like those of a task (BM25), the nearest last.

    Where the listing of /data is known, words that stand in it say what the task is about, not how it is
    done: they are looked for in `about` alone. And an example counts less that works on files of another
    kind, on several instead of one, on dates that are not there, or makes a file that is not asked for.
    """
    examples = _all()
    found = list(_ranked(task, listing))
    others = [number for number in range(len(examples)) if number not in found]
    return [examples[number] for number in reversed((found + others)[:count])]


def _ranked(task: str, listing: str) -> dict[int, float]:
    """How like a task each example is that has any word of it, most first."""
    found_words = dict.fromkeys(re.findall(r"\w+", _without_names(task.lower())))
    words = [word for word in found_words if len(word) > 1 and word not in _COMMON][:_MAX_WORDS]
    subject = {
        _singular(word)
        for named in _LISTED.findall(listing)
        for word in re.findall(r"[^\W\d_]+", " ".join(named).lower())
    }
    terms = [f'about : "{word}"' if _singular(word) in subject else f'"{word}"' for word in words]
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(_index())
        scores = dict(
            database.execute(
                "SELECT rowid, -bm25(example, ?, ?) FROM example WHERE example MATCH ?",
                (_TASK, _ABOUT, " OR ".join(terms) or '""'),
            ).fetchall()
        )
    shape = _Shape.of(task, listing)
    likeness = {
        number: score * _UNLIKE ** shape.unlike(_shapes()[number]) for number, score in scores.items()
    }
    return dict(sorted(likeness.items(), key=lambda item: item[1], reverse=True))


class _Shape(NamedTuple):
    """What a task works on and makes, whatever it is about."""

    kinds: frozenset[str]
    """Endings of the files' names, "table" where one is read as a table; empty where no files are known."""
    several: bool
    """Whether there is more than one file."""
    dates: bool
    """Of a task whether there may be dates or times; of an example whether its code uses any."""
    makes: bool
    """Whether a file is made."""

    @classmethod
    def of(cls, task: str, listing: str, code: str | None = None) -> Self:
        _, *parts = _FILE.split(listing)
        files = [
            "table"
            if ending in _TABLES and "read with: load(" in about and _READS in (code or _READS)
            else ending
            for ending, about in zip(parts[::2], parts[1::2], strict=True)
        ]
        makes = _MAKES.search(task) is not None if code is None else "/results" in task
        dates = bool(_DATES.search(listing) or not files) if code is None else bool(_ON_DATES.search(code))
        return cls(frozenset(files), len(files) > 1, dates, makes)

    def unlike(self, example: Self) -> int:
        """In how many ways an example is of another kind than this task."""
        unlike = (example.makes and not self.makes) + (example.dates and not self.dates)
        if self.kinds and example.kinds:
            unlike += not self.kinds & example.kinds
            unlike += self.several != example.several
        return unlike


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


@cache
def _shapes() -> list[_Shape]:
    return [_Shape.of(each.task, each.listing, each.code) for each in _all()]


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


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
