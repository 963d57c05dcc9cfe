"""A picture that an agent makes is seen: whether or not its answer names it, and however it is named (V4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, command, open_chat, say
from tests.served import Served
from tests.small_files import png

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: draw it
  replies:
  - text: |
      I draw it.
      ```python
      import os
      import matplotlib
      matplotlib.use("Agg")
      import matplotlib.pyplot as plt

      plt.plot([1, 3, 2])
      plt.savefig("/results/line.png")
      os.makedirs("/results/more", exist_ok=True)
      plt.savefig("/results/more/again.png")
      plt.close()
      ```
  - text: The highest value is 3.
  - text: Nothing to draw.
- when: name it
  replies:
  - tool_calls: [{name: execute, args: {command: "cp /results/old.png /results/named.png"}}]
  - text: It is in results/named.png, which is /workspace/results/named.png.
"""


def test_a_plot_that_no_answer_names(page: Page, page_server: Served, picture: Callable[..., Path]) -> None:
    results = page_server.workspace / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "old.png").write_bytes(png(40, 30))  # of before: no work of this turn
    page.wait_for_timeout(1_100)
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("code_agent")
    say(page, "draw it")
    approve(page)
    expect(page.get_by_text("The highest value is 3.")).to_be_visible(timeout=60_000)
    expect(command(page).locator(".pill")).to_have_text("exit 0")
    names = page.locator(".plots figcaption")
    expect(names).to_have_text(["/results/line.png", "/results/more/again.png"])
    plot = page.get_by_role("img", name="line.png")
    expect(plot).to_have_js_property("complete", value=True)
    assert plot.evaluate("image => image.naturalWidth") > 300
    picture(page)
    page.reload()
    expect(names).to_have_count(2)
    say(page, "and now?")
    expect(page.get_by_text("Nothing to draw.")).to_be_visible()
    page.wait_for_timeout(1_000)
    expect(names).to_have_count(0)  # they are of another turn; the file panel has them


def test_one_picture_however_it_is_named_and_after_a_failed_load(page: Page, page_server: Served) -> None:
    results = page_server.workspace / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "old.png").write_bytes(png(40, 30))
    open_chat(page)
    page.route("**/content?view=image*", lambda route: route.fulfill(status=500, json={"error": "busy"}))
    say(page, "name it")
    approve(page)
    expect(page.locator(".plots figcaption")).to_have_text(["/results/named.png"])
    again = page.locator(".plots").get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    page.unroute("**/content?view=image*")
    again.click()
    expect(page.get_by_role("img", name="named.png")).to_have_js_property("naturalWidth", 40)
