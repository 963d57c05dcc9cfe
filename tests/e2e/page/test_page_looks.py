"""The page for everybody: small, soon there, in light and dark, on a phone, by keyboard, read aloud (V4)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from agent.config import ROOT
from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

BUNDLE = ROOT / "agent" / "ui" / "dist"

SCRIPT = r"""
conversations:
- when: look nice
  replies:
  - text: I shall **count**.
    tool_calls:
    - name: write_todos
      args: {todos: [{content: Count, status: in_progress}, {content: Answer, status: pending}]}
    - {name: execute, args: {command: "for i in 1 2 3; do\n  echo \"line $i\"  # a comment\ndone"}}
    - {name: read_file, args: {file_path: /workspace/none.txt}}
  - text: |
      ## Done

      1. one
      2. `two`

      | step | took |
      |---|---:|
      | one | 0.5 |

      > a remark, and [a link](https://example.com/)
  - tool_calls: [{name: execute, args: {command: "exit 4"}}]
  - text: It failed.
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


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or worse."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def overflow(page: Page) -> int:
    """Pixels that the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_the_bundle_is_small() -> None:
    compressed = sum(len(gzip.compress(path.read_bytes(), 9)) for path in BUNDLE.rglob("*") if path.is_file())
    print(f"the page: {compressed / 1000:.0f} kB compressed")
    assert compressed <= 300_000
    for path in BUNDLE.rglob("*"):
        if path.suffix in (".js", ".css", ".html"):  # no source is loaded from elsewhere
            assert not re.search(r"""(?:src|href)=["']?https?:|url\(["']?https?:|@import""", path.read_text())


def test_the_first_paint_comes_within_a_second(page: Page) -> None:
    open_chat(page)
    script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
    page.wait_for_function(f"({script}) !== null")
    first = float(page.evaluate(script))
    print(f"first paint after {first:.0f} ms")
    assert first < 1_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everything_in_every_look(
    browser: Browser, page_server: Served, picture: Callable[..., Path], theme: str, width: int
) -> None:
    context = browser.new_context(
        base_url=page_server.url,
        viewport={"width": width, "height": 844},
        color_scheme=theme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    open_chat(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (theme == "light")
    picture(page, f"empty {theme} {width}")
    assert serious(page) == []
    assert overflow(page) <= 0

    say(page, "look nice")
    expect(cards(page)).to_be_visible()
    page.wait_for_timeout(400)
    picture(page, f"waiting {theme} {width}")
    assert serious(page) == []
    assert overflow(page) <= 0
    page.get_by_role("button", name="Approve for the rest of this chat").click()
    assert serious(page) == []
    page.keyboard.press("Escape")

    approve(page)
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    say(page, "and once more")
    approve(page)
    expect(page.get_by_text("It failed.")).to_be_visible()
    expect(command(page).locator(".pill")).to_have_text("exit 4")
    picture(page, f"done {theme} {width}")
    assert serious(page) == []
    assert overflow(page) <= 0
    if width < 900:
        assert not page.get_by_role("navigation", name="Chats").is_visible()
        page.get_by_role("button", name="Chats", exact=True).click()
        expect(page.get_by_role("navigation", name="Chats")).to_be_visible()
        page.wait_for_timeout(300)
        picture(page, f"chats {theme} {width}")
        assert serious(page) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("navigation", name="Chats")).not_to_be_visible()
    context.close()


def test_colours_are_chosen_and_kept(page: Page) -> None:
    open_chat(page)
    seen = []
    for _ in range(3):
        page.get_by_role("button", name="Colours").click()
        seen.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(seen)) == 2
    page.get_by_role("button", name="Colours").click()
    page.get_by_role("button", name="Colours").click()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


def test_a_whole_task_by_keyboard(page: Page) -> None:
    open_chat(page)
    expect(page.get_by_label("Message to the agent")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(cards(page)).to_be_focused()  # and so read aloud
    page.wait_for_timeout(600)
    page.keyboard.press("Tab")
    expect(cards(page).get_by_label("The command")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(cards(page).get_by_role("button", name="Approve", exact=False).first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("No mouse was needed.")).to_be_visible()
    expect(page.get_by_label("Message to the agent")).to_be_focused()  # where the next task is written


def test_ten_thousand_lines_do_not_stall_it(page: Page, picture: Callable[..., Path]) -> None:
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
    expect(page.get_by_text("All lines are there.")).to_be_visible(timeout=30_000)
    print(f"longest time between two frames: {page.evaluate('window.longest'):.0f} ms")
    assert page.evaluate("window.longest") < 1_000
    assert lines.locator(".line").count() < 200  # the others are not drawn
    lines.evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(lines).to_contain_text("this is line 10000 of many")
    lines.evaluate("box => { box.scrollTop = 0 }")
    expect(lines).to_contain_text("this is line 1 of many")
    picture(page)
    page.get_by_label("Message to the agent").fill("still quick")
    expect(page.get_by_label("Message to the agent")).to_have_value("still quick")
