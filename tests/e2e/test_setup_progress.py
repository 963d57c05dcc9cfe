"""`code-agent setup`: a bar at a terminal, lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest
from cli_program import Program
from screen_terminal import ScreenTerminal

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

# Its layers are those of the image that is there: a build takes seconds.
IMAGE = "code-execution-agent-test-progress"


@pytest.fixture
def unbuilt(program: Program) -> Iterator[Program]:
    program.environment["SANDBOX_IMAGE"] = IMAGE
    client = docker.from_env()
    yield program
    if client.images.list(name=IMAGE):
        client.images.remove(IMAGE)
    client.close()


def test_a_line_for_each_step_in_a_pipe(unbuilt: Program) -> None:
    done = unbuilt.run("setup")
    assert done.returncode == 0, done.stderr
    assert "\n  Step 2/" in done.stdout
    assert "Step 1/" in done.stdout
    assert "\x1b" not in done.stdout
    assert f"Ready: Docker Engine answers, image {IMAGE} is built in" in done.stdout
    assert unbuilt.run("setup").stdout == f"Ready: Docker Engine answers, image {IMAGE} is current.\n"


def test_a_bar_at_a_terminal(unbuilt: Program) -> None:
    terminal = ScreenTerminal(unbuilt, ["setup"])
    terminal.wait_for("Ready: Docker Engine answers", seconds=300)
    assert terminal.end() == 0
    assert "Step 2/" in terminal.text
    assert "━" in terminal.text
    # The bar has gone, and so have the lines of the build.
    assert [line for line in terminal.shown.splitlines() if line][-1].startswith("Ready: ")
    assert "━" not in terminal.shown
    assert "Step" not in terminal.shown
