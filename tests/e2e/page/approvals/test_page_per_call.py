"""With `INTERRUPT_MODE=per_call`, the page sends each decision at once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import cards, open_chat, say
from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SETTINGS = {"INTERRUPT_MODE": "per_call"}
SCRIPT = r"""
conversations:
- when: one by one
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo a > /workspace/single-a.txt"}}
    - {name: execute, args: {command: "echo b > /workspace/single-b.txt"}}
    - {name: execute, args: {command: "echo c > /workspace/single-c.txt"}}
  - tool_calls:
    - {name: execute, args: {command: "echo d > /workspace/single-d.txt"}}
    - {name: execute, args: {command: "echo e > /workspace/single-e.txt"}}
  - text: Four of five.
"""


def test_calls_are_decided_one_by_one_and_together(page: Page, page_server: Served) -> None:
    def written() -> list[str]:
        return sorted(path.name for path in page_server.workspace.glob("single-*.txt"))

    open_chat(page)
    say(page, "one by one")
    expect(cards(page)).to_have_count(3)
    cards(page).nth(1).get_by_role("button", name="Reject").click()
    with page.expect_response("**/commands"):  # a reload before the response would drop the answer
        page.get_by_role("button", name="Reject", exact=True).first.click()
    expect(cards(page)).to_have_count(2)
    page.reload()
    expect(cards(page)).to_have_count(2)
    expect(cards(page).nth(1)).to_contain_text("echo c")
    cards(page).nth(1).get_by_role("button", name="Approve").first.click()
    expect(cards(page)).to_have_count(1)
    assert written() == []
    cards(page).get_by_role("button", name="Approve").first.click()
    expect(cards(page).nth(1)).to_contain_text("echo e")
    assert written() == ["single-a.txt", "single-c.txt"]
    page.get_by_role("button", name="Approve all 2").click()
    expect(page.get_by_text("Four of five.")).to_be_visible()
    assert written() == [f"single-{name}.txt" for name in "acde"]
