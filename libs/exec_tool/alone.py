"""The tool without an application around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from libs.exec_tool.layout import furnish
from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.runner import CodeRunner
from libs.sandbox.egress import Egress
from libs.sandbox.fresh import FreshSandboxes
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.redact import Redact
from libs.sandbox.scratch import ScratchSandbox

if TYPE_CHECKING:
    import docker

__all__ = ["DISK", "OUTPUT_CHARS", "code_runner", "fresh_sandboxes"]

DISK = 256 * 1024 * 1024
"""Bytes of the workspace, unless the caller says otherwise."""
OUTPUT_CHARS = 1_000_000
"""Characters of each output that come back: the result is among them."""


def fresh_sandboxes(
    *,
    image: str = "code-execution-agent",
    name: str = "code-execution-agent",
    home: Path | None = None,
    limits: SandboxLimits = SandboxLimits(),
    disk: int = DISK,
    mounts: Callable[[], Mapping[str, Path]] = dict,
    environment: Mapping[str, str] = {},
    warm: int = 1,
    most: int = 8,
    idle_seconds: float = 900,
    runtime: str | None = None,
    egress: Egress | None = None,
    redact: Redact | None = None,
    check_image: Callable[[docker.DockerClient], None] = lambda _: None,
    links: Mapping[str, str] = {},
) -> FreshSandboxes[ScratchSandbox]:
    """Sandboxes for programs: see `ScratchSandbox` and `FreshSandboxes`.

    Args:
        mounts: gives, for each, what it can read of the host: path inside -> folder.
        links: see `libs.exec_tool.layout.furnish`.
    """
    make = partial(
        ScratchSandbox,
        home or Path.cwd(),
        disk=disk,
        image=image,
        name=name,
        limits=replace(limits, output_chars=OUTPUT_CHARS),
        environment=environment,
        idle_seconds=idle_seconds,
        runtime=runtime,
        egress=egress,
        redact=redact,
        check_image=check_image,
    )
    return FreshSandboxes(
        lambda: make(read_only=mounts()), warm=warm, most=most, first=lambda sandbox: furnish(sandbox, links)
    )


@contextmanager
def code_runner(
    image: str = "code-execution-agent", *, seconds: float = 30.0
) -> Iterator[Callable[..., ExecResult]]:
    """A function that runs programs, and a spare sandbox for as long as the block lasts.

    It takes what `CodeRunner.run` takes. Needs Docker and the image; has no network and no packages besides
    those of the image.
    """
    runner = CodeRunner(fresh_sandboxes(image=image), seconds=seconds)
    try:
        yield runner.run
    finally:
        runner.close()
