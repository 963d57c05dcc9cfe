"""Chats in the page: found again, gone on with after a reload and after a restart of the server (V2, V4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.page.talk import approvals, approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: apples
  replies:
  - text: About apples.
  - text: More about apples.
- when: pears
  replies:
  - text: About pears.
- when: a long one
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo begun >> /workspace/long.txt; echo begun; sleep 6; echo ended"}}
  - text: The long one is done.
- when: stop this
  replies:
  - tool_calls:
    - name: execute
      args: {command: "echo started; while sleep 0.2; do echo on >> /workspace/on.txt; done"}
  - text: Not to be said.
- when: restart me
  replies:
  - text: I wait.
    tool_calls: [{name: execute, args: {command: "echo once >> /workspace/restarted.txt"}}]
  - text: That was after the restart.
- when: it breaks
  replies:
  - text: So far so good.
"""


def test_chats_are_listed_searched_opened_and_deleted(page: Page, picture: Callable[..., Path]) -> None:
    open_chat(page)
    for fruit in ("apples", "pears"):
        say(page, f"Tell me about {fruit}")
        expect(page.get_by_text(f"About {fruit}.")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Tell me about {fruit}")
        page.get_by_role("button", name="New chat", exact=True).click()
        expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()
    chats = page.get_by_role("navigation", name="Chats").locator("li")
    expect(chats).to_have_count(2)
    page.get_by_label("Search chats").fill("APPLE tell")
    expect(chats).to_have_count(1)
    picture(page)
    chats.get_by_role("button", name="Tell me about apples", exact=True).click()
    expect(page.get_by_text("About apples.")).to_be_visible()
    assert re.search(r"/app/t/[0-9a-f-]{36}$", page.url)
    say(page, "go on")
    expect(page.get_by_text("More about apples.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()
    page.go_forward()
    expect(page.get_by_text("More about apples.")).to_be_visible()

    page.get_by_label("Search chats").fill("nothing of the kind")
    expect(page.get_by_text("No chat has these words.")).to_be_visible()
    page.get_by_label("Search chats").fill("")
    page.on("dialog", lambda dialog: dialog.accept())
    chats.first.hover()
    page.get_by_role("button", name="Delete the chat Tell me about apples").click()
    expect(chats).to_have_count(1)
    expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()


def test_agent_and_model_are_shown_and_the_agent_is_chosen(page: Page) -> None:
    open_chat(page)
    expect(page.locator(".model")).to_have_text("Model: scripted:script.yaml")
    chosen = page.get_by_role("combobox", name="Agent")
    assert [each.strip() for each in chosen.locator("option").all_inner_texts()][:2] == [
        "deep agent",
        "code agent",
    ]
    expect(chosen).to_have_value("deep_agent")
    chosen.select_option("code_agent")
    say(page, "Tell me about apples")
    expect(page.get_by_text("About apples.").first).to_be_visible()
    expect(page.locator(".about .agent")).to_have_text("code agent")
    page.reload()
    expect(page.locator(".about .agent")).to_have_text("code agent")


def test_a_reload_while_a_command_runs(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "a long one")
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("begun")
    page.reload()
    expect(command(page).locator(".lines")).to_have_text("begun")  # what it had printed is there again
    expect(command(page).locator(".pill")).to_have_text("running")
    expect(page.get_by_text("The agent is at work")).to_be_visible()
    expect(page.get_by_text("The long one is done.")).to_be_visible(timeout=15_000)
    expect(command(page).locator(".lines")).to_have_text("begun\nended")
    expect(command(page)).to_have_count(1)
    expect(page.get_by_text("The agent is at work")).to_have_count(0)
    assert (page_server.workspace / "long.txt").read_text() == "begun\n"


def test_a_run_is_stopped(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "stop this")
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("started")
    beats = page_server.workspace / "on.txt"
    for _ in range(100):
        if beats.exists():
            break
        page.wait_for_timeout(100)
    page.get_by_role("button", name="Stop the agent").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(command(page).locator(".pill")).to_have_text("stopped")
    expect(page.get_by_label("Message to the agent")).to_have_attribute(
        "placeholder", "Give the agent a task"
    )
    runs = httpx.get(f"{page_server.url}/threads/{page.url.rsplit('/', 1)[1]}/runs").json()
    assert not {run["status"] for run in runs} & {"running", "pending"}
    written = beats.stat().st_size
    page.wait_for_timeout(1_000)
    assert 0 < written == beats.stat().st_size  # the command itself has ended, too
    page.reload()
    expect(page.get_by_placeholder("Give the agent a task")).to_be_visible()
    page.wait_for_timeout(1_000)
    expect(command(page).locator(".pill")).to_have_text("stopped")


def test_a_reload_and_a_restart_while_a_question_waits(
    page: Page, page_server: Served, picture: Callable[..., Path]
) -> None:
    open_chat(page)
    say(page, "restart me")
    expect(cards(page)).to_contain_text("echo once")
    page.reload()
    expect(cards(page)).to_contain_text("echo once")
    page.wait_for_timeout(600)

    page_server.kill()
    expect(page.locator(".banner")).to_contain_text("The server does not answer", timeout=15_000)
    picture(page)
    page_server.start()
    expect(page.locator(".banner")).to_have_count(0, timeout=20_000)
    expect(page.get_by_text("I wait.")).to_be_visible()
    expect(cards(page)).to_have_count(1)
    expect(cards(page)).to_contain_text("echo once")
    approve(page)
    expect(page.get_by_text("That was after the restart.")).to_be_visible(timeout=15_000)
    expect(command(page).locator(".pill")).to_have_text("exit 0")
    expect(approvals(page)).to_have_count(0)
    assert (page_server.workspace / "restarted.txt").read_text() == "once\n"


def test_an_error_says_what_happened_and_the_chat_goes_on(page: Page, picture: Callable[..., Path]) -> None:
    open_chat(page)
    say(page, "it breaks")
    expect(page.get_by_text("So far so good.")).to_be_visible()
    say(page, "and now?")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The agent could not go on.")
    expect(alert).to_contain_text("script.yaml")  # what the script model says when it has no more to say
    picture(page)
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_contain_text("script.yaml")
    page.reload()
    expect(alert).to_contain_text("script.yaml")
    page.goto("/app/t/00000000-0000-4000-8000-000000000000")
    expect(page.get_by_role("alert")).to_contain_text("not on the server")
    page.goto("/app/t/00000000-0000-0000-0000-00000000000-")
    expect(page.get_by_role("alert")).to_contain_text("not on the server")


def test_a_chat_that_cannot_be_opened_at_once_is_opened_later(page: Page) -> None:
    open_chat(page)
    say(page, "Tell me about pears")
    expect(page.get_by_text("About pears.")).to_be_visible()
    thread = page.url.rsplit("/", 1)[1]
    page.route(
        f"**/threads/{thread}", lambda route: route.fulfill(status=503, json={"error": "Too much to do."})
    )
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("could not be opened. Too much to do.")
    page.unroute(f"**/threads/{thread}")
    expect(page.get_by_text("About pears.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_deep_agent_is_not_offered_with_a_model_that_calls_no_tools(page: Page) -> None:
    def without_tools(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(json=told | {"calls_tools": False, "default_agent": "code_agent"})

    page.route("**/page/config", without_tools)
    open_chat(page)
    deep = page.get_by_role("combobox", name="Agent").locator("option[value=deep_agent]")
    expect(deep).to_be_disabled()
    expect(deep).to_contain_text("this model calls no tools")
    expect(page.get_by_role("combobox", name="Agent")).to_have_value("code_agent")


def test_without_a_clipboard_no_button_pretends_to_copy(page: Page) -> None:
    page.add_init_script("delete Navigator.prototype.clipboard")
    open_chat(page)
    say(page, "restart me")
    expect(cards(page)).to_contain_text("echo once")
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)


def test_grants_that_cannot_be_read_are_not_shown_as_none(page: Page) -> None:
    page.route("**/grants", lambda route: route.fulfill(status=503, json={"error": "Not now."}))
    open_chat(page)
    say(page, "Tell me about pears")
    expect(page.get_by_text("What is approved for this chat could not be read. Not now.")).to_be_visible()
