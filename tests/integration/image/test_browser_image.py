"""The browser variant of the image: its additional programs, which the plain image does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.backends.docker.sandbox_image import ensure_image, image_state
from libs.sandbox.docker.engine import connect

ROOT = Path(__file__).parents[3]
IMAGE = "code-execution-agent"

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(1500),
]  # the first may have to build the image


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with closing(connect()) as client:
        yield client


@pytest.fixture(scope="module")
def sandbox(browser_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        tmp_path_factory.mktemp("workspace"), skills_dir=ROOT / "skills", image=browser_image, name="variant"
    ) as sandbox:
        yield sandbox


def run(sandbox: DockerExecutionBackend, command: str) -> str:
    done = sandbox.execute(command)
    assert done.exit_code == 0, done.output
    return done.output


def test_variant_is_built_once_and_labelled(client: docker.DockerClient, browser_image: str) -> None:
    said: list[str] = []
    again = ensure_image(client, browser_image, progress=said.append, browser=True)
    assert (again.built, said) == (False, [])
    assert image_state(client, browser_image) == "ready"
    assert client.images.get(browser_image).labels["code-agent.variant"] == "browser"
    assert (
        client.images.get(browser_image).labels["code-agent.content"]
        != (client.images.get(IMAGE).labels["code-agent.content"])
    )


def test_plain_image_has_no_browser(client: docker.DockerClient, backend: DockerExecutionBackend) -> None:
    done = backend.execute(
        "command -v node npm chromium chromium-headless-shell certutil; pip list | grep -i playwright"
    )
    assert done.output == ""
    assert "code-agent.variant" not in client.images.get(IMAGE).labels
    layers = client.images.get(IMAGE).history()
    [extras] = [layer["Size"] for layer in layers if "chromium" in layer["CreatedBy"]]
    assert extras == 0


def test_variant_is_otherwise_like_the_plain_image(sandbox: DockerExecutionBackend) -> None:
    assert run(sandbox, "whoami") == "agent\n"
    assert run(sandbox, "readlink /etc/passwd /data").split() == ["/run/passwd", "/workspace/data"]
    assert run(sandbox, "ls -A /var/lib/apt/lists") == ""
    assert run(sandbox, "find / -xdev -type f -perm /6000 2>/dev/null || true") == ""
    plot = "import seaborn, matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('/results/a.png')"
    assert run(sandbox, f'python -c "{plot}"') == ""
    assert run(sandbox, "pip check 2>&1 | grep -v 'No broken'; true") == ""


def test_node_and_npm_work_offline(sandbox: DockerExecutionBackend) -> None:
    versions = run(sandbox, "node --version; npm --version; npx --version").split()
    assert int(versions[0].lstrip("v").split(".")[0]) >= 20
    package = json.dumps({"name": "greet", "version": "1.0.0", "bin": {"greet": "greet.js"}})
    told = run(
        sandbox,
        "mkdir -p greet app && cd greet"
        f" && echo '{package}' > package.json"
        " && printf '%s\\n' '#!/usr/bin/env node' 'console.log(\"hello from\", process.version)' > greet.js"
        " && npm pack --silent && cd ../app && npm init -y > /dev/null"
        " && npm install --offline ../greet/greet-1.0.0.tgz && npx --offline greet",
    )
    assert "added 1 package" in told
    assert f"hello from {versions[0]}" in told
    assert run(sandbox, "npm config get audit fund update-notifier").split() == [
        *("audit=false", "fund=false", "update-notifier=false")
    ]
