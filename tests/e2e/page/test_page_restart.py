"""Commands that were stopped or that ran when the server ended, and output that did not arrive."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, command, open_chat, say
from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

# Its own server, which the tests restart.
SETTINGS: dict[str, str] = {}
SCRIPT = r"""
conversations:
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


def begin(page: Page, text: str) -> None:
    """Start the long command of a conversation."""
    open_chat(page)
    say(page, text)
    approve(page)
    expect(command(page).locator(".lines")).to_contain_text("begun")


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
