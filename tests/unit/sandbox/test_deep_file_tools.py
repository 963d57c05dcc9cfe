"""The file tools of the deep agent reach the file that their call names, or refuse the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage

from agent.parts.deep_file_tools import FilesystemMiddleware
from libs.backends.docker import DockerExecutionBackend


def asked(name: str, **args: str) -> ToolCallRequest:
    call = {"name": name, "args": args, "id": "1", "type": "tool_call"}
    return ToolCallRequest(tool_call=cast("Any", call), tool=None, state={}, runtime=cast("Any", None))


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
