"""How files are read with the library `tables`, a line for each that says so. Runs in the sandbox.

Part of `list_data.py`, which is sent there as it is: standard library only.
"""

from __future__ import annotations

import glob
import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

from agent.list_columns import plain
from agent.list_json import records_with

HEAD_BYTES = 2_000_000
MAX_PATH_CHARS = 250
MAX_WORDS = 20
LOG_LINES = 50
PAIR = re.compile(r"""(?<![^\s,;\[({])([A-Za-z_][\w.-]*)=(?!=)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;"']*)""")
"""key=value in a log, which the library `tables` makes columns of."""
ALIKE = 3
"""Tables with the same columns in one folder that are shown as one: two may be there to be compared."""


def reading(path: Path) -> str:
    """A line about how `load` of the library `tables` reads a file; "" where it does not."""
    kinds = [suffix.lower() for suffix in path.suffixes]
    kind = next((suffix for suffix in reversed(kinds) if suffix != ".gz"), "")
    name = plain(json.dumps(str(path), ensure_ascii=False), MAX_PATH_CHARS)
    try:
        if kind == ".json":
            with path.open(encoding="utf-8-sig") as text:
                return records_with(json.loads(text.read(HEAD_BYTES)), name)
        if ".log" in kinds:
            with (
                gzip.open(path, "rt", errors="replace")
                if ".gz" in kinds
                else path.open(errors="replace") as file
            ):
                lines = [line for line in (file.readline(1_000) for _ in range(LOG_LINES)) if line.strip()]
                return f"  read with: load({name})  # columns {words(lines)}"
    except Exception:  # noqa: BLE001 - whatever a broken file makes of its reader
        return ""
    if kind == ".pdf":
        return f"  read with: load({name})  # columns page, c0, c1, … (the words of a line), line"
    return f"  read with: load({name})" if kind in (".csv", ".tsv", ".jsonl", ".ndjson") else ""


def words(lines: list[str]) -> str:
    """The columns of a log's lines, with what the first has in them."""
    keys = Counter(key for line in lines for key in dict(PAIR.findall(line)))
    usual = {
        key
        for key, count in keys.items()
        if count >= max(2, len(lines) / 10) and not re.fullmatch(r"c\d+|line|page", key)
    }
    first = lines[0] if lines else ""
    rest = PAIR.sub(lambda found: "" if found[1] in usual else found[0], first)
    named = {
        f"c{index}": word.strip("\"',;[]()").rstrip(":")
        for index, word in enumerate(rest.split()[:MAX_WORDS])
    }
    for key, value in (pair for line in lines for pair in PAIR.findall(line)):
        if key in usual:
            named.setdefault(key, value.strip("\"'"))
    return ", ".join([*(f"{name} ({plain(word, 24)})" for name, word in named.items()), "line"])


def alike(tables: dict[str, tuple[list[str], list[list[str]]]]) -> list[list[Path]]:
    """The tables of each folder that have the same columns, where there are several."""
    found: dict[tuple[Path, str, tuple[str, ...]], list[Path]] = {}
    for name, (columns, _) in tables.items():
        if columns:
            found.setdefault(form(Path(name), columns), []).append(Path(name))
    return [paths for paths in found.values() if len(paths) >= ALIKE]


def form(path: Path, columns: list[str]) -> tuple[Path, str, tuple[str, ...]]:
    """What tables have in common that are read as one."""
    return path.parent, path.suffix, tuple(columns)


def reading_all(paths: list[Path], listed: set[Path]) -> str:
    """A line about how `load` reads tables with the same columns: as one; "" where they share no pattern.

    Files that are not `listed`, because there are too many, are taken for others of them.
    """
    folder, ending = str(paths[0].parent), paths[0].suffix
    if any(mark in str(path) for path in paths for mark in "*?["):
        return ""
    start = os.path.commonprefix([path.name for path in paths])  # noqa: RUF071 - of names, not of paths
    for pattern in (f"*{ending}", f"{start.removesuffix(ending)}*{ending}"):
        found = {Path(name) for name in glob.glob(f"{folder}/{pattern}")}  # noqa: PTH207 - * may follow *
        if found & listed == set(paths):
            name = plain(json.dumps(f"{folder}/{pattern}", ensure_ascii=False), MAX_PATH_CHARS)
            all_of_them = f"  read all {len(found)} as one table with: load({name})"
            return f"{all_of_them}  # the column file has their names"
    return ""
