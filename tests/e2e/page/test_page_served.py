"""The page by the real server: what it is told of the installation."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page

from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = "- text: Hello.\n"


def test_what_the_page_is_told(page_server: Served, page: Page) -> None:
    told = httpx.get(f"{page_server.url}/page/config").raise_for_status().json()
    assert {"deep_agent", "code_agent"} <= {each["id"] for each in told["agents"]}
    assert all(each["name"] and each["about"] for each in told["agents"])
    assert told["default_agent"] == "deep_agent"
    assert told["model"] == "scripted:script.yaml"
    assert (told["calls_tools"], told["approvals"], told["sandbox_scope"]) == (True, "ask", "shared")
    assert (told["owner"], told["upload_bytes"]) == (None, 16 << 20)
    got = page.goto("/page/config")
    assert got is not None
    assert got.json() == told
