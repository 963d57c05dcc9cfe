"""What CONTRIBUTING.md asks for, where a machine can tell."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

TOP_LEVEL = {
    *(".ci", ".env.example", ".gitignore", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
    *("agent", "docs", "langgraph.json", "libs", "pyproject.toml", "requirements.lock", "skills", "tests"),
    "workspace",
}

# Who reads the environment, and why it is not a setting.
READS_ENVIRONMENT = {
    "agent/config.py": "the one place for settings",
    "agent/http_app.py": "LANGGRAPH_API_URL is how `langgraph dev` tells what it starts where it listens",
    "libs/sandbox/engine.py": "DOCKER_CONTEXT belongs to Docker",
    "libs/sandbox/interpreter.py": "runs in the container, and passes its own on",
    "libs/sandbox/shells.py": "runs in the container, and passes its own on",
    "libs/sandbox/boot.py": "runs in the container, whose environment it is given",
    "libs/backends/docker/backend.py": "passes on what SANDBOX_ENV_ALLOW names",
}


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _sources(*folders: str) -> dict[str, str]:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def test_top_level_is_fixed() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in _tracked()} <= TOP_LEVEL


def test_each_file_of_tests_has_a_name_of_its_own() -> None:
    """pytest imports a file by its bare name: the second of the same name ends the whole run."""
    names = Counter(Path(path).name for path in _sources("tests") if Path(path).name.startswith("test_"))
    assert [name for name, files in names.items() if files > 1] == []


def test_every_module_has_its_place_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    modules = {Path(path).name for path in _sources("agent", "libs")} - {"__init__.py"}
    assert [name for name in sorted(modules) if not re.search(rf"\b{re.escape(name)}\b", page)] == []


def test_environment_is_read_where_it_is_said_to_be() -> None:
    readers = {
        path for path, text in _sources("agent", "libs").items() if re.search(r"os\.(environ|getenv)", text)
    }
    assert readers <= READS_ENVIRONMENT.keys()
    assert "agent/config.py" in readers


def test_code_blocks_know_no_tools() -> None:
    words = re.compile(r"bind_tools|\btools\s*=|tool_calls|function_call")
    assert [path for path, text in _sources("libs/code_blocks").items() if words.search(text)] == []


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "common", "misc", "manager"}
    assert [path for path in _sources("agent", "libs") if Path(path).stem in drawers] == []


@pytest.mark.parametrize(
    "host", ["pypi org", "pythonhosted org", "npmjs org", "deb debian org", "security debian org"]
)
def test_no_file_names_a_package_registry(host: str) -> None:
    name = host.replace(" ", ".").encode()
    assert [path for path in _tracked() if name in path.read_bytes()] == []


def test_lock_file_names_no_place() -> None:
    assert (
        re.findall(r"^(?!#).*(?:://|--index|--find-links).*", (ROOT / "requirements.lock").read_text(), re.M)
        == []
    )


def test_lock_file_has_every_direct_dependency_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lock = (ROOT / "requirements.lock").read_text()
    pins = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", lock, re.M)
    }
    assert len(pins) > len(direct)
    wanted = [Requirement(line) for line in direct]
    assert [
        str(r) for r in wanted if not r.specifier.contains(pins.get(canonicalize_name(r.name), "0"), True)
    ] == []


def test_every_pin_has_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    pinned = [entry for entry in entries if re.match(r"[\w.-]+(?:\[[\w,-]+\])?==", entry)]
    assert len(pinned) > 50
    assert [entry.splitlines()[0] for entry in pinned if "--hash=sha256:" not in entry] == []


def test_sandbox_packages_are_the_same_in_both_bases() -> None:
    """Programs the Dockerfile asks apt for are part of the base that is made without a registry."""
    from libs.backends.docker.base import _PACKAGES

    dockerfile = (ROOT / "libs/backends/docker/Dockerfile").read_text()
    asked = re.search(r"--no-install-recommends \\\n\s*(.*?) > /dev/null", dockerfile)
    assert asked is not None
    assert set(asked[1].split()) <= set(_PACKAGES.split())
