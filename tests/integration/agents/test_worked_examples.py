"""The worked examples show what the sandbox prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.listing import data_listing
from agent.prompts.worked_examples import worked_examples
from agent.settings import ROOT
from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker


@pytest.mark.thorough
async def test_each_example_prints_what_it_shows(tmp_path: Path) -> None:
    with DockerExecutionBackend(tmp_path, skills_dir=ROOT / "skills", image=IMAGE) as backend:
        for number, example in enumerate(worked_examples()):
            await backend.sandbox.arun("rm -rf /data/*")
            for name, content in example.files.items():
                await backend.sandbox.awrite_file(f"/data/{name}", content.encode())
            assert await data_listing(backend.sandbox) == example.listing, example.task
            result = await backend.sandbox.arun_python(example.code, session=str(number))
            assert (result.exit_code, result.output.rstrip("\n")) == (0, example.output), example.task
