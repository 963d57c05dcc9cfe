"""A chat in the page: messages, commands with live output, blocks, plans, subagents, programs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approvals, approve, cards, command, open_chat, run_ends, say
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: count slowly
  replies:
  - text: I shall count.
    tool_calls:
    - name: execute
      args:
        command: "echo line 1; until [ -e /workspace/count-seen ]; do sleep 0.1; done; \
          for i in 2 3 4; do echo line $i; done; sleep 2; exit 3"
  - text: "It ended with **3**.\n\n| step | took |\n|---|--:|\n| one | 0.5 |\n\n```python\n'counted'\n```"
- when: an absent path
  replies:
  - text: There is no such file.
- when: two blocks
  replies:
  - text: "I look.\n```bash\necho from bash\n```\n```python\nprint(6 * 7)\n```"
  - text: The answer is 42.
  - text: Nothing has to run for that.
- when: make a plan
  replies:
  - tool_calls:
    - name: write_todos
      args: {todos: [{content: Look, status: completed}, {content: Draw the plot, status: in_progress}]}
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


@pytest.mark.thorough
def test_absent_file_of_the_message_is_named(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "an absent path: save /data/people.csv as /results/people.csv")
    expect(page.get_by_text("There is no such file.")).to_be_visible()
    expect(page.get_by_text("was not there")).to_have_text(
        "/data/people.csv was not there when the run began."
    )


def test_command_is_approved_and_shows_its_output_live(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "count slowly")
    expect(page.get_by_text("I shall count.")).to_be_visible()
    expect(cards(page)).to_contain_text("for i in 2 3 4; do echo line $i; done; sleep 2; exit 3")
    assert cards(page).locator(".hljs-built_in, .hljs-keyword").count() > 0  # syntax highlighting
    approve(page)

    running = command(page)
    expect(running.locator(".lines")).to_contain_text("line 1")
    expect(running.locator(".card-facts")).to_contain_text("running")
    assert "line 4" not in running.locator(".lines").inner_text()
    (page_server.workspace / "count-seen").touch()
    expect(running.locator(".pill")).to_have_text("exit 3")
    assert running.locator(".lines").inner_text().split("\n") == ["line 1", "line 2", "line 3", "line 4"]
    assert re.fullmatch(r"(?:[2-9]\.\d|\d\d) s", running.locator(".seconds").inner_text())
    expect(approvals(page)).to_have_count(0)

    expect(page.locator(".markdown strong", has_text="3")).to_be_visible()
    expect(page.get_by_role("cell", name="0.5")).to_be_visible()
    expect(page.locator(".markdown .hljs-string", has_text="counted")).to_be_visible()

    page.reload()  # the exit code and the time are kept
    expect(command(page).locator(".pill")).to_have_text("exit 3")
    expect(command(page).locator(".seconds")).to_have_text(re.compile(r"^(?:[2-9]\.\d|\d\d) s$"))


@pytest.mark.thorough
def test_code_agent_shows_the_output_of_each_block(page: Page) -> None:
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("code_agent")
    say(page, "two blocks")
    expect(cards(page)).to_have_count(2)
    expect(cards(page).first).to_contain_text("echo from bash")
    expect(cards(page).last).to_contain_text("print(6 * 7)")
    page.get_by_role("button", name="Approve all 2").click()
    expect(page.get_by_text("The answer is 42.")).to_be_visible()
    for number, (title, output) in enumerate([("Bash", "from bash"), ("Python", "42")]):
        expect(command(page, number).locator("summary")).to_contain_text(title)
        expect(command(page, number).locator(".lines")).to_have_text(output)
        expect(command(page, number).locator(".pill")).to_have_text("exit 0")

    page.reload()  # the output of blocks is a human message, but is not shown as one
    expect(page.get_by_text("The answer is 42.")).to_be_visible()
    expect(page.locator(".person p")).to_have_text(["two blocks"])
    expect(command(page, 1).locator(".lines")).to_have_text("42")
    say(page, "plain talk")
    expect(page.get_by_text("Nothing has to run for that.")).to_be_visible()
    expect(cards(page)).to_have_count(0)  # an answered question does not return
    expect(command(page, 1).locator(".lines")).to_have_text("42")


def test_plan_shows_its_progress(page: Page) -> None:
    open_chat(page)
    say(page, "make a plan")
    plan = page.locator(".plan")
    expect(page.get_by_text("Half of it is done.")).to_be_visible()
    expect(plan.locator("summary")).to_contain_text("Plan: 1 of 2 done")
    expect(plan.locator("summary")).to_contain_text("Draw the plot")
    plan.locator("summary").click()
    expect(plan.get_by_role("listitem")).to_have_text(["done: Look", "at work on it: Draw the plot"])
    page.reload()
    expect(plan.locator("summary")).to_contain_text("Plan: 1 of 2 done")


@pytest.mark.thorough
def test_subagents_wait_and_run_at_the_same_time(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "two subagents")
    left, right = page.locator(".subagent").first, page.locator(".subagent").last
    expect(cards(page)).to_have_count(2)
    expect(left).to_contain_text("waits for you")
    cards(page).filter(has_text="echo left").get_by_role("button", name="Approve").first.click()
    expect(left.locator(".lines")).to_contain_text("left")
    waiting = cards(page).filter(has_text="echo right")
    waiting.get_by_role("button", name="Reject").click()
    page.get_by_label("Why not?").fill("one side is enough")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Both are back.")).to_be_visible()
    expect(left).to_contain_text("Left is done.")
    expect(right).to_contain_text("Right was refused.")
    assert (page_server.workspace / "left.txt").read_text() == "left\n"
    assert not (page_server.workspace / "right.txt").exists()

    run_ends(page)
    page.reload()  # the steps of a subagent are loaded again
    expect(page.get_by_text("Both are back.")).to_be_visible()
    left.locator("summary").first.click()
    expect(left.locator("details.run .pill")).to_have_text("exit 0")
    right.locator("summary").first.click()
    expect(right.locator("details.run")).to_contain_text("one side is enough")


@pytest.mark.thorough
def test_program_of_the_one_tool_agent(page: Page) -> None:
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("exec_agent")
    say(page, "one program")
    expect(cards(page).get_by_role("heading")).to_have_text("Run this Python code?")
    approve(page)
    expect(page.get_by_role("group", name="json code")).to_contain_text('"sum": 42')
    expect(command(page).locator("summary")).to_contain_text("Program")
    expect(command(page).locator(".pill")).to_have_text("exit 0")
    expect(command(page).locator(".lines")).to_have_text('at work\n{"sum": 42}')
