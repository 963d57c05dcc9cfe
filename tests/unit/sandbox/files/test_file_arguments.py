"""Wrong arguments of a file operation are errors of the caller, and the sandbox is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from libs.sandbox import FileFailed
from libs.sandbox.host.local_sandbox import LocalSandbox

PAGE = {"path": "a", "offset": 0, "limit": 1, "text": True}
GREP = {"path": "a", "text": "x", "pattern": None, "most": None}
EDIT = {"path": "a", "old": "x", "new": "y", "replace_all": False}


@pytest.mark.parametrize(
    ("do", "given", "error", "why"),
    [
        ("walk", {"path": "a"}, ValueError, "no file operation 'walk': the operations are page, edit"),
        ("ls", {}, TypeError, "path is missing or unknown; the arguments are path"),
        ("ls", {"path": "a", "deep": 1}, TypeError, "deep is missing or unknown"),
        ("ls", {"path": None}, TypeError, "path is NoneType, and str is needed"),
        ("ls", {"path": Path("a")}, TypeError, "path is PosixPath"),
        ("ls", {"path": "a", "content": b""}, TypeError, "content.* left out for other operations"),
        ("page", {**PAGE, "offset": -1}, ValueError, "offset is -1"),
        ("page", {**PAGE, "offset": 0.5}, TypeError, "offset is float, and int"),
        ("page", {**PAGE, "limit": True}, TypeError, "limit is bool, and int"),
        ("grep", {**GREP, "most": "1"}, TypeError, "most is str, and int or NoneType"),
        ("edit", {**EDIT, "old": None}, TypeError, "old is NoneType"),
        ("delete", {"path": "a", "protected": []}, TypeError, "protected is missing or unknown"),
        ("write", {"path": "a", "replace": False}, TypeError, "must be bytes"),
        ("write", {"path": "a", "replace": False, "content": "x"}, TypeError, "must be bytes"),
        ("write", {"path": "a", "replace": False, "content": b"x", "size": 9}, TypeError, "size is missing"),
        ("read", {"path": "d" * 4096}, FileFailed, "the path has 4,096 bytes: a path has at most 4,095"),
        ("write", {"path": "é" * 2048, "replace": True, "content": b""}, FileFailed, "4,096 bytes"),
    ],
)
def test_wrong_argument_is_named(
    tmp_path: Path, do: str, given: dict[str, Any], error: type[Exception], why: str
) -> None:
    sandbox = LocalSandbox(tmp_path)
    with pytest.raises(error, match=why):
        sandbox.file(do, **given)
    assert not sandbox.running


@pytest.mark.thorough
def test_longest_path_is_used_and_a_longer_path_is_cut_in_the_error(tmp_path: Path) -> None:
    root = f"{tmp_path}/"
    longest = root + ("d/" * 2048)[: 4095 - len(root) - 1] + "f"
    with LocalSandbox(tmp_path) as sandbox:
        sandbox.write_file(longest, b"deep")
        assert sandbox.read_file(longest) == b"deep"
        sandbox.run("rm -rf d")
        with pytest.raises(ValueError, match="the path has 200,000 bytes") as caught:
            sandbox.write_file("/a" * 100_000, b"")
        assert len(str(caught.value)) < 2_000
