"""A container with a browser and a web site inside, for the tests of a module."""

# ruff: noqa: E501 - long programs

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_sandbox import Fails, Output, Run, serve

from libs.backends.docker import DockerExecutionBackend

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sandbox(browser_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        tmp_path_factory.mktemp("workspace"), skills_dir=ROOT / "skills", image=browser_image, name="browser"
    ) as sandbox:
        serve(sandbox, "8000")
        yield sandbox


@pytest.fixture
def run(sandbox: DockerExecutionBackend) -> Run:
    """Run a program with `browser` in a process of its own; `show` prints a value as JSON."""

    def run(program: str, before: str = "") -> Output:
        whole = f"import json\nfrom skills import browser\nshow = lambda value: print(json.dumps(value))\n{program}"
        done = sandbox.execute(f"cd /tmp; {before} python -c {shlex.quote(whole)}")
        assert done.exit_code == 0, done.output
        return Output(done.output)

    return run


@pytest.fixture
def fails(sandbox: DockerExecutionBackend) -> Fails:
    """Run a program that ends in an error, and return the message."""

    def fails(program: str, before: str = "") -> str:
        whole = f"from skills import browser\n{program}"
        done = sandbox.execute(f"cd /tmp; {before} python -c {shlex.quote(whole)}")
        assert done.exit_code == 1, done.output
        last = done.output.splitlines()[-1]
        assert re.match(r"(skills\.browser\.BrowserError|ValueError): ", last), done.output
        return last.partition(": ")[2]

    return fails
