"""Which changes of a call need no approval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from libs.middleware.approvals.effects import free_changes
from libs.workspace import Entry

FILE = Entry("file", 0o644, 0, 1, "a" * 64, None)
FOLDER = Entry("dir", 0o755, 0, 0, None, None)
LINK = Entry("link", 0o777, 0, 0, None, "/data")
SETUID = replace(FILE, mode=0o4755)


@pytest.mark.parametrize(
    ("path", "before", "after", "free"),
    [
        ("/results/x", None, FILE, True),
        ("/results/x", FILE, replace(FILE, sha256="b" * 64), True),
        ("/results/x", FILE, replace(FILE, mode=0o755), True),
        ("/results/a/b", None, FOLDER, True),
        ("/workspace/results/x", None, FILE, True),
        ("/workspace/out", None, FOLDER, True),  # /workspace/out/** needs it
        ("/workspace/out", None, FILE, False),
        ("/results/x", FILE, None, False),
        ("/results/a", FOLDER, replace(FOLDER, mode=0o700), False),
        ("/results/x", None, LINK, False),
        ("/results/x", FILE, LINK, False),
        ("/results/x", FOLDER, FILE, False),
        ("/results/x", None, SETUID, False),
        ("/results/x", SETUID, replace(SETUID, sha256="b" * 64), True),
        ("/data/x", None, FILE, False),
        ("/resultsx", None, FILE, False),
    ],
)
def test_free_changes(path: str, before: Entry | None, after: Entry | None, free: bool) -> None:
    assert free_changes(["/results/**", "/workspace/out/**"])(path, before, after) is free


def test_nothing_is_free_without_patterns() -> None:
    assert not free_changes([])("/results/x", None, FILE)
