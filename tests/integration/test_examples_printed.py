"""The worked examples: in each, the listing and the output are what the sandbox prints today.

After a change of the listing, the skill `tables` or an example, write them anew and read the difference:

    pytest tests/integration/test_examples_printed.py --snapshot-update
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.listing import data_listing
from agent.worked_examples import EXAMPLES, WorkedExample
from libs.backends.docker import DockerExecutionBackend
from tests.eval.data import pdf

pytestmark = pytest.mark.docker

FORGET = """\
for _name in [name for name in globals() if not name.startswith("_")]:
    del globals()[_name]
"""

KINDS = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def computer(workspace: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(workspace, skills_dir=EXAMPLES.parents[1] / "skills") as backend:
        backend.sandbox.run("true")
        yield backend


class Block(yaml.SafeDumper):
    """Texts of several lines as blocks, as they are written by hand."""


Block.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_shows_what_the_sandbox_prints(
    kind: str, workspace: Path, computer: DockerExecutionBackend, request: pytest.FixtureRequest
) -> None:
    path = EXAMPLES / f"{kind}.yaml"
    written: list[dict[str, Any]] = yaml.safe_load(path.read_text())
    played = [{**each, **play(WorkedExample.model_validate(each), workspace, computer)} for each in written]
    order = ["name", "about", "files", "task", "listing", "plan", "code", "output", "answer"]
    played = [{key: each[key] for key in order if each.get(key)} for each in played]
    if request.config.option.update_snapshots:
        dumped = (yaml.dump([each], Dumper=Block, sort_keys=False, width=110) for each in played)
        path.write_text("\n".join(dumped))
        written = played
    for one, other in zip(written, played, strict=True):
        assert one == other, one["name"]


def play(example: WorkedExample, workspace: Path, computer: DockerExecutionBackend) -> dict[str, str]:
    """What the sandbox prints of the example's files, and for its code."""
    for folder in ("data", "results"):
        for old in (workspace / folder).iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, content in example.files.items():
        file = workspace / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            content.encode() if isinstance(content, str) else pdf([page.split("|") for page in content])
        )
    listing = asyncio.run(data_listing(computer.sandbox, how=True)) if example.files else ""
    # One interpreter, emptied before each: what an example imports is paid for once.
    for code in (FORGET, example.code):
        done = computer.sandbox.run_python(code, session="examples")
    assert done.exit_code == 0, f"{example.name}: {done.output}"
    lines = [line.rstrip() for line in done.output.rstrip().split("\n")]
    return {"listing": listing, "output": "\n".join(lines)}


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_copies_what_was_printed(kind: str) -> None:
    """Written otherwise, as 1,295.75 for 1295.75, a small model learns to write figures anew, and wrongly."""
    for each in yaml.safe_load((EXAMPLES / f"{kind}.yaml").read_text()):
        example = WorkedExample.model_validate(each)
        known = f"{example.task} {example.output}"
        for figure in re.findall(r"\d[\d.,:-]*(?<![.,:])", example.answer):
            zeros = "0*" if "." in figure else r"(?:\.0+)?"
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}{zeros}(?!\d)", known), (example.name, figure)
