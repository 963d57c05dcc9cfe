"""Reads the contents that each kept manifest names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import zstandard

from libs.persistence.thread_database import Database
from libs.workspace import Change, shown

__all__ = ["left_out", "named_contents"]

_GONE = object()


def named_contents(database: Database) -> Iterator[tuple[str, bool, set[str]]]:
    """Yield for each manifest its id, whether it was dropped, and the SHA-256 of its contents.

    Blocks. Manifests that are added meanwhile are left out. Only one manifest is in memory: each is made from
    its base, and the change is taken back afterwards.
    """
    rows = database.wait(lambda do: do("SELECT id, base, dropped FROM workspace_manifests"))
    based: defaultdict[str | None, list[tuple[str, bool]]] = defaultdict(list)
    for name, base, dropped in rows:
        based[base].append((name, bool(dropped)))
    content: dict[str, str | None] = {}
    # Each step enters a manifest, or leaves it: then with what the entry replaced.
    steps: list[tuple[str, bool] | dict[str, object]] = list(based[None])
    while steps:
        step = steps.pop()
        if isinstance(step, dict):
            _put_back(content, step)
            continue
        name, dropped = step
        change = _change(database, name)
        if change is None:
            continue  # removed meanwhile
        steps.append(_enter(content, change))
        yield name, dropped, {digest for digest in content.values() if digest}
        steps += based[name]


def left_out(database: Database, name: str) -> dict[str, str]:
    """Return the paths that a manifest leaves out, each with the reason. Blocks."""
    change = _change(database, name)
    return {shown(path): why for path, why in change.skipped.items()} if change else {}


def _change(database: Database, name: str) -> Change | None:
    rows = database.wait(lambda do: do("SELECT change FROM workspace_manifests WHERE id = ?", name))
    return Change.decode(zstandard.ZstdDecompressor().decompress(bytes(rows[0][0]))) if rows else None


def _enter(content: dict[str, str | None], change: Change) -> dict[str, object]:
    """Make the contents of a manifest from those of its base. Return what was replaced."""
    replaced: dict[str, object] = {}
    for path in change.deleted:
        replaced[path] = content.pop(path, _GONE)
    for path, kind, _, _, _, value in change.rows:
        replaced.setdefault(path, content.get(path, _GONE))
        content[path] = value if kind == "file" else None
    return replaced


def _put_back(content: dict[str, str | None], replaced: dict[str, object]) -> None:
    for path, value in replaced.items():
        if value is _GONE:
            content.pop(path, None)
        else:
            content[path] = value  # type: ignore[assignment]
