"""A card about pictures that a call has changed shows them before and after the call."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.page.talk import cards, open_chat, run_ends, say
from tests.servers.served import Served
from tests.support.small_files import png

pytestmark = pytest.mark.docker

SETTINGS = {"APPROVALS": "effects"}
SCRIPT = """
conversations:
- when: change the pictures
  replies:
  - tool_calls:
    - name: execute
      args:
        command: |
          cd /data
          rm drawing.svg
          cp chart.png new.png
          python3 -c "from PIL import Image; Image.open('chart.png').resize((30, 20)).save('chart.png')"
          for number in 1 2 3; do cp chart.png more-$number.png; done
  - text: They are changed.
"""
SVG = (
    '<?xml version="1.0"?>\n<!-- drawn --><svg xmlns="http://www.w3.org/2000/svg" width="24" height="16" '
    "onload=\"document.title='ran'\"><script>document.title='ran'</script><rect width='9' height='9'/></svg>"
)

WIDTHS = "all => Promise.all(all.map(async each => { await each.decode(); return each.naturalWidth }))"


def widths(card: Locator, name: str) -> list[int]:
    """Return the widths in pixels of the pictures of a file."""
    group = card.get_by_role("group", name=f"Picture {name}", exact=True)
    expect(group).to_be_visible()
    found: list[int] = group.locator("img").evaluate_all(WIDTHS)
    return found


@pytest.mark.thorough
def test_pictures_are_shown_before_and_after(page: Page, page_server: Served) -> None:
    data = page_server.workspace / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "chart.png").write_bytes(png(12, 8))
    (data / "drawing.svg").write_text(SVG)
    open_chat(page)
    say(page, "change the pictures")
    card = cards(page)
    assert widths(card, "/data/chart.png") == [12, 30]
    assert widths(card, "/data/drawing.svg") == [24]
    assert widths(card, "/data/more-1.png") == [30]
    chart = card.get_by_role("group", name="Picture /data/chart.png")
    expect(chart).to_contain_text("before: 12 × 8 pixels")
    expect(chart).to_contain_text("after: 30 × 20 pixels")
    expect(card.get_by_role("group", name="Picture /data/drawing.svg")).to_contain_text("It is gone.")
    expect(card.get_by_text("2 more pictures are not shown here.")).to_be_visible()
    words = card.get_by_role("group", name="What it did")
    expect(words).to_contain_text("/data/chart.png: before 12 by 8, after 30 by 20")
    drawing = card.get_by_role("img", name="/data/drawing.svg before the call").get_attribute("src")
    answer = httpx.get(f"{page_server.url}{drawing}")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert httpx.get(f"{page_server.url}{drawing}".replace("call=", "call=x")).status_code == 410
    assert page.title() != "ran"
    card.get_by_role("button", name="Keep").click()
    expect(page.get_by_text("They are changed.")).to_be_visible()
    run_ends(page)
