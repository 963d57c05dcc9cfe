"""The page scrolls to an answer and its plot, and requests only files and threads that exist."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Locator, Page, Request, Response, Route, expect

from tests.e2e.page.talk import approve, cards, open_chat, run_ends, say
from tests.servers.served import Served
from tests.support.small_files import png
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SCRIPT = r"""
conversations:
- when: whole session
  replies:
  - text: I look at the lines first.
    tool_calls: [{name: execute, args: {command: "for i in $(seq 60); do echo line $i; done"}}]
  - text: "I draw ![before it is there](/results/später.png)."
    tool_calls: [{name: execute, args: {command: "cd /data && cp late.png /results/später.png \
      && cp late.png /results/late.png && cp late.png /results/unnamed.png"}}]
  - text: "I drew /results/late.png, not /results/missing.png or /absent/none.png.\n\n\
      ![It is here](/results/später.png) ![It is not](/results/never.png)"
  - text: I have nothing to add.
- when: scrolled up
  replies:
  - text: I look at many lines.
    tool_calls: [{name: execute, args: {command: "for i in $(seq 60); do echo line $i; done; \
      cp /data/late.png /results/read.png"}}]
  - text: "It is in /results/read.png.\n\n1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n7. g\n8. h\n9. i\n10. j"
  - text: "Once more.\n\n1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n7. g\n8. h\n9. i\n10. j"
"""
PICTURES = "**/content?view=image*"


@pytest.fixture(autouse=True)
def data(page_server: Served) -> None:
    (page_server.workspace / "data").mkdir(parents=True, exist_ok=True)
    (page_server.workspace / "data" / "late.png").write_bytes(png(600, 380))


def hold_pictures(page: Page) -> Callable[[], None]:
    """Hold back requests of pictures until the returned function is called."""
    held: list[Route] = []
    released = False

    def hold(route: Route) -> None:
        if released:
            route.continue_()
        else:
            held.append(route)

    def release() -> None:
        nonlocal released
        released = True
        assert held
        while held:  # the pictures arrive one after the other
            held.pop().continue_()
            page.wait_for_timeout(300)

    page.route(PICTURES, hold)
    return release


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem").filter(has=page.get_by_text(name, exact=True))


def from_end(page: Page) -> float:
    """Return the distance from the end of the chat, in pixels."""
    distance = "box => box.scrollHeight - box.scrollTop - box.clientHeight"
    return float(page.locator(".scroller").evaluate(distance))


def expect_end_in_sight(page: Page) -> None:
    eventually(lambda: from_end(page) < 2)


def expect_to_be_whole(page: Page, picture: Locator) -> None:
    """Wait until a picture is loaded and all of it is in the viewport."""
    expect(picture).to_have_js_property("naturalWidth", 600)
    expect(picture).to_be_in_viewport(ratio=1)
    box, size = picture.bounding_box(), page.viewport_size
    assert box and size
    assert box["height"] > 300
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= size["height"]


def test_page_scrolls_to_a_late_plot_and_no_response_of_the_session_fails(
    page: Page, page_server: Served
) -> None:
    results = page_server.workspace / "results"
    answers: list[str] = []
    failed: list[str] = []

    def note(response: Response) -> None:
        line = f"{response.request.method} {response.status} {response.url.removeprefix(page_server.url)}"
        (answers if response.status < 400 else failed).append(line)

    page.context.on("response", note)
    waiting: list[str] = []

    def begin(request: Request) -> None:
        if request.url.endswith("/turns"):
            waiting.append(request.url)

    def end(request: Request) -> None:
        if request.url in waiting:
            waiting.remove(request.url)

    page.context.on("request", begin)
    page.context.on("requestfinished", end)
    page.context.on("requestfailed", end)
    release = hold_pictures(page)
    open_chat(page)
    page.get_by_role("button", name="Files").click()
    say(page, "whole session")
    approve(page)
    expect(cards(page)).to_contain_text("unnamed.png")
    approve(page)
    expect(page.get_by_text("I drew ")).to_be_visible()
    expect(page.get_by_role("img", name="late.png")).to_have_count(1)
    last = page.get_by_role("img", name="unnamed.png")  # no message names this picture
    expect(last).to_have_count(1)
    page.wait_for_timeout(1_000)  # the pictures arrive a second after the end of the run
    release()
    expect_to_be_whole(page, last)
    expect(page.get_by_role("img", name="It is here")).to_have_js_property("naturalWidth", 600)
    expect(page.get_by_text("[picture: It is not]")).to_be_visible()
    expect(page.locator(".plots figcaption")).to_have_text(["/results/late.png", "/results/unnamed.png"])

    page.reload()
    expect_to_be_whole(page, last)
    page.get_by_role("button", name="Files").click()
    row(page, "results").click()
    row(page, "late.png").click()
    shown = page.get_by_role("region", name="File late.png")
    expect(shown.get_by_role("img")).to_be_visible()
    (results / "late.png").unlink()
    page.get_by_role("button", name="Refresh").click()
    expect(shown.get_by_role("alert")).to_have_text("The file is not there any more.")
    expect(shown.get_by_role("link", name="Download")).to_have_count(0)
    shutil.rmtree(results)
    page.get_by_role("button", name="Refresh").click()
    expect(row(page, "results")).to_have_count(0)
    expect(shown.get_by_role("alert")).to_have_text("The folder is not there any more.")
    page.reload()
    expect(page.get_by_text("[picture: It is here]")).to_be_visible()
    expect(page.locator(".plots figcaption")).to_have_count(0)
    say(page, "And else?")
    expect(page.get_by_text("I have nothing to add.")).to_be_visible()

    address = page.url
    runs = f"{page_server.url}/threads/{address.rsplit('/', 1)[1]}/runs?status=running"
    # The page would stop a run that still ends, which the server then does not know any more.
    eventually(lambda: httpx.get(runs).json() == [])
    run_ends(page)
    page.wait_for_timeout(500)  # the page asks for the turns at the end of a run
    tries = 0
    while waiting:  # the deletion would answer them with 404
        assert (tries := tries + 1) < 300
        page.wait_for_timeout(100)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete the chat whole session").click()
    expect(page).to_have_url(f"{page_server.url}/app")
    expect(page.get_by_role("button", name="Delete the chat whole session")).to_have_count(0)
    page.goto(address)
    expect(page.get_by_role("alert")).to_contain_text("not on the server")
    page.wait_for_timeout(3_000)  # the page loads its list of chats again
    assert failed == []
    # The recorder has seen each kind of request.
    for part in ("/app/icon.svg", "/page/config", "/grants", "/list?", "/content?", "/stream/events"):
        assert any(part in line for line in answers), part


def test_idle_page_fills_no_log(page: Page, page_server: Served) -> None:
    open_chat(page)
    page.wait_for_timeout(4_000)  # the page has loaded its list of chats
    paths: list[str] = []
    page.on("request", lambda request: paths.append(request.url.removeprefix(page_server.url)))
    page.wait_for_timeout(9_000)
    assert set(paths) - {"/threads/search"} == {"/ok"}  # LangGraph logs no request of /ok
    assert paths.count("/threads/search") <= 1


def test_page_stays_where_the_person_has_scrolled_until_the_next_message(
    page: Page, page_server: Served
) -> None:
    (page_server.workspace / "results").mkdir(exist_ok=True)
    release = hold_pictures(page)
    page.set_viewport_size({"width": 1280, "height": 500})
    open_chat(page)
    say(page, "scrolled up")
    approve(page)
    plot = page.get_by_role("img", name="read.png")
    expect(plot).to_have_count(1)
    expect_end_in_sight(page)
    page.mouse.move(640, 100)
    page.mouse.wheel(0, -200)
    eventually(lambda: 190 < from_end(page) < 210)
    place = page.locator(".scroller").evaluate("box => box.scrollTop")
    release()
    expect(plot).to_have_js_property("naturalWidth", 600)
    page.wait_for_timeout(500)
    assert page.locator(".scroller").evaluate("box => box.scrollTop") == place
    assert from_end(page) > 500

    say(page, "Say it again")
    expect(page.get_by_text("Once more.")).to_be_visible()
    expect_end_in_sight(page)
