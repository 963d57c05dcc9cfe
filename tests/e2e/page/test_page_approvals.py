"""Saying yes or no in the page (H1-H6): each kind of call, each answer, by mouse and by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approvals, approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: refuse me
  replies:
  - tool_calls: [{name: execute, args: {command: "echo refused > /workspace/refused.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo second > /workspace/second.txt"}}]
  - text: I have understood.
- when: several at once
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo a > /workspace/a.txt"}}
    - {name: execute, args: {command: "echo b > /workspace/b.txt"}}
    - {name: execute, args: {command: "echo c > /workspace/c.txt"}}
  - text: Two of three.
- when: change a file
  replies:
  - tool_calls:
    - name: write_file
      args:
        file_path: /scripts/total.py
        content: "def total(rows):\n    result = 0\n    for row in rows:\n        result += row\n"
  - tool_calls:
    - name: edit_file
      args:
        file_path: /scripts/total.py
        old_string: "    result = 0\n    for row in rows:\n        result += row\n"
        new_string:
          "    result = 0.0\n    for row in rows:\n        if row is not None:\n            result += row\n"
        replace_all: true
  - tool_calls: [{name: delete, args: {file_path: /scripts/total.py}}]
  - text: Changed and gone.
- when: line ends
  replies:
  - tool_calls:
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "#", new_string: "#\n"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "one\n#\n", new_string: "one\n#"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "a\n", new_string: "a  \n"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "\ta", new_string: "        a"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "a\nb\n", new_string: "a\r\nb\n"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "#", new_string: ""}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "#\n", new_string: ""}}
- when: nothing hidden
  replies:
  - tool_calls: [{name: execute, args: {command: "echo safe \u202e txt.exe\u200b\n\necho end"}}]
  - text: Shown.
- when: again and again
  replies:
  - tool_calls: [{name: execute, args: {command: "echo again >> /workspace/again.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo again >> /workspace/again.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo other"}}]
  - tool_calls: [{name: execute, args: {command: "echo unseen"}}]
  - text: That was all.
  - tool_calls: [{name: execute, args: {command: "echo asked about again"}}]
  - text: Really all.
"""


def test_reject_with_a_reason(page: Page, page_server: Served, picture: Callable[..., Path]) -> None:
    open_chat(page)
    say(page, "refuse me")
    cards(page).get_by_role("button", name="Reject").click()
    reason = page.get_by_label("Why not?")
    expect(reason).to_be_focused()
    reason.fill("not there, please")
    picture(page)
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(command(page, 0).locator(".pill")).to_have_text("rejected")
    expect(command(page, 0)).to_contain_text("not there, please")
    expect(cards(page)).to_contain_text("echo second")

    page.wait_for_timeout(600)  # a key pressed as a card appears was meant for something else
    page.keyboard.press("r")
    expect(page.get_by_label("Why not?")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Why not?")).to_have_count(0)
    page.keyboard.press("r")
    page.keyboard.type("a reason with an a in it")
    page.keyboard.press("Enter")
    expect(page.get_by_text("I have understood.")).to_be_visible()
    assert not (page_server.workspace / "refused.txt").exists()
    assert not (page_server.workspace / "second.txt").exists()


def test_several_at_once_each_with_its_own_answer(
    page: Page, page_server: Served, picture: Callable[..., Path]
) -> None:
    open_chat(page)
    say(page, "several at once")
    expect(cards(page)).to_have_count(3)
    page.wait_for_timeout(600)
    page.keyboard.press("a")
    expect(cards(page).nth(0)).to_contain_text("Approved")
    expect(page.locator("[data-next]")).to_contain_text("echo b")
    page.keyboard.press("a")  # too soon: nobody has read the second
    expect(cards(page).nth(1).get_by_role("button", name="Reject")).to_be_visible()
    cards(page).nth(1).get_by_role("button", name="Reject").click()
    page.keyboard.press("Enter")
    expect(cards(page).nth(1)).to_contain_text("Rejected")
    picture(page)
    assert not (page_server.workspace / "a.txt").exists()  # nothing runs before all are decided
    cards(page).nth(2).get_by_role("button", name="Approve").first.click()
    expect(page.get_by_text("Two of three.")).to_be_visible()
    assert (page_server.workspace / "a.txt").exists()
    assert not (page_server.workspace / "b.txt").exists()
    assert (page_server.workspace / "c.txt").exists()


def test_an_edit_is_shown_as_a_diff_and_a_deletion_by_its_path(
    page: Page, page_server: Served, picture: Callable[..., Path]
) -> None:
    open_chat(page)
    say(page, "change a file")
    expect(cards(page).get_by_role("heading")).to_have_text("Change this file? /scripts/total.py")
    diff = page.locator(".diff")
    expect(diff.locator(".removed .text")).to_have_text(["    result = 0", "        result += row"])
    expect(diff.locator(".added .text")).to_have_text(
        ["    result = 0.0", "        if row is not None:", "            result += row"]
    )
    expect(diff.locator(".same .text")).to_have_text(["    for row in rows:"])
    expect(cards(page).locator(".arguments")).to_contain_text("replace_all")  # nothing is left out
    picture(page)
    approve(page)
    expect(cards(page).get_by_role("heading")).to_have_text("Delete this? /scripts/total.py")
    assert "is not None" in (page_server.workspace / "scripts" / "total.py").read_text()
    approve(page)
    expect(page.get_by_text("Changed and gone.")).to_be_visible()
    assert not (page_server.workspace / "scripts" / "total.py").exists()


def test_no_two_edits_look_the_same_and_none_looks_like_nothing(
    page: Page, picture: Callable[..., Path]
) -> None:
    open_chat(page)
    say(page, "line ends")
    expect(cards(page)).to_have_count(7)
    end = "↵ the line end after the last line"
    shown = [
        [
            (row.locator(".sign").text_content() or "") + (row.locator(".text").text_content() or "")
            for row in cards(page).nth(number).locator(".diff .row").all()
        ]
        for number in range(7)
    ]
    assert shown == [
        ["-#", "+#", f"+{end}"],
        [" one", "-#", "+#", f"-{end}"],
        ["-a", "+a··"],
        ["-→\ta", "+        a"],
        ["-a", "+a‹U+000D›", " b"],
        ["-#"],
        ["-#", f"-{end}"],
    ]
    expect(cards(page).nth(2).locator(".added mark")).to_have_text("··")
    blanks = cards(page).nth(3).locator(".added mark").bounding_box()
    assert blanks and blanks["width"] > 20
    picture(page)


def test_what_cannot_be_seen_is_written_out(page: Page, picture: Callable[..., Path]) -> None:
    open_chat(page)
    say(page, "nothing hidden")
    shown = cards(page).locator("code")
    expect(shown).to_have_text("echo safe ‹U+202E› txt.exe‹U+200B›\n\necho end")
    picture(page)
    approve(page)
    expect(page.get_by_text("Shown.", exact=True)).to_be_visible()
    assert "\u202e" not in page.content()


def test_approvals_for_the_chat_are_given_shown_and_taken_back(
    page: Page, page_server: Served, picture: Callable[..., Path]
) -> None:
    open_chat(page)
    say(page, "again and again")
    page.get_by_role("button", name="Approve for the rest of this chat").click()
    picture(page)
    page.get_by_role("menuitem", name="Approve this exact call").click()
    expect(cards(page)).to_contain_text("echo other")  # the second one ran unasked
    expect(command(page, 1)).to_contain_text("Approved earlier in this chat: exactly this")
    assert (page_server.workspace / "again.txt").read_text() == "again\nagain\n"
    page.get_by_role("button", name="Approve for the rest of this chat").press("Enter")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_text("That was all.")).to_be_visible()
    expect(command(page, 3).locator(".lines")).to_have_text("unseen")

    held = page.locator(".grants")
    held.locator("summary").click()
    expect(held).to_contain_text("2 things are approved for this chat")
    expect(held).to_contain_text("Every call of execute")
    picture(page, "grants")
    for left in (1, 0):
        held.get_by_role("button", name="Take back").first.click()
        expect(held.get_by_role("button", name="Take back")).to_have_count(left)
    say(page, "go on")
    expect(cards(page)).to_contain_text("echo asked about again")
    approve(page)
    expect(page.get_by_text("Really all.")).to_be_visible()
    expect(approvals(page)).to_have_count(0)
