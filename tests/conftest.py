"""Sandboxes for the tests: the real container, and the same engine as a plain process."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import load_settings
from agent.engine_setup import build_image, ensure_engine
from libs.backends.docker import DockerExecutionBackend

ROOT = Path(__file__).parents[1]
IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell starts what it runs in the background. Every program that a test starts would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect garbage after each module, so that a file or socket left open is blamed on whoever left it."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def backend(workspace: Path) -> Iterator[DockerExecutionBackend]:
    """A container on an empty workspace, with the project's skills; shared by the tests of a module."""
    with DockerExecutionBackend(workspace, skills_dir=ROOT / "skills", image=IMAGE, name="test") as backend:
        yield backend


@pytest.fixture(scope="session")
def browser_image() -> str:
    """The variant of the image with a browser: built where it is not current, which takes minutes."""
    settings = load_settings(None, sandbox_browser=True)
    ensure_engine(print)
    return build_image(settings.image, print, browser=True).name
