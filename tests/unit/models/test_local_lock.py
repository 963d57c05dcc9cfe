"""The lock file of the extra `local`: hashes, no addresses, and the versions of the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "libs/models/requirements.lock").read_text()
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.M)


def test_every_pin_has_a_hash_and_no_address() -> None:
    entries = [entry for entry in re.split(r"\n(?=\S)", LOCK) if PIN.match(entry)]
    assert len(entries) >= 3
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"^(?!#).*(?:://|--index|--find-links).*", LOCK, re.M) == []


def test_the_extra_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = dict(PIN.findall(LOCK))
    wanted = [Requirement(line) for line in project["optional-dependencies"]["local"]]
    assert [str(each) for each in wanted if not each.specifier.contains(pins[each.name])] == []
