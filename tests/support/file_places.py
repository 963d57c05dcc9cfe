"""A folder inside the container for one test, and helpers to read the answers of file tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from deepagents.backends.protocol import GlobResult, GrepResult, LsResult, ReadResult

from libs.backends.docker import DockerExecutionBackend as Backend

__all__ = ["content", "empty_folder", "found", "listed", "shown"]


@contextmanager
def empty_folder(backend: Backend) -> Iterator[str]:
    """Make an empty folder inside, and remove it with all its content afterwards."""
    folder = f"/workspace/place-{os.urandom(4).hex()}"
    assert backend.execute(f"mkdir {folder}").exit_code == 0
    yield folder
    backend.execute(f"chmod -R u+rwx {folder}; rm -rf {folder}")


def listed(result: LsResult | GlobResult) -> list[str]:
    """Return the paths of a listing."""
    assert result.error is None
    items = result.entries if isinstance(result, LsResult) else result.matches
    return [item["path"] for item in items or []]


def found(result: GrepResult) -> list[str]:
    """Return the path of each matching line."""
    assert result.error is None
    return [item["path"] for item in result.matches or []]


def content(backend: Backend, path: str) -> bytes | None:
    (answer,) = backend.download_files([path])
    data: bytes | None = answer.content
    return data


def shown(result: ReadResult) -> str:
    assert result.file_data is not None
    return result.file_data["content"]
