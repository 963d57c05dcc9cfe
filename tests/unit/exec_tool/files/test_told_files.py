"""Files of a program, as a sandbox tells them that lies or cannot read some of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pytest

from libs.exec_tool.changed_files import Collected, collected
from libs.sandbox import FileFailed
from libs.sandbox.pool import Fresh


class Told:
    """A sandbox that gives these answers."""

    disk = 1 << 30
    redact = None

    def __init__(self, rows: list[Any], skipped: Mapping[str, str], contents: bytes) -> None:
        told = {"rows": rows, "deleted": [], "skipped": dict(skipped), "times": {}}
        self._told = json.dumps(told).encode()
        self._contents = contents

    async def afile(self, do: str, **asked: Any) -> tuple[dict[str, Any], bytes]:
        raise FileFailed("file_not_found", f"{do} {asked}")

    async def atree(self, do: str, **asked: Any) -> tuple[dict[str, Any], bytes, bytes]:
        if do == "walk":
            return {}, self._told, b""
        rest = len(self._contents)
        sizes = []
        for _, _, size in asked["parts"]:
            sizes.append(min(size, rest))
            rest -= sizes[-1]
        return {"sizes": sizes}, self._contents, b""


async def answered(
    *rows: list[Any], before: Mapping[str, bytes] = {}, skipped: Mapping[str, str] = {}, contents: bytes = b""
) -> Collected:
    return await collected(cast("Fresh", Told([*rows], skipped, contents)), before)


def file(path: str, size: int = 1, content: bytes | None = b"1") -> list[Any]:
    return [path, "file", 0o644, 0, size, content and hashlib.sha256(content).hexdigest()]


async def test_files_whose_content_is_not_known_are_named() -> None:
    names = ("closed", "shut/in", "gone", "link", "same", "more")
    shut = "permission denied"
    found = await answered(
        file("same"),
        file("more", 1, b"2"),
        file("closed", 1, None),
        ["link", "link", 0o777, 0, 0, "same"],
        ["shut", "dir", 0, 0, 0, None],
        before=dict.fromkeys(names, b"1"),
        skipped={"closed": shut, "shut": shut},
        contents=b"2",
    )
    assert (found.changed, found.removed) == ({"more": b"2"}, ("gone", "link"))
    assert found.stale == ("closed", "shut/in")
    denied = "Cannot open: Permission denied"
    assert sorted(found.left_out) == [
        ("closed", denied),
        ("link", "a link, FIFO or device"),
        ("shut", denied),
    ]


async def test_file_that_cannot_be_read_takes_no_place_of_another() -> None:
    found = await answered(
        *(file(f"closed{number}", 0, None) for number in range(300)),
        *(file(f"open{number}") for number in range(257)),
        skipped={f"closed{number}": "permission denied" for number in range(300)},
        contents=b"1" * 256,
    )
    assert len(found.changed) == 256
    reasons = Counter(why for _, why in found.left_out)
    assert reasons == {"Cannot open: Permission denied": 300, "there are over 256": 1}


async def test_nothing_is_removed_from_a_workspace_that_cannot_be_read() -> None:
    found = await answered(before={"a": b"1"}, skipped={"": "permission denied"})
    assert found == Collected({}, (), ((".", "Cannot open: Permission denied"),), ("a",))


async def test_file_that_got_shorter_is_named() -> None:
    found = await answered(file("a", 3), before={"a": b"1"}, contents=b"2")
    assert found == Collected({}, (), (("a", "it changes while it is read"),), ("a",))


@pytest.mark.parametrize(
    "rows",
    [
        [file("../out")],
        [file("/etc/passwd")],
        [file("a/../../b")],
        [file("a", -1)],
        [file("a", 64 << 30)],
    ],
    ids=str,
)
async def test_forged_answer_is_an_error(rows: list[Any]) -> None:
    with pytest.raises(FileFailed):
        await answered(*rows)


async def test_more_content_than_asked_for_is_an_error() -> None:
    with pytest.raises(FileFailed):
        await answered(file("a"), contents=b"12")
