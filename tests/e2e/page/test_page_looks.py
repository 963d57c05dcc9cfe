"""The page in light and dark, on a phone, by keyboard and for screen readers; the bundle's size."""

from __future__ import annotations

import gzip
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from agent.settings import ROOT
from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

BUNDLE = ROOT / "agent" / "ui" / "dist"

SCRIPT = r"""
conversations:
- when: look nice
  replies:
  - text: I shall **count**.
    tool_calls:
    - name: write_todos
      args: {todos: [{content: Count, status: in_progress}, {content: Answer, status: pending}]}
    - {name: execute, args: {command: "for i in 1 2; do\n  echo \"line $i\"  # a comment\ndone; exit 4"}}
    - {name: read_file, args: {file_path: /workspace/none.txt}}
  - text: "## Done\n\n1. `one`\n\n| step | took |\n|---|---:|\n| one | 0.5 |\n\n> [a link](https://example.com/)"
- when: ten thousand lines
  replies:
  - tool_calls:
    - name: execute
      args: {command: "for i in $(seq 1 10000); do echo \"this is line $i of many\"; done; sleep 1"}
  - text: All lines are there.
- when: by keyboard
  replies:
  - tool_calls: [{name: execute, args: {command: "echo by key"}}]
  - text: No mouse was needed.
"""


def check_looks(page: Page) -> None:
    """Fail if axe finds a serious fault, or if the page is wider than the window."""
    violations = Axe().run(page).response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    assert serious == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_bundle_is_small_and_loads_nothing_from_other_hosts() -> None:
    compressed = sum(len(gzip.compress(path.read_bytes(), 9)) for path in BUNDLE.rglob("*") if path.is_file())
    assert compressed <= 300_000
    for path in BUNDLE.rglob("*"):
        if path.suffix in (".js", ".css", ".html"):
            assert not re.search(r"""(?:src|href)=["']?https?:|url\(["']?https?:|@import""", path.read_text())


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_each_state_of_a_chat_is_accessible_and_fits(
    page: Page, page_server: Served, theme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_chat(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (theme == "light")
    check_looks(page)

    say(page, "look nice")
    expect(cards(page)).to_be_visible()
    page.wait_for_timeout(400)
    page.get_by_role("button", name="Approve for the rest of this chat, or always").click()
    check_looks(page)
    page.keyboard.press("Escape")

    approve(page)
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    expect(command(page).locator(".pill")).to_have_text("exit 4")
    check_looks(page)
    if width < 900:
        chats = page.get_by_role("navigation", name="Chats")
        expect(chats).to_be_hidden()
        page.get_by_role("button", name="Chats", exact=True).click()
        expect(chats).to_be_visible()
        page.wait_for_timeout(300)
        check_looks(page)
        page.keyboard.press("Escape")
        expect(chats).to_be_hidden()


def test_chosen_theme_is_kept(page: Page) -> None:
    open_chat(page)
    button = page.get_by_role("button", name="Colours")
    for theme in ("light", "dark", "system", "light", "dark"):
        button.click()
        expect(button).to_have_accessible_name(f"Colours: {theme}")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (theme != "dark")
    page.reload()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


def test_task_can_be_done_by_keyboard_alone(page: Page) -> None:
    open_chat(page)
    expect(page.get_by_label("Message to the agent")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(cards(page)).to_be_focused()  # so a screen reader reads the card
    page.keyboard.press("Tab")
    expect(cards(page).get_by_label("The command")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(cards(page).get_by_role("button", name="Approve", exact=False).first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("No mouse was needed.")).to_be_visible()
    expect(page.get_by_label("Message to the agent")).to_be_focused()


def test_page_responds_while_a_command_prints_ten_thousand_lines(page: Page) -> None:
    open_chat(page)
    page.evaluate(
        """() => { window.longest = 0; let last = performance.now();
        const tick = () => { const now = performance.now();
          window.longest = Math.max(window.longest, now - last); last = now; requestAnimationFrame(tick); };
        tick(); }"""
    )
    say(page, "ten thousand lines")
    approve(page)
    lines = command(page).locator(".lines")
    expect(lines).to_contain_text("of many")
    expect(page.get_by_text("All lines are there.")).to_be_visible()
    assert page.evaluate("window.longest") < 1_000
    assert lines.locator(".line").count() < 200  # only lines in sight are drawn
    lines.evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(lines).to_contain_text("this is line 10000 of many")
    lines.evaluate("box => { box.scrollTop = 0 }")
    expect(lines).to_contain_text("this is line 1 of many")
