"""Approvals in the page: each kind of call and each decision, by mouse and by key."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.servers.served import Served
from tests.support.waiting import eventually

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
    - {name: execute, args: {command: "echo a > /workspace/several-a.txt"}}
    - {name: execute, args: {command: "echo b > /workspace/several-b.txt"}}
    - {name: execute, args: {command: "echo c > /workspace/several-c.txt"}}
  - text: Two of three.
- when: change a file
  replies:
  - tool_calls:
    - name: write_file
      args: {file_path: /scripts/total.py, content: "def total(rows):\n    result = 0\n    return result\n"}
  - tool_calls:
    - name: edit_file
      args:
        file_path: /scripts/total.py
        old_string: "    result = 0\n    return result\n"
        new_string: "    result = 0.0\n    if rows is not None:\n    return result\n"
        replace_all: true
  - tool_calls: [{name: delete, args: {file_path: /scripts/total.py}}]
  - text: Changed and gone.
- when: nothing hidden
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo safe \u202e txt.exe\u200b\n\necho end"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "one\n#\n", new_string: "one\n#"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "a\n", new_string: "a  \n"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "\ta", new_string: "        a"}}
    - {name: edit_file, args: {file_path: /scripts/a.sh, old_string: "#\n", new_string: ""}}
- when: always from now on
  replies:
  - tool_calls: [{name: execute, args: {command: "echo always 1"}}]
  - tool_calls: [{name: execute, args: {command: "echo always 2"}}]
  - tool_calls: [{name: execute, args: {command: "echo always; echo more > /workspace/always.txt"}}]
  - text: Once is enough.
- when: again and again
  replies:
  - tool_calls: [{name: execute, args: {command: "echo again >> /workspace/again.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo again >> /workspace/again.txt"}}]
  - tool_calls: [{name: execute, args: {command: "echo other"}}]
  - tool_calls: [{name: execute, args: {command: "echo unseen"}}]
  - text: That was all.
  - tool_calls: [{name: execute, args: {command: "echo asked about again"}}]
"""

# A script in the page presses the keys, because the page ignores a key only within half a second of a new
# question: it presses until the first call is decided, and once more at once.
# On a busy machine, keys that the test sends can arrive further apart.
PRESS_A_TWICE = """async () => {
  const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true}));
  const isDecided = () => document.querySelector("[data-next]").textContent.includes("echo b");
  while (!isDecided()) {
    press();
    await null;  // React draws the decision before this script goes on
    if (!isDecided()) await new Promise(requestAnimationFrame);
  }
  press();
}"""


def test_reject_with_a_reason(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "refuse me")
    cards(page).get_by_role("button", name="Reject").click()
    expect(page.get_by_label("Why not?")).to_be_focused()
    page.get_by_label("Why not?").fill("not there, please")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(command(page, 0).locator(".pill")).to_have_text("rejected")
    expect(command(page, 0)).to_contain_text("not there, please")
    expect(cards(page)).to_contain_text("echo second")

    def rejects() -> bool:
        page.keyboard.press("r")
        page.wait_for_timeout(200)
        return page.get_by_label("Why not?").count() > 0

    eventually(rejects)  # the page ignores keys that come right after a card appears
    expect(page.get_by_label("Why not?")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Why not?")).to_have_count(0)
    page.keyboard.press("r")
    page.keyboard.type("a reason with an a in it")
    page.keyboard.press("Enter")
    expect(page.get_by_text("I have understood.")).to_be_visible()
    assert not (page_server.workspace / "refused.txt").exists()
    assert not (page_server.workspace / "second.txt").exists()


def test_each_of_several_calls_gets_its_own_decision(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "several at once")
    expect(cards(page)).to_have_count(3)
    page.evaluate(PRESS_A_TWICE)  # the page ignores the second key: nobody has read the second command yet
    expect(cards(page).nth(0)).to_contain_text("Approved")
    expect(page.locator("[data-next]")).to_contain_text("echo b")
    cards(page).nth(1).get_by_role("button", name="Reject").click()
    page.keyboard.press("Enter")
    expect(cards(page).nth(1)).to_contain_text("Rejected")
    assert not (page_server.workspace / "several-a.txt").exists()  # no call runs before all are decided
    cards(page).nth(2).get_by_role("button", name="Approve").first.click()
    expect(page.get_by_text("Two of three.")).to_be_visible()
    made = [path.name for path in sorted(page_server.workspace.glob("several-*.txt"))]
    assert made == ["several-a.txt", "several-c.txt"]


@pytest.mark.thorough
def test_edit_is_shown_as_a_diff_and_deletion_by_its_path(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "change a file")
    expect(cards(page).get_by_role("heading")).to_have_text("Change this file? /scripts/total.py")
    diff = page.locator(".diff")
    expect(diff.locator(".removed .text")).to_have_text(["    result = 0"])
    expect(diff.locator(".added .text")).to_have_text(["    result = 0.0", "    if rows is not None:"])
    expect(diff.locator(".same .text")).to_have_text(["    return result"])
    expect(cards(page).locator(".arguments")).to_contain_text("replace_all")  # nothing is left out
    approve(page)
    expect(cards(page).get_by_role("heading")).to_have_text("Delete this? /scripts/total.py")
    assert "is not None" in (page_server.workspace / "scripts" / "total.py").read_text()
    approve(page)
    expect(page.get_by_text("Changed and gone.")).to_be_visible()
    assert not (page_server.workspace / "scripts" / "total.py").exists()


@pytest.mark.thorough
def test_invisible_characters_and_differences_are_shown(page: Page) -> None:
    open_chat(page)
    say(page, "nothing hidden")
    expect(cards(page)).to_have_count(5)
    expect(cards(page).first.locator("code")).to_have_text("echo safe ‹U+202E› txt.exe‹U+200B›\n\necho end")
    assert "\u202e" not in page.content()
    end = "↵ the line end after the last line"
    shown = [
        ["".join(row.locator(".sign, .text").all_text_contents()) for row in card.locator(".diff .row").all()]
        for card in cards(page).all()[1:]
    ]
    assert shown == [
        [" one", "-#", "+#", f"-{end}"],
        ["-a", "+a··"],
        ["-→\ta", "+        a"],
        ["-#", f"-{end}"],
    ]
    expect(cards(page).nth(2).locator(".added mark")).to_have_text("··")


@pytest.mark.thorough
def test_rule_is_shown_and_written_and_holds_from_then_on(page: Page, page_server: Served) -> None:
    rules = page_server.folder / ".code-agent" / "approvals.toml"
    open_chat(page)
    say(page, "always from now on")
    page.get_by_role("button", name="Approve for the rest of this chat, or always").click()
    page.get_by_role("button", name="Always allow, by a rule").click()
    choice = cards(page).get_by_label("Always allow")
    labels = ["echo …", "echo always …", "echo always 1 …", "exactly this"]
    expect(choice.locator("option")).to_have_text(labels)
    choice.select_option("echo always …")
    shown = cards(page).get_by_role("group", name="The rule")
    expect(shown).to_contain_text('prefix = ["echo", "always"]')
    text = shown.locator("code").text_content()
    assert not rules.exists()
    cards(page).get_by_role("button", name="Write the rule and approve").click()
    expect(cards(page)).to_contain_text("echo more")  # the second command ran without a question
    expect(command(page, 1)).to_contain_text("by a rule")
    assert rules.read_text() == text
    cards(page).get_by_role("button", name="Reject").click()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Once is enough.")).to_be_visible()
    assert not (page_server.workspace / "always.txt").exists()


@pytest.mark.thorough
def test_grants_for_the_chat_are_given_listed_and_revoked(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "again and again")
    page.get_by_role("button", name="Approve for the rest of this chat, or always").click()
    page.get_by_role("button", name="Approve this exact call").click()
    expect(cards(page)).to_contain_text("echo other")  # the second call ran without a question
    expect(command(page, 1)).to_contain_text("Approved earlier in this chat: exactly this")
    assert (page_server.workspace / "again.txt").read_text() == "again\nagain\n"
    page.get_by_role("button", name="Approve for the rest of this chat, or always").press("Enter")
    expect(page.get_by_role("button", name="Approve this exact call")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Approve this exact call")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Approve this exact call")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("That was all.")).to_be_visible()
    expect(command(page, 3).locator(".lines")).to_have_text("unseen")

    grants = page.locator(".grants")
    grants.locator("summary").click()
    expect(grants).to_contain_text("2 approvals hold for this chat")
    expect(grants.locator("p")).to_have_text("Every command")
    for left in (1, 0):
        grants.get_by_role("button", name="Take back").first.click()
        if left:
            expect(grants.locator("summary")).to_have_text("Every command is approved for this chat")
        expect(grants.get_by_role("button", name="Take back")).to_have_count(left)
    say(page, "go on")
    expect(cards(page)).to_contain_text("echo asked about again")
