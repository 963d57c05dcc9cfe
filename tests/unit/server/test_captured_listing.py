"""The page lists what the latest capture knows of a folder, and says where it knows nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agent.server.json_exchange import Refused
from agent.server.routes.files.captured_files import CapturedFiles
from libs.workspace import Entry, Manifest


async def test_folder_that_could_not_be_read_is_not_shown_as_empty() -> None:
    folder = Entry("dir", 0, 0, 0, None, None)
    paths = ("/results", "/results/closed", "/results/closed/in", "/results/open")
    unused: Any = None
    files = CapturedFiles(
        Manifest(dict.fromkeys(paths, folder), {"/results/closed": "permission denied"}), unused, unused
    )
    assert [entry.name for entry in (await files.list("/results")).entries] == ["closed", "open"]
    assert not (await files.list("/results/open")).entries
    for path in ("/results/closed", "/results/closed/in"):
        with pytest.raises(Refused, match="was not kept in this snapshot: permission denied") as refused:
            await files.list(path)
        assert refused.value.status == 410


async def test_file_that_is_listed_as_a_folder_is_not_called_missing() -> None:
    unused: Any = None
    files = CapturedFiles(
        Manifest({"/results/a": Entry("file", 0o644, 0, 0, "0" * 64, None)}), unused, unused
    )
    with pytest.raises(Refused, match=r"^The path, or a part of it, names no folder\.$") as refused:
        await files.list("/results/a")
    assert refused.value.status == 404
