"""Plots that an agent makes are shown in the chat. The first test takes the picture in docs/page.md."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Page, expect

from agent.settings import ROOT
from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.servers.served import Served
from tests.support.small_files import png

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: Plot the revenue
  replies:
  - text: I draw the revenue of each month.
    tool_calls:
    - name: execute
      args:
        command: |
          cat > /scripts/plot.py <<'PY'
          import matplotlib
          matplotlib.use("Agg")
          import matplotlib.pyplot as plt
          import pandas as pd

          sales = pd.read_csv("/data/sales.csv", parse_dates=["order_date"])
          sales["revenue"] = pd.to_numeric(sales["revenue"], errors="coerce")
          months = sales.set_index("order_date")["revenue"].resample("MS").sum()
          figure, axes = plt.subplots(figsize=(8, 3.2))
          axes.plot(months.index, months, marker="o", markersize=3, color="#2a6555")
          axes.set(title="Revenue by month", ylim=(0, None))
          axes.spines[["top", "right"]].set_visible(False)
          figure.savefig("/results/revenue.png", dpi=120, bbox_inches="tight")
          print(f"highest: {months.idxmax():%Y-%m}, {months.max():,.2f}")
          PY
          python /scripts/plot.py
  - text: |
      The revenue of each month is in `/results/revenue.png`.
  - text: I take the months out that are not complete, and draw it anew.
    tool_calls:
    - name: execute
      args:
        command: |
          sed -i 's/.sum()/.sum().iloc[:-1]/' /scripts/plot.py
          python /scripts/plot.py  # writes /results/revenue.png again
  - text: Done. It is in results/revenue.png again.
- when: draw it
  replies:
  - text: |
      I draw it.
      ```python
      import os
      import shutil
      os.makedirs("/results/more", exist_ok=True)
      for name in ("line.png", "more/again.png"):
          shutil.copyfile("/results/old.png", f"/results/{name}")
      ```
  - text: The highest value is 3.
  - text: Nothing to draw.
- when: name it
  replies:
  - tool_calls: [{name: execute, args: {command: "cp /results/old.png /results/named.png"}}]
  - text: It is in results/named.png, which is /workspace/results/named.png.
"""


def old_plot(server: Served) -> None:
    (server.workspace / "results").mkdir(parents=True, exist_ok=True)
    (server.workspace / "results" / "old.png").write_bytes(png(40, 30))


SHOWN_BYTES = (
    "async image => [...new Uint8Array(await (await fetch(image.src, {cache: 'force-cache'})).arrayBuffer())]"
)
"""Returns the bytes of an image from the browser's cache."""


@pytest.mark.thorough
def test_sample_task_shows_its_plot_and_the_plot_of_the_next_answer(page: Page, page_server: Served) -> None:
    (page_server.workspace / "data").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", page_server.workspace / "data")
    page.set_viewport_size({"width": 1200, "height": 860})
    open_chat(page)
    page.get_by_role("button", name="Plot the revenue").click()
    page.get_by_role("button", name="Send").click()
    approve(page)
    expect(command(page).locator(".lines")).to_contain_text("highest: ", timeout=60_000)
    plot = page.get_by_role("img", name="revenue.png")
    expect(plot).to_have_js_property("complete", value=True)
    assert plot.evaluate("image => image.naturalWidth") > 500

    say(page, "Leave the incomplete month out.")
    expect(cards(page)).to_contain_text("sed -i")
    cards(page).scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    page.screenshot(path=ROOT / "tests" / "artifacts" / "page" / "page.png")
    approve(page)
    expect(page.get_by_text("Done.")).to_be_visible(timeout=60_000)
    expect(plot).to_have_count(2)  # one for each answer; the second shows the file as it is now
    expect(plot.last).to_have_js_property("complete", value=True)
    shown = plot.last.evaluate(SHOWN_BYTES)
    assert bytes(shown) == (page_server.workspace / "results" / "revenue.png").read_bytes()


@pytest.mark.thorough
def test_plots_of_the_last_turn_are_shown_when_no_answer_names_them(page: Page, page_server: Served) -> None:
    old_plot(page_server)  # made before this turn
    page.wait_for_timeout(1_100)
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("code_agent")
    say(page, "draw it")
    approve(page)
    expect(page.get_by_text("The highest value is 3.")).to_be_visible(timeout=60_000)
    names = page.locator(".plots figcaption")
    expect(names).to_have_text(["/results/line.png", "/results/more/again.png"])
    page.reload()
    expect(names).to_have_count(2)
    say(page, "and now?")
    expect(page.get_by_text("Nothing to draw.")).to_be_visible()
    page.wait_for_timeout(1_000)
    expect(names).to_have_count(0)  # an earlier turn made them; the file panel lists them


@pytest.mark.thorough
def test_plot_with_two_names_is_shown_once_and_can_be_loaded_again(page: Page, page_server: Served) -> None:
    old_plot(page_server)
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


@pytest.mark.thorough
def test_plot_of_another_chat_is_not_shown_as_made_by_the_agent(page: Page, page_server: Served) -> None:
    old_plot(page_server)
    open_chat(page)
    say(page, "name it")
    expect(cards(page)).to_have_count(1)
    shutil.copy(
        page_server.workspace / "results" / "old.png", page_server.workspace / "results" / "foreign.png"
    )
    approve(page)
    names = page.locator(".plots figcaption")
    expect(names).to_have_text(["/results/named.png", "/results/foreign.png, new in the workspace"])
    expect(page.get_by_role("img", name="made by the agent")).to_have_count(1)
