"""A container is a stray only if its owner is certainly gone."""

from __future__ import annotations

import json
import os
from typing import Any

import psutil
import pytest
import requests
from docker.errors import APIError

from libs.sandbox.docker.strays import OWNER_LABEL, remove_strays
from libs.sandbox.process_owner import owner_gone, owner_label
from tests.support.programs import finished, python
from tests.support.waiting import eventually


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(owner_label()), **fields})


def test_own_label_is_not_a_stray() -> None:
    assert not owner_gone(owner_label())
    assert json.loads(owner_label())["pid"] == os.getpid()


@pytest.mark.parametrize("killed", [False, True])
def test_owner_is_gone_after_its_end_and_not_before(killed: bool) -> None:
    """A killed process is a zombie until its parent collects it, and counts as gone."""
    script = "from libs.sandbox.process_owner import owner_label; print(owner_label(), flush=True); input()"
    with python(script) as other:
        assert other.stdout is not None
        label = other.stdout.readline()
        assert not owner_gone(label)
        if killed:
            other.kill()
            eventually(lambda: owner_gone(label), 10)  # the end is visible a moment later
        else:
            other.communicate("\n")
            assert owner_gone(label)


def test_reused_process_id_is_another_owner() -> None:
    assert owner_gone(changed(began=1))


def test_changed_clock_makes_no_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed clock also changes the start time that the system reports."""
    label, start = owner_label(), psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: start - 3_600)
    assert not owner_gone(label)


@pytest.mark.parametrize("field", ["boot", "namespace"])
def test_owner_on_another_boot_or_namespace_is_not_a_stray(field: str) -> None:
    assert not owner_gone(changed(**{field: "elsewhere", "pid": 2**22 + 1}))


def test_malformed_label_is_not_a_stray() -> None:
    for label in (
        *("", "x", "null", "[]", "7", '"text"', "{}", '{"pid": 1}', "{" * 100_000),
        *(changed(pid=pid) for pid in (-1, "-1", None, [], float("inf"), float("nan"))),
        *(changed(began=began) for began in ("soon", None, 10**400)),
    ):
        assert not owner_gone(label), label[:30]
    assert owner_gone(changed(pid=10**30)) in (True, False)  # not a possible process id


class Listing:
    """The part of a Docker client that a sweep uses. The id `refused` is not removed."""

    def __init__(self, *listed: dict[str, Any]) -> None:
        gone = finished("from libs.sandbox.process_owner import owner_label; print(owner_label())")
        common = {"State": "running", "Labels": {OWNER_LABEL: gone.strip()}}
        self.api = self
        self._listed = [common | container for container in listed]
        self.removed: list[str] = []

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return self._listed

    def remove_container(self, number: str, **_: Any) -> None:
        if number == "refused":
            response = requests.Response()
            response.status_code = 500
            raise APIError("no", response)
        self.removed.append(number)


def test_nameless_or_refused_container_does_not_stop_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    """The Engine lists a container without a name while it is being removed."""
    client: Any = Listing(
        {"Id": "nameless-0123456789", "Names": []},
        {"Id": "refused", "Names": ["/one"]},
        {"Id": "2", "Names": ["/two"]},
    )
    assert remove_strays(client) == ["nameless-012", "two"]
    assert client.removed == ["nameless-0123456789", "2"]
    assert "one is not removed" in caplog.text


def test_dead_container_is_removed_although_its_owner_lives() -> None:
    """An Engine that is killed during a removal leaves the container in the state `dead`."""
    labels = {OWNER_LABEL: owner_label()}
    client: Any = Listing(
        {"Id": "1", "Names": ["/one"], "State": "dead", "Labels": labels},
        {"Id": "2", "Names": ["/two"], "State": "exited", "Labels": labels},
    )
    assert remove_strays(client) == ["one"]
    assert client.removed == ["1"]
