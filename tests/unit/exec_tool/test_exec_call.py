"""The parameters of execute_code: invalid calls are refused before a sandbox starts."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from libs.exec_tool.execute_code_call import Binary, Call, canonical, check_path, explained
from libs.exec_tool.program_runner import _sendable


def why_not(**given: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        Call(**given)
    return explained(refused.value)


def deep(levels: int) -> list[Any]:
    args: list[Any] = [0]
    for _ in range(levels - 1):
        args = [args]
    return args


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "The parameter code is missing."),
        ({"code": ""}, "code: is empty"),
        (
            {"code": "# coding: latin-1\nprint('é')"},
            "code: is UTF-8, and a comment says iso-8859-1: leave the comment out",
        ),
        ({"code": "\r# coding: latin-1\rprint('é')"}, "code: is UTF-8, and a comment says iso-8859-1"),
        ({"code": "\ufeffecho 1", "language": "bash"}, "code: begins with a byte order mark"),
        ({"code": "x = 1\0; y"}, "code: has a NUL as character 6: write it as an escape sequence"),
        ({"code": "x" * 10_000_000}, "has 10,000,000 characters"),
        (
            {"code": "x", "timeout": 3},
            "There is no parameter 'timeout': the parameters are code, dependencies",
        ),
        ({"code": "x", "language": "ruby"}, "language: Input should be 'python' or 'bash'"),
        ({"code": "x", "dependencies": ["pandas"] * 31}, "31 dependencies"),
        ({"code": "x", "files": {"../x": "y"}}, "holds '..'"),
        ({"code": "x", "files": {"/etc/passwd": "y"}}, "is absolute"),
        ({"code": "x", "files": {"a": "1", "./a": "2"}}, "name the same file"),
        ({"code": "x", "files": {"a": "1", "a/b": "2"}}, "lies in a folder that has the name of another"),
        ({"code": "x", "files": {str(n): "" for n in range(257)}}, "257 files"),
        ({"code": "x", "files": {"a": "y" * 33 * 2**20}}, "at most 33,554,432"),
        ({"code": "x", "args": deep(100_000)}, "args: are nested too deeply"),
        ({"code": "x", "args": {"a": deep(100)}}, "args: are nested too deeply: at most 100"),
        ({"code": "x", "args": float("nan")}, "args: cannot be sent as JSON"),
        ({"code": "x", "args": "y" * 100_001}, "put it into a file"),
        ({"code": "x", "args": [{1: "a", "1": "b"}]}, "args: has the key 1, which is no text"),
        ({"code": "x", "args": ["\ud83d\ude00"]}, "half of a surrogate pair"),
        ({"code": "x", "args": {"\ud83d": 1}}, "half of a surrogate pair"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_invalid_calls_are_refused(given: dict[str, Any], reason: str) -> None:
    message = why_not(**given)
    assert reason in message
    assert len(message) < 1_000, "the message does not repeat the call"


CONTENT = """The content of the file 'a' must be text, or {"base64": "…"}: send JSON as text."""


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": 5}, CONTENT),
        ({"a": ["x"]}, CONTENT),
        ({"a": {"b": 1, "c": 2}}, CONTENT),
        ({"a": {"base64": "", "b": 1}}, CONTENT),
        ({"a": {"base64": 5}, "b": "1"}, CONTENT),
        ({"a": {"base64": "%%"}}, "The content of the file 'a' is not base64."),
        ({5: "x"}, "files: the path '5' is not text."),
        (["a"], 'files: must be an object: path -> text, or {"base64": "…"}.'),
    ],
    ids=str,
)
def test_wrong_file_is_named_once(files: Any, told: str) -> None:
    assert why_not(code="x", files=files) == told


def shared(times: int) -> list[Any]:
    """Return a list that JSON repeats 2**times times."""
    args: list[Any] = []
    for _ in range(times):
        args = [args, args]
    return args


def test_argument_that_json_would_repeat_without_end_is_refused() -> None:
    """Only the part of it that is allowed is encoded."""
    assert why_not(code="x", args=shared(90)).startswith("args: has over 100,000 bytes as JSON: put it into")
    assert why_not(code="x", args=["y" * 1_000_000] * 1_000_000).startswith("args: has over 100,000 bytes")
    assert Call(code="x", args=shared(10)).args == shared(10)


@pytest.mark.parametrize(
    "args", [None, "", [1, {"a": None}], deep(100)], ids=["null", "empty", "list", "deep"]
)
def test_any_json_can_be_an_argument(args: Any) -> None:
    call = Call(code="x", args=args)
    assert call.args == call.model_dump(mode="json")["args"] == args


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "# -*- coding: utf-8 -*-\n'é'"),
        ("python", "\ufeff'é'"),
        ("python", "# coding: latin-1\n'e'"),
        ("python", "# coding: nosuch\n'é'"),
        ("python", "# coding: rot13\n'é'"),
        ("python", "# coding: idna\n'é'"),
        ("bash", "# coding: latin-1\necho é"),
    ],
)
def test_program_that_is_read_as_written_is_taken(language: Any, code: str) -> None:
    assert Call(language=language, code=code).code == code


def test_files_can_be_text_or_base64() -> None:
    data = bytes(range(256))
    call = Call(code="x", files={"a/b.txt": "ü", "c.bin": {"base64": base64.b64encode(data).decode()}})
    assert isinstance(call.files["c.bin"], Binary)
    assert call.contents == {"a/b.txt": "ü".encode(), "c.bin": data}


@pytest.mark.parametrize(
    "path",
    ["", "/x", ".", "a/../../b", "a/", "a\0b", "a/" + "x" * 256, "x" * 501, "\ud800", ".output/x"],
)
def test_invalid_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"path|folder"):
        check_path(path)


@pytest.mark.parametrize(
    "requirement",
    [
        "../x",
        "-r requirements.txt",
        "x @ https://example.com/x.whl",
        "x; python_version > '3'",
        "x===1",
        "x\n--index-url http://evil",
        "x" * 201,
        "x; " + "(" * 100_000,
        "$(id)",
    ],
)
def test_requirements_other_than_packages_are_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="is not a package: only names and versions"):
        canonical(requirement)


def test_packages_have_one_normal_form() -> None:
    given = ["x[b,A]~=1.2", "Pandas >=2, <3", "Foo_Bar.baz==1.*", "pandas<3,>=2"]
    normal = ["foo-bar-baz==1.*", "pandas<3,>=2", "x[a,b]~=1.2"]
    assert Call(code="x", dependencies=given).dependencies == normal
    assert list(map(canonical, normal)) == normal


@given(st.text(max_size=40))
def test_accepted_requirement_is_one_word_and_no_option(requirement: str) -> None:
    try:
        spelling = canonical(requirement)
    except ValueError:
        return
    assert not spelling.startswith("-")
    assert not set(spelling) & set(" \n;@$`'\"&|/\\")


def test_runner_takes_bytes_as_files() -> None:
    assert _sendable(b"\x00") == Binary(base64="AA==")
    call = Call(code="x", files={"b.bin": _sendable(b"\x00"), "a": _sendable("text")})
    assert call.contents == {"b.bin": b"\x00", "a": b"text"}
