"""Derives the synchronous methods of a backend from its coroutines."""

from __future__ import annotations

import functools
from typing import Any

from deepagents.backends.protocol import BackendProtocol

from libs.sandbox.host import core

__all__ = ["AsyncBackend"]


def _synchronous(name: str) -> Any:
    """Return the method `name`, which runs the coroutine with the prefix `a`; see `LoopThread.wait`."""

    @functools.wraps(getattr(BackendProtocol, name))
    def method(self: BackendProtocol, *args: Any, **kwargs: Any) -> Any:
        return core().wait(getattr(self, f"a{name}")(*args, **kwargs))

    return method


class AsyncBackend(BackendProtocol):
    """A backend whose subclasses have the coroutines only."""

    ls = _synchronous("ls")
    read = _synchronous("read")
    write = _synchronous("write")
    edit = _synchronous("edit")
    delete = _synchronous("delete")
    glob = _synchronous("glob")
    grep = _synchronous("grep")
    upload_files = _synchronous("upload_files")
    download_files = _synchronous("download_files")
