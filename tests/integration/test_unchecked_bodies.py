"""Bodies that LangGraph's server would break on are refused, or made what they are meant to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from served import Served, served

pytestmark = pytest.mark.docker

SCRIPT = "- text: That is done.\n"
CRON = {"assistant_id": "deep_agent", "schedule": "* * * * *", "input": {"messages": []}, "enabled": False}
TICK_SECONDS = 5
"""How often the server looks for runs that are due."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("unchecked"), SCRIPT) as server:
        yield server


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        yield http


def test_a_cron_with_an_end_keeps_no_other_from_its_time(server: Served, http: httpx.Client) -> None:
    def made(**more: Any) -> str:
        answer = http.post("/runs/crons", json=CRON | {"enabled": True} | more).raise_for_status()
        return str(answer.json()["cron_id"])

    yearly = {"schedule": "0 0 1 1 *"}
    ends = ["2030-12-31T23:59:59Z", "2030-12-31T23:59:59", "2030-12-31"]
    crons = [made(end_time=end, **yearly) for end in ends] + [made(**yearly)]
    http.patch(f"/runs/crons/{crons[-1]}", json={"end_time": ends[0]}).raise_for_status()
    for end in ("soon", "", "2030-13-01"):
        refused = http.post("/runs/crons", json=CRON | {"end_time": end})
        assert (refused.status_code, "end_time" in refused.json()["error"]) == (422, True)
        assert http.patch(f"/runs/crons/{crons[0]}", json={"end_time": end}).status_code == 422
    time.sleep(TICK_SECONDS + 2)
    server.kill()
    server.start()
    time.sleep(TICK_SECONDS + 2)
    with httpx.Client(base_url=server.url) as again:
        assert {each["cron_id"] for each in again.post("/runs/crons/search", json={}).json()} == set(crons)
        for cron in crons:
            again.delete(f"/runs/crons/{cron}").raise_for_status()
    assert "Error in cron_scheduler" not in server.log()


def test_what_the_server_cannot_use_is_422(http: httpx.Client) -> None:
    thread = http.post("/threads", json={}).json()["thread_id"]
    asked = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": "Hello"}]}}
    assert http.post(f"/threads/{thread}/runs/wait", json=asked).is_success
    for path, body in [
        (f"/threads/{thread}/state", {"values": {"messages": 1}}),
        (f"/threads/{thread}/state", {"values": {"messages": [{"role": "tool", "content": "x"}]}}),
        (f"/threads/{thread}/history", {"before": {"checkpoint_id": "x"}}),
    ]:
        refused = http.post(path, json=body)
        assert (refused.status_code, "cannot use this" in refused.json()["error"]) == (422, True), path
    assert len(http.get(f"/threads/{thread}/state").json()["values"]["messages"]) == 2


def test_a_search_of_the_whole_store(http: httpx.Client) -> None:
    item = {"namespace": ["notes"], "key": "one", "value": {"text": "here"}}
    assert http.put("/store/items", json=item).is_success
    bodies: tuple[dict[str, Any], ...] = ({}, {"namespace_prefix": None}, {"namespace_prefix": []})
    for body in bodies:
        found = http.post("/store/items/search", json=body)
        assert [each["key"] for each in found.raise_for_status().json()["items"]] == ["one"]
