"""What agents do besides commands, in the page: a plan, subagents, a whole program (V4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: make a plan
  replies:
  - tool_calls:
    - name: write_todos
      args:
        todos:
        - {content: Look at the data, status: in_progress}
        - {content: Draw the plot, status: pending}
    - {name: execute, args: {command: "echo looked"}}
  - tool_calls:
    - name: write_todos
      args:
        todos:
        - {content: Look at the data, status: completed}
        - {content: Draw the plot, status: in_progress}
  - text: Half of it is done.
- when: two subagents
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: the left part}}
    - {name: task, args: {subagent_type: general-purpose, description: the right part}}
  - text: Both are back.
- when: left part
  replies:
  - text: I go left.
    tool_calls: [{name: execute, args: {command: "echo left; sleep 1; echo left > /workspace/left.txt"}}]
  - text: Left is done.
- when: right part
  replies:
  - tool_calls: [{name: execute, args: {command: "echo right > /workspace/right.txt"}}]
  - text: Right was refused.
- when: one program
  replies:
  - tool_calls:
    - name: execute_code
      args: {language: python, code: "import json\nprint('at work')\nprint(json.dumps({'sum': 6 * 7}))"}
"""


def test_the_plan_and_how_far_it_is(page: Page, picture: Callable[..., Path]) -> None:
    open_chat(page)
    say(page, "make a plan")
    plan = page.locator(".plan")
    expect(cards(page)).to_contain_text("echo looked")
    approve(page)
    expect(page.get_by_text("Half of it is done.")).to_be_visible()
    expect(plan.locator("summary")).to_contain_text("Plan: 1 of 2 done")
    expect(plan.locator("summary")).to_contain_text("Draw the plot")
    plan.locator("summary").click()
    expect(plan.get_by_role("listitem")).to_have_text(
        ["done: Look at the data", "at work on it: Draw the plot"]
    )
    picture(page)
    page.reload()
    expect(plan.locator("summary")).to_contain_text("Plan: 1 of 2 done")


def test_subagents_at_once(page: Page, page_server: Served, picture: Callable[..., Path]) -> None:
    open_chat(page)
    say(page, "two subagents")
    left, right = page.locator(".subagent").first, page.locator(".subagent").last
    expect(left).to_contain_text("the left part")
    expect(cards(page)).to_have_count(2)
    expect(left).to_contain_text("waits for you")
    picture(page)
    cards(page).filter(has_text="echo left").get_by_role("button", name="Approve").first.click()
    expect(left.locator(".lines")).to_contain_text("left")
    waiting = cards(page).filter(has_text="echo right")
    waiting.get_by_role("button", name="Reject").click()
    page.get_by_label("Why not?").fill("one side is enough")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Both are back.")).to_be_visible(timeout=15_000)
    expect(left).to_contain_text("Left is done.")
    expect(right).to_contain_text("Right was refused.")
    assert (page_server.workspace / "left.txt").read_text() == "left\n"
    assert not (page_server.workspace / "right.txt").exists()
    picture(page, "subagents done")

    page.reload()  # the steps of a subagent are found again
    expect(page.get_by_text("Both are back.")).to_be_visible()
    left.locator("summary").first.click()
    expect(left.locator("details.run .pill")).to_have_text("exit 0")
    right.locator("summary").first.click()
    expect(right.locator("details.run")).to_contain_text("one side is enough")


def test_a_whole_program_of_the_agent_with_one_tool(page: Page) -> None:
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("exec_agent")
    say(page, "one program")
    expect(cards(page).get_by_role("heading")).to_have_text("Run this Python code?")
    approve(page)
    expect(page.get_by_role("group", name="json code")).to_contain_text('"sum": 42', timeout=20_000)
    expect(command(page).locator("summary")).to_contain_text("Program")
    expect(command(page).locator(".pill")).to_have_text("exit 0")
    expect(command(page).locator(".lines")).to_have_text('at work\n{"sum": 42}')
