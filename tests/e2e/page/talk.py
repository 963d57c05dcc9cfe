"""Steps that many tests of the page share, such as sending a message or approving a call."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.servers.served import Served


def open_chat(page: Page, path: str = "/app") -> None:
    """Open a new chat, or the chat at a path."""
    page.goto(path)
    expect(page.get_by_label("Message to the agent")).to_be_visible()


def say(page: Page, text: str) -> None:
    """Write a message and send it."""
    page.get_by_label("Message to the agent").fill(text)
    page.get_by_label("Message to the agent").press("Enter")


def run_ends(page: Page) -> None:
    """Wait until no run is active: the last message of a run is shown shortly before."""
    expect(page.get_by_role("button", name="Stop the agent")).to_be_hidden()


def approvals(page: Page) -> Locator:
    """The region with all calls that wait for approval."""
    return page.get_by_role("region", name="Waiting for your approval")


def cards(page: Page) -> Locator:
    """The cards of the calls that wait for approval."""
    return approvals(page).get_by_role("article")


def approve(page: Page) -> None:
    """Approve the only call that waits."""
    expect(cards(page)).to_have_count(1)
    cards(page).get_by_role("button", name="Approve", exact=False).first.click()


def command(page: Page, index: int = -1) -> Locator:
    """The card of a command that runs or has run; by default the last card."""
    return page.locator("details.run").nth(index)


def run_thread(server: Served, text: str, token: str | None = None) -> str:
    """The id of a new thread whose run with this message has ended or waits for approval."""
    with server.client(token) as http:
        thread = str(http.post("/threads", json={"metadata": {"graph_id": "deep_agent"}}).json()["thread_id"])
        message = {"messages": [{"role": "user", "content": text}]}
        run = {"assistant_id": "deep_agent", "input": message}
        http.post(f"/threads/{thread}/runs/wait", json=run).raise_for_status()
    return thread
