"""The file tools of the deep agent reach the file that their call names, or refuse the call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage

from agent.parts.deep_file_tools import FilesystemMiddleware
from libs.backends.docker import DockerExecutionBackend


def asked(name: str, **args: str) -> ToolCallRequest:
    call = {"name": name, "args": args, "id": "1", "type": "tool_call"}
    return ToolCallRequest(tool_call=cast("Any", call), tool=None, state={}, runtime=cast("Any", None))


@pytest.mark.parametrize("rejected", [True, False])
async def test_rejected_change_does_not_stop_another_change_of_the_file(
    tmp_path: Path, *, rejected: bool
) -> None:
    """An approved change would be refused, as if two changes of the file had been made at once."""
    calls = [{"name": "delete", "args": {"file_path": "/workspace/a"}, "id": each} for each in ("0", "1")]
    messages: list[Any] = [AIMessage("", tool_calls=calls)]
    if rejected:
        messages.append(ToolMessage("A person rejected this delete call.", tool_call_id="0"))
    tools = FilesystemMiddleware(backend=DockerExecutionBackend(tmp_path))
    request = replace(asked("delete", file_path="/workspace/a"), state={"messages": messages})
    seen = []

    def done(given: ToolCallRequest) -> ToolMessage:
        seen.append(given)
        return ToolMessage("done", name="delete", tool_call_id="1")

    async def adone(given: ToolCallRequest) -> ToolMessage:
        return done(given)

    for answer in (tools.wrap_tool_call(request, done), await tools.awrap_tool_call(request, adone)):
        assert isinstance(answer, ToolMessage)
        assert (answer.text == "done") is rejected
    assert seen == [request, request] * rejected


@pytest.mark.parametrize(
    ("name", "args", "refused"),
    [
        ("delete", {"file_path": "/workspace/a\\b"}, True),
        ("read_file", {"file_path": "/workspace/a\\b"}, True),
        ("grep", {"path": "/workspace/a\\b", "pattern": "x"}, True),
        ("grep", {"path": "/workspace", "pattern": "a\\b"}, False),
        ("execute", {"command": "cat 'a\\b'"}, False),
        ("another_tool", {"path": "a\\b"}, False),
        ("ls", {"path": "/workspace/a/b"}, False),
    ],
)
async def test_path_with_a_backslash_is_refused(
    tmp_path: Path, name: str, args: dict[str, str], refused: bool
) -> None:
    tools = FilesystemMiddleware(backend=DockerExecutionBackend(tmp_path))
    done = ToolMessage("done", name=name, tool_call_id="1")

    async def handler(_: ToolCallRequest) -> ToolMessage:
        return done

    request = asked(name, **args)
    for answer in (
        tools.wrap_tool_call(request, lambda _: done),
        await tools.awrap_tool_call(request, handler),
    ):
        assert isinstance(answer, ToolMessage)
        if refused:
            assert answer.status == "error"
            assert "'/workspace/a\\b' has a backslash" in answer.text
        else:
            assert answer is done


@pytest.mark.parametrize("path", ["/workspace/new/", "/workspace/new/."])
def test_new_file_needs_a_name(tmp_path: Path, path: str) -> None:
    tools = FilesystemMiddleware(backend=DockerExecutionBackend(tmp_path))
    done = ToolMessage("done", name="x", tool_call_id="1")
    answer = tools.wrap_tool_call(asked("write_file", file_path=path, content=""), lambda _: done)
    assert isinstance(answer, ToolMessage)
    assert (answer.status, answer.text) == (
        "error",
        f"Error: the path '{path}' names a folder: give the path of a file.",
    )
    assert tools.wrap_tool_call(asked("delete", file_path=path), lambda _: done) is done


@pytest.mark.parametrize(
    ("name", "args", "refused"),
    [
        ("delete", {"file_path": "tmp/x"}, True),
        ("delete", {"file_path": ".//tmp/x"}, True),
        ("delete", {"file_path": "workspace/x"}, True),
        ("grep", {"path": "./src", "pattern": "x"}, True),
        ("read_file", {"file_path": "data/x"}, False),
        ("ls", {"path": "."}, False),
        ("glob", {"pattern": "*", "path": None}, False),
    ],
)
def test_relative_path_is_refused_that_could_mean_two_files(
    tmp_path: Path, name: str, args: dict[str, Any], refused: bool
) -> None:
    tools = FilesystemMiddleware(backend=DockerExecutionBackend(tmp_path))
    done = ToolMessage("done", name=name, tool_call_id="1")
    answer = tools.wrap_tool_call(asked(name, **args), lambda _: done)
    assert isinstance(answer, ToolMessage)
    assert answer.text.endswith("Write the whole path, which begins with /.") if refused else answer is done


@pytest.mark.parametrize(
    ("name", "args", "other"),
    [
        ("execute", {"command": "rm -r *", "cwd": "/tmp"}, "cwd"),
        ("grep", {"pattern": "x", "ignore_case": "1"}, "ignore_case"),
        ("execute", {"command": "true", "timeout": "1"}, None),
        ("another_tool", {"cwd": "/tmp"}, None),
    ],
)
def test_parameter_that_a_tool_does_not_have_is_refused(
    tmp_path: Path, name: str, args: dict[str, str], other: str | None
) -> None:
    """Without it, the call would do something else than it says: search another way, or in another folder."""
    tools = FilesystemMiddleware(backend=DockerExecutionBackend(tmp_path))
    done = ToolMessage("done", name=name, tool_call_id="1")
    answer = tools.wrap_tool_call(asked(name, **args), lambda _: done)
    assert isinstance(answer, ToolMessage)
    if other:
        assert answer.status == "error"
        assert f"{name} has no parameter {other!r}, so it did nothing. Its parameters are " in answer.text
    else:
        assert answer is done
