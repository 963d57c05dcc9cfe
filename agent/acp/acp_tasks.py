"""Turns a prompt from an editor into the task of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from agent.acp.tool_calls import fenced

__all__ = ["PromptBlock", "task_of"]

PromptBlock = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def task_of(prompt: Sequence[PromptBlock], workspace: Path) -> str:
    """Return the text of a prompt, with paths as the agent sees them, or marked as out of reach.

    Raises:
        RequestError: the prompt is empty, or has a part that this agent cannot read.
    """
    parts = [_part(block, workspace) for block in prompt]
    task = "".join(parts).strip()
    if not task:
        raise RequestError(-32602, "The prompt is empty: say what is to be done.")
    return task


def _part(block: PromptBlock, workspace: Path) -> str:
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(uri=uri):
            return _named(uri, workspace)
        case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
            return f"\n\n{_named(uri, workspace)}:\n{fenced(text)}\n\n"
        case _:
            raise RequestError(
                -32602, f"This agent reads text and files of the workspace, no {block.type}: leave it out."
            )


def _named(uri: str, workspace: Path) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    try:
        inside = path.resolve().relative_to(workspace.resolve())
    except (ValueError, OSError):
        return f"{path} (not in the workspace: out of reach)"
    return f"/workspace/{inside.as_posix()}"
