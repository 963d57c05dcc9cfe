"""A copy of a chat, where each thread has a workspace of its own."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import open_chat, say
from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SETTINGS = {"SANDBOX_SCOPE": "thread", "APPROVALS": "auto"}
SCRIPT = """
- tool_calls: [{name: execute, args: {command: "echo first > /results/a"}}]
- text: The first is done.
- tool_calls: [{name: execute, args: {command: "echo second > /results/a"}}]
- text: The second is done.
"""


def test_fork_opens_a_copy_from_before_the_message(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "one")
    expect(page.get_by_text("The first is done.")).to_be_visible()
    say(page, "two")
    expect(page.get_by_text("The second is done.")).to_be_visible()
    source = page.url
    page.get_by_role("button", name="Fork from here").last.click()
    expect(page.get_by_label("Message to the agent")).to_have_value("two")
    expect(page.locator(".person p")).to_have_text(["one"])
    assert page.url != source
    copy = page.url.rpartition("/")[2]
    file = page_server.workspace / "threads" / copy / "results/a"
    assert file.read_text() == "first\n"
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    say(page, "two again")
    expect(page.get_by_text("The second is done.")).to_be_visible()
    assert file.read_text() == "second\n"
    page.goto(source)
    expect(page.locator(".person p")).to_have_text(["one", "two"])
