"""Messages and answers that come while a run is active, in two tabs, or over a slow or failing connection."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approvals, approve, cards, open_chat, say
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: the first task
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 2; echo one >> /workspace/queue.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo two >> /workspace/queue.txt"}}]
  - text: Both have run.
  - tool_calls: [{name: execute, args: {command: "echo three >> /workspace/queue.txt"}}]
  - text: The third has run.
  - text: Heard the last words.
- when: while I write
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 2; echo begun"}}]
  - tool_calls: [{name: execute, args: {command: "echo unseen >> /workspace/unseen.txt"}}]
- when: keep my words
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
- when: two tabs
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 3; echo once >> /workspace/tabs.txt"}}]
  - text: It ran once.
- when: a failed answer
  replies:
  - tool_calls: [{name: execute, args: {command: "echo kept >> /workspace/failed.txt"}}]
  - text: It was answered in the end.
"""

SLOW_STATE = """
const quick = window.fetch;
window.fetch = async (...asked) => {
  const address = String(asked[0].url ?? asked[0]);
  if (/\\/state/.test(address)) await new Promise((go) => setTimeout(go, 1500));
  return quick(...asked);
};
"""
"""Delays the thread's state, as a slow server does. The page then learns late that a question waits."""


@pytest.mark.thorough
@pytest.mark.parametrize("slow", [False, True])
def test_queued_message_is_sent_as_a_message_and_answers_no_question(
    page: Page, page_server: Served, slow: bool
) -> None:
    if slow:
        page.add_init_script(SLOW_STATE)
    (page_server.workspace / "queue.txt").unlink(missing_ok=True)
    open_chat(page)
    say(page, "the first task")
    approve(page)
    expect(page.get_by_text("The agent is at work")).to_be_visible()
    say(page, "words while it ran")
    expect(page.get_by_text("Will be sent when the run has ended")).to_be_visible()
    expect(cards(page)).to_contain_text("echo two")
    approve(page)
    expect(page.get_by_text("Both have run.")).to_be_visible()
    expect(page.locator(".person p")).to_have_text(["the first task", "words while it ran"])

    expect(cards(page)).to_contain_text("echo three")
    say(page, "words while it waited")
    page.wait_for_timeout(1_000)
    expect(page.locator(".person p")).to_have_count(2)
    approve(page)
    expect(page.get_by_text("The third has run.")).to_be_visible()
    expect(page.get_by_text("Heard the last words.")).to_be_visible()
    expect(page.get_by_label("Message to the agent")).to_have_value("")
    thread = page.url.rsplit("/", 1)[1]
    state = httpx.get(f"{page_server.url}/threads/{thread}/state").raise_for_status().json()
    said = [each["content"] for each in state["values"]["messages"] if each["type"] == "human"]
    assert said == ["the first task", "words while it ran", "words while it waited"]
    assert (page_server.workspace / "queue.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.thorough
def test_unsent_message_stays_in_its_chat(page: Page) -> None:
    open_chat(page)
    say(page, "keep my words")
    approve(page)
    expect(page.get_by_text("The agent is at work")).to_be_visible()
    field = page.get_by_label("Message to the agent")
    say(page, "words for later")
    page.get_by_role("button", name="Take back").click()
    expect(page.get_by_text("Will be sent when the run has ended")).to_have_count(0)
    field.fill("other words for later")
    field.press("Enter")
    expect(page.get_by_text("Will be sent when the run has ended")).to_be_visible()
    page.get_by_role("button", name="New chat", exact=True).first.click()
    expect(field).to_have_value("")
    field.fill("a new chat")
    page.get_by_role("button", name=re.compile("^keep my words")).click()
    expect(field).to_have_value("other words for later")
    page.reload()
    expect(field).to_have_value("other words for later")
    page.get_by_role("button", name="New chat", exact=True).first.click()
    expect(field).to_have_value("a new chat")


@pytest.mark.thorough
def test_question_answered_in_another_tab_disappears_with_a_notice(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "two tabs")
    expect(cards(page)).to_contain_text("echo once")
    other = page.context.new_page()
    other.goto(page.url)
    expect(cards(other)).to_contain_text("echo once")
    with other.expect_response("**/commands"):  # the answer has arrived, and its run goes on
        approve(other)
    approve(page)
    expect(other.get_by_text("It ran once.")).to_be_visible()
    expect(page.get_by_text("It ran once.")).to_be_visible()
    expect(page.get_by_text("A question was answered elsewhere")).to_be_visible()
    expect(approvals(page)).to_have_count(0)
    assert (page_server.workspace / "tabs.txt").read_text() == "once\n"


@pytest.mark.thorough
def test_failed_answer_is_shown_and_can_be_given_again(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "a failed answer")
    expect(cards(page)).to_contain_text("echo kept")
    page.route("**/commands", lambda route: route.fulfill(status=403, json={"error": "not for you"}))
    approve(page)
    expect(page.get_by_role("alert")).to_contain_text("Your answer was not taken.")
    expect(cards(page)).to_contain_text("echo kept")
    page.unroute("**/commands")
    approve(page)
    expect(page.get_by_text("It was answered in the end.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert (page_server.workspace / "failed.txt").read_text() == "kept\n"


@pytest.mark.thorough
def test_typing_a_message_approves_nothing(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "while I write")
    approve(page)
    field = page.get_by_label("Message to the agent")
    field.click()
    for _ in range(200):  # the field is empty now and then while the question arrives
        page.keyboard.type("x")
        page.keyboard.press("Backspace")
        if page.get_by_text("echo unseen").count():
            break
        page.wait_for_timeout(100)
    expect(cards(page)).to_contain_text("echo unseen")
    page.wait_for_timeout(700)
    page.keyboard.type("add a row")
    expect(field).to_have_value("add a row")
    page.get_by_role("button", name="Files").focus()
    page.keyboard.press("a")
    page.wait_for_timeout(700)
    expect(cards(page)).to_have_count(1)
    assert not (page_server.workspace / "unseen.txt").exists()
