"""A sandbox that lies: the error is typed, and nothing is kept under a wrong name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox import FileFailed, Sandbox
from libs.workspace import ManifestMissing, WorkspaceStore

DIGEST = hashlib.sha256(b"honest").hexdigest()
FILE = ["a", "file", 0o644, 0, 6, DIGEST]


class Liar:
    """Answers as told."""

    def __init__(self, rows: Any = (FILE,), content: bytes = b"honest", **answers: Any) -> None:
        self.walk = {"rows": list(rows), "deleted": [], "skipped": {}, "times": {}} | answers.pop("walk", {})
        self.content = content
        self.sizes = answers.pop("sizes", None)
        self.left = answers.pop("left", {})

    async def atree(self, do: str, **arguments: Any) -> tuple[dict[str, Any], bytes, bytes]:
        if do == "walk":
            raw = self.walk if isinstance(self.walk, bytes) else json.dumps(self.walk).encode()
            return {}, raw, b""
        if do == "apply":
            return {"left": self.left}, b"", b""
        sizes = self.sizes if self.sizes is not None else [len(self.content)] * len(arguments["parts"])
        return {"sizes": sizes}, self.content * len(arguments["parts"]), b""


def sandbox(**answers: Any) -> Sandbox:
    return Liar(**answers)  # type: ignore[return-value]


def row(**changed: Any) -> list[Any]:
    names = ("path", "kind", "mode", "mtime", "size", "value")
    return [changed.get(name, value) for name, value in zip(names, FILE, strict=True)]


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            row(path=path)
            for path in ("../a", "/etc/passwd", "a/../../b", "a//b", ".", "", "a\0b", "\ud800", 5, None)
        ),
        *(row(kind=kind) for kind in ("device", None, [], {})),
        *(row(mode=mode) for mode in (-1, 0o10000, 1.5, True, "7")),
        *(row(mtime=mtime) for mtime in (2**66, -(2**66), 10**1000, None)),
        *(row(size=size) for size in (-1, 2**66, 1e9, 10_001)),
        *(row(value=value) for value in ("0" * 63, "../" + "0" * 61, DIGEST.upper(), 5, [])),
        *(row(kind="link", value=value) for value in (None, "", "a\0b", 5)),
        row(kind="dir", value="x"),
        FILE[:5],
        [*FILE, 1],
        "file",
        None,
    ],
    ids=lambda wrong: ascii(wrong)[:60],
)
def test_walk_with_an_invalid_entry_is_refused(store: WorkspaceStore, wrong: Any) -> None:
    with pytest.raises(FileFailed, match="invalid answer"):
        store.capture(sandbox(rows=[wrong]))


@pytest.mark.parametrize(
    "walk",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"rows": [], "deleted": []}',
        {"rows": None}, {"rows": 5}, {"deleted": [5]}, {"deleted": ["../a"]}, {"skipped": {"../a": "x"}},
        {"skipped": []}, {"times": []}, {"times": {"a": []}},
        {"times": {"a": float("inf")}}, {"times": {"a": "5"}},
    ],
    ids=lambda walk: ascii(walk)[:40],
)  # fmt: skip
def test_walk_with_an_invalid_answer_is_refused(store: WorkspaceStore, walk: Any) -> None:
    liar = Liar()
    liar.walk = walk if isinstance(walk, bytes) else liar.walk | walk
    with pytest.raises(FileFailed, match="invalid answer"):
        store.capture(liar)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", ["6", [], [6, 0], ["6"], [-6], [6.0], [7], [5], [None], [[6]], [10**30]])
def test_contents_with_invalid_sizes_are_refused(store: WorkspaceStore, sizes: Any) -> None:
    with pytest.raises(FileFailed, match="invalid answer"):
        store.capture(sandbox(sizes=sizes))


@pytest.mark.parametrize("content", [b"", b"hones", b"Honest"])
def test_content_with_another_digest_is_not_kept(
    store: WorkspaceStore, tmp_path: Path, content: bytes
) -> None:
    """Both paths with this content lose it, although the content of only one was asked for."""
    captured = store.capture(sandbox(rows=[FILE, row(path="b")], content=content))
    assert dict(captured.skipped) == dict.fromkeys(
        ("/workspace/a", "/workspace/b"), "it changes while it is read"
    )
    assert not list((tmp_path / "snapshots").rglob(DIGEST))
    with pytest.raises(FileNotFoundError):
        store.read(captured.id, "/workspace/a")


def test_large_content_with_another_digest_is_not_kept(store: WorkspaceStore, tmp_path: Path) -> None:
    large = WorkspaceStore(store._catalog, store._contents)
    captured = large.capture(sandbox(rows=[row(size=10_000_000)], content=b"x" * 1000))
    assert set(captured.skipped) == {"/workspace/a"}
    assert not [file for file in (tmp_path / "snapshots" / "contents").rglob("*") if file.is_file()]


@pytest.mark.parametrize("left", [None, [], {"../x": "no"}, {"b": "no"}, "no"])
def test_restore_with_an_invalid_answer_is_refused(store: WorkspaceStore, left: Any) -> None:
    liar = Liar()
    first = store.capture(liar).id  # type: ignore[arg-type]
    liar.walk |= {"rows": [row(mode=0o600)]}
    liar.left = left
    with pytest.raises(Exception, match="invalid answer"):
        store.restore(liar, first)  # type: ignore[arg-type]


def test_unknown_capture_is_named(store: WorkspaceStore) -> None:
    with pytest.raises(ManifestMissing, match="not kept any more"):
        store.restore(sandbox(), "0" * 64)
