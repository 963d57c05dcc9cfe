"""Somebody who has read nothing: a sample, a command approved, a plot. And the README's picture of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agent.config import ROOT
from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
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
"""


BYTES = (
    "async image => [...new Uint8Array(await (await fetch(image.src, {cache: 'force-cache'})).arrayBuffer())]"
)
"""What the browser has kept for the address of a picture."""


def test_from_a_sample_to_a_plot(page: Page, page_server: Served, picture: Callable[..., Path]) -> None:
    data = page_server.workspace / "data"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", data)
    page.set_viewport_size({"width": 1200, "height": 860})
    open_chat(page)
    page.get_by_role("button", name="Plot the revenue").click()
    expect(page.get_by_label("Message to the agent")).to_have_value(
        "Plot the revenue in each month of /data/sales.csv as a line and save it as /results/revenue.png. "
        "Which month had the most revenue, and how much?"
    )
    page.get_by_role("button", name="Send").click()
    expect(cards(page)).to_contain_text("sales.csv")
    picture(page, "first approval")
    approve(page)
    expect(command(page).locator(".pill")).to_have_text("exit 0", timeout=60_000)
    expect(command(page).locator(".lines")).to_contain_text("highest: ")
    plot = page.get_by_role("img", name="revenue.png")
    expect(plot).to_be_visible()
    expect(plot).to_have_js_property("complete", value=True)
    assert plot.evaluate("image => image.naturalWidth") > 500

    say(page, "Leave the incomplete month out.")
    expect(cards(page)).to_contain_text("sed -i")
    cards(page).scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    picture(page, "readme")
    approve(page)
    expect(page.get_by_text("Done.")).to_be_visible(timeout=60_000)
    expect(plot).to_have_count(2)  # one for each answer, and the second is what is in the file now
    expect(plot.last).to_have_js_property("complete", value=True)
    shown = plot.last.evaluate(BYTES)
    assert bytes(shown) == (page_server.workspace / "results" / "revenue.png").read_bytes()
