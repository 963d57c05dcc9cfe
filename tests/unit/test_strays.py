"""A container is a stray where its owner is certainly gone, and never where that cannot be known (S9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from libs.sandbox.strays import OWNER_LABEL, is_stray, name_of, owner_label, remove_strays

ROOT = Path(__file__).parents[2]


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(owner_label()), **fields})


def test_what_this_process_owns_is_no_stray() -> None:
    assert not is_stray(owner_label())
    assert json.loads(owner_label())["pid"] == os.getpid()


def test_another_live_process_keeps_its_own_and_a_dead_one_does_not() -> None:
    script = (
        "import sys; from libs.sandbox.strays import owner_label; print(owner_label(), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        label = other.stdout.readline()
        assert not is_stray(label)
        other.communicate("\n")
    assert is_stray(label)


def test_a_killed_owner_nobody_waited_for_is_gone_too() -> None:
    """It stays a zombie as long as its parent does not ask."""
    script = "from libs.sandbox.strays import owner_label; print(owner_label(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        label = other.stdout.readline()
        other.kill()
        deadline = time.monotonic() + 10  # its end is seen a moment after it was asked for
        while not is_stray(label):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_same_id_in_another_life_is_another_process() -> None:
    assert is_stray(changed(ticks=1))
    assert is_stray(changed(ticks=None, start=1.0))  # where ticks are not told


def test_a_clock_that_is_put_right_makes_nobody_a_stray() -> None:
    """The time of day at which a process began is another then, for whoever asks later."""
    assert not is_stray(changed(start=json.loads(owner_label())["start"] - 3_600))


@pytest.mark.parametrize("field", ["boot", "namespace"])
def test_what_cannot_be_looked_up_from_here_is_left_alone(field: str) -> None:
    assert not is_stray(changed(**{field: "elsewhere", "pid": 2**22 + 1}))


@pytest.mark.parametrize(
    "label",
    [
        "",
        "x",
        "null",
        "[]",
        "7",
        '"text"',
        "{}",
        '{"pid": 1}',
        '{"pid": "one", "start": 0}',
        "{" * 100_000,
        changed(pid=-1),
        changed(pid="-1"),
        changed(pid=None),
        changed(pid=[]),
        changed(pid=float("inf")),
        changed(pid=float("nan")),
        changed(start="soon"),
        changed(start=None),
        changed(start=10**400),
    ],
    ids=lambda label: label[:30],
)
def test_a_malformed_label_is_left_alone(label: str) -> None:
    assert not is_stray(label)


def test_an_id_that_no_process_can_have_is_decided() -> None:
    assert is_stray(changed(pid=10**30)) in (True, False)


@given(
    st.dictionaries(
        st.sampled_from(["pid", "start", "ticks", "boot", "namespace"]),
        st.one_of(
            st.none(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
        ),
    )
)
def test_any_label_is_decided(fields: dict[str, Any]) -> None:
    assert is_stray(changed(**fields)) in (True, False)
    assert is_stray(json.dumps(fields)) is False


class Listing:
    """The part of a Docker client that a sweep uses; an id `refused` is not removed."""

    def __init__(self, *listed: tuple[str, list[str]]) -> None:
        script = "from libs.sandbox.strays import owner_label; print(owner_label())"
        dead = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
        labels = {OWNER_LABEL: dead.stdout.strip()}
        self.api = self
        self._listed = [{"Id": number, "Names": names, "Labels": labels} for number, names in listed]
        self.removed: list[str] = []

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return self._listed

    def remove_container(self, number: str, **_: Any) -> None:
        if number == "refused":
            response = requests.Response()
            response.status_code = 500
            raise APIError("no", response)
        self.removed.append(number)


def test_one_that_lost_its_name_or_is_not_removed_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The Engine lists a container without a name while it is being removed."""
    client: Any = Listing(("nameless-0123456789", []), ("refused", ["/one"]), ("2", ["/two"]))
    assert remove_strays(client) == ["nameless-012", "two"]
    assert client.removed == ["nameless-0123456789", "2"]
    assert "one is not removed" in caplog.text


def test_what_has_lost_its_name_has_its_id() -> None:
    assert name_of({"Id": "0123456789abcdef", "Names": None}) == "0123456789ab"
    assert name_of({"Id": "0123456789abcdef", "Names": ["/two"]}) == "two"
