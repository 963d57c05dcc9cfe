"""A chat in the page: what is said, what runs, what it prints while it runs, how it ended (V4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approvals, approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: count slowly
  replies:
  - text: I shall count.
    tool_calls:
    - {name: execute, args: {command: "for i in 1 2 3 4; do echo line $i; sleep 0.5; done; exit 3"}}
  - text: |
      It ended with **3**.

      | step | took |
      |---|---:|
      | one | 0.5 |

      ```python
      print("counted")  # four times
      ```

      <b onclick="alert(1)">no markup</b>
- when: two blocks
  replies:
  - text: "I look.\n```bash\necho from bash\n```\n```python\nprint(6 * 7)\n```"
  - text: The answer is 42.
  - text: Nothing has to run for that.
"""


def test_a_command_is_approved_runs_before_ones_eyes_and_ends(
    page: Page, picture: Callable[..., Path], page_server: Served
) -> None:
    open_chat(page)
    expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()
    say(page, "count slowly")
    expect(page.get_by_text("I shall count.")).to_be_visible()
    expect(cards(page)).to_contain_text("for i in 1 2 3 4; do echo line $i; sleep 0.5; done; exit 3")
    assert cards(page).locator(".hljs-built_in, .hljs-keyword").count() > 0  # syntax colours
    assert command(page, 0).count() == 0
    approve(page)

    running = command(page)
    expect(running.locator(".lines")).to_contain_text("line 1")
    expect(running.locator(".card-facts")).to_contain_text("running")
    assert "line 4" not in running.locator(".lines").inner_text()
    expect(running.locator(".pill")).to_have_text("exit 3")
    assert running.locator(".lines").inner_text().split("\n") == ["line 1", "line 2", "line 3", "line 4"]
    assert re.fullmatch(r"(?:[2-9]\.\d|\d\d) s", running.locator(".seconds").inner_text())
    expect(approvals(page)).to_have_count(0)

    expect(page.locator(".markdown strong", has_text="3")).to_be_visible()
    expect(page.get_by_role("cell", name="0.5")).to_be_visible()
    expect(page.locator(".markdown .hljs-string", has_text="counted")).to_be_visible()
    expect(page.get_by_text('<b onclick="alert(1)">no markup</b>')).to_be_visible()
    assert page.locator("b").count() == 0
    picture(page)

    page.reload()  # the exit code and the time are kept
    expect(command(page).locator(".pill")).to_have_text("exit 3")
    assert re.fullmatch(r"(?:[2-9]\.\d|\d\d) s", command(page).locator(".seconds").inner_text())


def test_the_blocks_of_the_code_agent(page: Page, picture: Callable[..., Path]) -> None:
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("code_agent")
    say(page, "two blocks")
    expect(cards(page)).to_have_count(2)
    expect(cards(page).first).to_contain_text("Run this Bash code?")
    expect(cards(page).first).to_contain_text("echo from bash")
    expect(cards(page).last).to_contain_text("print(6 * 7)")
    page.get_by_role("button", name="Approve all 2").click()
    expect(page.get_by_text("The answer is 42.")).to_be_visible()
    for number, (title, output) in enumerate([("Bash", "from bash"), ("Python", "42")]):
        expect(command(page, number).locator("summary")).to_contain_text(title)
        expect(command(page, number).locator(".lines")).to_have_text(output)
        expect(command(page, number).locator(".pill")).to_have_text("exit 0")
    picture(page)

    page.reload()  # what the blocks printed was never said by the person
    expect(page.get_by_text("The answer is 42.")).to_be_visible()
    expect(page.locator(".person p")).to_have_text(["two blocks"])
    expect(command(page, 1).locator(".lines")).to_have_text("42")
    say(page, "plain talk")
    expect(page.get_by_text("Nothing has to run for that.")).to_be_visible()
    expect(cards(page)).to_have_count(0)  # no question of before comes back
    expect(command(page, 1).locator(".lines")).to_have_text("42")
