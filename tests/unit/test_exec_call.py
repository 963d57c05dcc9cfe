"""What execute_code is called with: all that is refused, before a sandbox is started for it (X1, X4, X5)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from libs.exec_tool.call import MAX_CODE, Binary, Call, canonical, check_path, explained


def why_not(**given: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        Call(**given)
    return explained(refused.value)


def cyclic() -> dict[str, Any]:
    args: dict[str, Any] = {}
    args["self"] = args
    return args


def deep(levels: int) -> list[Any]:
    args: list[Any] = []
    for _ in range(levels - 1):
        args = [args]
    return args


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "The parameter code is missing."),
        ({"code": ""}, "code: is empty"),
        ({"code": " \n"}, "code: is empty"),
        ({"code": 3}, "code: Input should be a valid string"),
        ({"code": "x" * 10_000_000}, "has 10,000,000 characters"),
        ({"code": "a\0b"}, "NUL"),
        (
            {"code": "x", "timeout": 3},
            "There is no parameter 'timeout': the parameters are code, dependencies",
        ),
        ({"code": "x", "language": "ruby"}, "language: Input should be 'python' or 'bash'"),
        ({"code": "x", "dependencies": "pandas"}, "dependencies: Input should be a valid list"),
        ({"code": "x", "dependencies": ["pandas"] * 31}, "31 dependencies"),
        ({"code": "x", "files": {"../x": "y"}}, "holds '..'"),
        ({"code": "x", "files": {"/etc/passwd": "y"}}, "is absolute"),
        ({"code": "x", "files": {"a": "1", "./a": "2"}}, "name the same file"),
        ({"code": "x", "files": {"a": "1", "a/b": "2"}}, "lies in a folder that has the name of another"),
        ({"code": "x", "files": {"a": 3}}, "files.a"),
        ({"code": "x", "files": {"a": {"base64": "%%"}}}, "is not base64"),
        ({"code": "x", "files": {str(n): "" for n in range(257)}}, "257 files"),
        ({"code": "x", "files": {"a": "y" * 33 * 2**20}}, "at most 33,554,432"),
        ({"code": "x", "args": cyclic()}, "args: cannot be sent as JSON: Circular"),
        ({"code": "x", "args": deep(100_000)}, "args: cannot be sent as JSON"),
        ({"code": "x", "args": deep(300)}, "args: are nested too deeply: at most 100"),
        ({"code": "x", "args": {"a": deep(100)}}, "args: are nested too deeply: at most 100"),
        ({"code": "x", "args": {"a": object()}}, "args: cannot be sent as JSON"),
        ({"code": "x", "args": float("nan")}, "args: cannot be sent as JSON"),
        ({"code": "x", "args": "y" * 100_001}, "put it into a file"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_refused(given: dict[str, Any], reason: str) -> None:
    assert reason in why_not(**given)


def test_a_reason_is_short_whatever_was_sent() -> None:
    assert len(why_not(code="x" * (MAX_CODE + 1), nope="y" * 10_000_000)) < 1_000


@pytest.mark.parametrize("args", [None, 0, False, "", [], {}, 0.0, "x", [1, {"a": None}]])
def test_any_json_is_an_argument(args: Any) -> None:
    assert Call(code="x", args=args).args == args


def test_arguments_as_deep_as_may_be_can_be_written_down() -> None:
    assert Call(code="x", args=deep(100)).model_dump(mode="json")["args"] == deep(100)


def test_files_are_text_or_bytes() -> None:
    data = bytes(range(256))
    call = Call(code="x", files={"a/b.txt": "ü", "c.bin": {"base64": base64.b64encode(data).decode()}})
    assert isinstance(call.files["c.bin"], Binary)
    assert call.contents == {"a/b.txt": "ü".encode(), "c.bin": data}


@pytest.mark.parametrize(
    "path",
    ["", "/", ".", "..", "a/../../b", "a/", "a\0b", "a/" + "x" * 256, "x" * 501, "\ud800", ".output/x"],
)
def test_paths_that_name_no_file_of_the_workspace(path: str) -> None:
    with pytest.raises(ValueError, match=r"path|folder"):
        check_path(path)


@given(st.text(max_size=60))
def test_a_path_that_passes_stays_below(path: str) -> None:
    try:
        checked = check_path(path)
    except ValueError:
        return
    parts = checked.split("/")
    assert not checked.startswith("/")
    assert all(part not in ("", ".", "..") for part in parts)
    assert check_path(checked) == checked


@pytest.mark.parametrize(
    "requirement",
    [
        "../x",
        "x; rm -rf /",
        "x;rm",
        "--index-url",
        "--index-url=http://evil",
        "-r requirements.txt",
        "-e .",
        "git+https://example.com/x.git",
        "x @ https://example.com/x.whl",
        "https://example.com/x.whl",
        "./x.whl",
        "file:///etc/passwd",
        "x; python_version > '3'",
        "x===$(id)",
        "x y",
        "x\n--index-url http://evil",
        "",
        "x" * 201,
        "`id`",
        "$(id)",
    ],
)
def test_what_is_no_package(requirement: str) -> None:
    with pytest.raises(ValueError, match="is no package: only names and versions"):
        canonical(requirement)


@pytest.mark.parametrize(
    ("given", "spelling"),
    [
        ("pandas", "pandas"),
        ("Pandas >=2, <3", "pandas<3,>=2"),
        ("Foo_Bar.baz==1.0", "foo-bar-baz==1.0"),
        ("x[b,A]~=1.2", "x[a,b]~=1.2"),
        ("x==1.*", "x==1.*"),
    ],
)
def test_a_package_has_one_spelling(given: str, spelling: str) -> None:
    assert canonical(given) == spelling
    assert canonical(spelling) == spelling


@given(st.text(max_size=40))
def test_what_passes_is_one_word_that_is_no_option(requirement: str) -> None:
    try:
        spelling = canonical(requirement)
    except ValueError:
        return
    assert not spelling.startswith("-")
    assert not set(spelling) & set(" \n;@$`'\"&|/\\")


def test_sets_are_sorted_and_each_once() -> None:
    assert Call(code="x", dependencies=["b", "A", "a>=0", "B"]).dependencies == ["a", "a>=0", "b"]
