"""A run that was stopped or whose server ended: the page says so, and the next message reaches the thread."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, command, open_chat, say
from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

# Its own server, which some tests restart.
SETTINGS: dict[str, str] = {}
SCRIPT = r"""
conversations:
- when: stop me with a queue
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
  - text: I heard the queue.
- when: stop me and continue
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
  - text: I go on.
- when: stop me from elsewhere
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
- when: delete me at work
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
- when: stop me and restart
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
- when: restart me at work
  replies:
  - tool_calls: [{name: execute, args: {command: "echo begun; sleep 300"}}]
  - text: That was after the restart.
- when: lose a line
  replies:
  - tool_calls: [{name: execute, args: {command: "for i in 1 2 3; do echo line $i; sleep 1; done; sleep 99"}}]
"""

LOSSY = """
const whole = window.fetch;
window.fetch = async (...asked) => {
  const answer = await whole(...asked);
  if (!String(asked[0].url ?? asked[0]).includes("/stream/events")) return answer;
  let begun = "";
  const dropped = new TransformStream({
    transform(text, out) {
      const events = (begun + text).split(/\\r?\\n\\r?\\n/);
      begun = events.pop();
      for (const event of events) if (!/"text":"line 2/.test(event)) out.enqueue(event + "\\n\\n");
    },
  });
  const body = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(dropped);
  return new Response(body.pipeThrough(new TextEncoderStream()), answer);
};
"""
"""Drops an event, as LangGraph's server does when a client joins a stream at the wrong moment."""


def said(page: Page, server: Served) -> list[str]:
    """The person's messages in the thread's state."""
    thread = page.url.rsplit("/", 1)[1]
    state = httpx.get(f"{server.url}/threads/{thread}/state").raise_for_status().json()
    return [each["content"] for each in state["values"]["messages"] if each["type"] == "human"]


def begin(page: Page, text: str) -> None:
    """Start the long command of a conversation."""
    open_chat(page)
    say(page, text)
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("begun")


def test_queued_message_reaches_the_thread_after_a_stop(page: Page, page_server: Served) -> None:
    begin(page, "stop me with a queue")
    say(page, "words while it ran")
    page.get_by_role("button", name="Stop the agent").click()
    expect(page.get_by_text("I heard the queue.")).to_be_visible()
    assert said(page, page_server) == ["stop me with a queue", "words while it ran"]


def test_run_that_another_program_stopped_ends_in_the_page(page: Page, page_server: Served) -> None:
    begin(page, "stop me from elsewhere")
    thread = page.url.rsplit("/", 1)[1]
    with page_server.client() as http:
        [active] = http.get(f"/threads/{thread}/runs?status=running").raise_for_status().json()
        http.post(f"/threads/{thread}/runs/{active['run_id']}/cancel").raise_for_status()
    expect(page.get_by_text("Stopped. Send a message to go on")).to_be_visible()


def test_stopped_command_is_shown_with_its_whole_explanation(page: Page) -> None:
    begin(page, "stop me and continue")
    page.get_by_role("button", name="Stop the agent").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("I go on.")).to_be_visible()
    expect(command(page).locator(".pill")).to_have_text("stopped")
    expect(command(page).locator(".lines")).to_have_text("begun")
    expect(command(page).locator(".note")).to_contain_text("This call was stopped while it ran")


def test_chat_deleted_during_a_command_stays_deleted(page: Page, page_server: Served) -> None:
    begin(page, "delete me at work")
    thread = page.url.rsplit("/", 1)[1]
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete the chat delete me at work").click()
    expect(page).to_have_url(f"{page_server.url}/app")
    page.wait_for_timeout(3_000)  # the page loads its list again
    page.reload()
    expect(page.get_by_role("button", name="New chat")).to_be_visible()
    expect(page.get_by_role("button", name="Delete the chat delete me at work")).to_have_count(0)
    assert httpx.get(f"{page_server.url}/threads/{thread}").status_code == 404
    page.goto(f"/app/t/{thread}")
    expect(page.get_by_role("alert")).to_contain_text("That chat is not on the server")


def test_stopped_chat_after_a_restart(page: Page, page_server: Served) -> None:
    begin(page, "stop me and restart")
    page.get_by_role("button", name="Stop the agent").click()
    expect(command(page).locator(".pill")).to_have_text("stopped")
    page_server.kill()
    page_server.start()
    page.reload()
    expect(command(page).locator(".pill")).to_have_text("stopped")
    expect(command(page)).to_contain_text("Its output was not kept.")
    page.goto("/app")
    chat = page.get_by_role("navigation", name="Chats").locator("li", has_text="stop me and restart")
    expect(chat).to_be_visible()
    expect(chat).not_to_contain_text("waits for you")


def test_command_that_ran_when_the_server_ended(page: Page, page_server: Served) -> None:
    begin(page, "restart me at work")
    page_server.kill()
    expect(page.locator(".banner")).to_contain_text("The server does not answer")
    seconds = command(page).locator(".seconds").text_content()
    page.wait_for_timeout(1_500)
    expect(command(page).locator(".seconds")).to_have_text(seconds or "")  # the counter stands still
    page_server.start()
    expect(page.get_by_text("That was after the restart.")).to_be_visible()
    expect(command(page).locator(".pill")).to_have_text("the server ended")
    expect(command(page)).to_contain_text("Its effect is unknown.")


def test_missing_output_is_marked(page: Page) -> None:
    page.add_init_script(LOSSY)
    open_chat(page)
    say(page, "lose a line")
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("line 1\n[output is missing here]\nline 3")
    page.get_by_role("button", name="Stop the agent").click()
    expect(command(page).locator(".pill")).to_have_text("stopped")
