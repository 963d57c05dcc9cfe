"""Make runners and sandboxes for the tool, with or without an application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.program_folder import furnish
from libs.exec_tool.program_runner import CodeRunner
from libs.exec_tool.program_start import bring_starter
from libs.sandbox import SandboxLimits
from libs.sandbox.docker import ScratchSandbox
from libs.sandbox.pool import FreshSandboxes

__all__ = ["DISK", "OUTPUT_CHARS", "code_runner", "fresh_sandboxes"]

_NAME = "code-execution-agent"
DISK = 256 * 1024 * 1024
"""Default size of the workspace in bytes."""
OUTPUT_CHARS = 1_000_000
"""Most characters of each output. The result is part of the output."""


def fresh_sandboxes(
    *,
    home: Path | None = None,
    limits: SandboxLimits = SandboxLimits(),
    disk: int = DISK,
    mounts: Callable[[], Mapping[str, Path]] = dict,
    warm: int = 1,
    most: int = 8,
    links: Mapping[str, str] = {},
    **container: Any,
) -> FreshSandboxes[ScratchSandbox]:
    """Return a pool of sandboxes for programs (see `ScratchSandbox` and `FreshSandboxes`).

    Args:
        mounts: returns the folders of the host that a sandbox can read: path inside -> folder.
        links: see `program_folder.furnish`.
        container: further arguments of `ScratchSandbox`.
    """
    limits = replace(limits, output_chars=OUTPUT_CHARS)
    options = {"image": _NAME, "name": _NAME, "idle_seconds": 900, **container}
    make = partial(ScratchSandbox, home or Path.cwd(), disk=disk, limits=limits, **options)

    def first(sandbox: ScratchSandbox) -> None:
        bring_starter(sandbox)
        furnish(sandbox, links)

    return FreshSandboxes(lambda: make(read_only=mounts()), warm=warm, most=most, first=first)


@contextmanager
def code_runner(image: str = _NAME, *, seconds: float = 30.0) -> Iterator[Callable[..., ExecResult]]:
    """Give the function `CodeRunner.run`, with a spare sandbox for the duration of the context.

    Needs Docker and the image. Programs have no network and only the packages of the image.
    """
    runner = CodeRunner(fresh_sandboxes(image=image), seconds=seconds)
    try:
        yield runner.run
    finally:
        runner.close()
