"""What a person does in the page, in few words."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

# A machine that is busy with other things is no defect of the page.
expect.set_options(timeout=20_000)

__all__ = ["approvals", "approve", "cards", "command", "open_chat", "say"]


def open_chat(page: Page, path: str = "/app") -> None:
    """Open the page, at a new chat or at the chat of an address."""
    page.goto(path)
    expect(page.get_by_label("Message to the agent")).to_be_visible()


def say(page: Page, text: str) -> None:
    """Write a message and send it."""
    page.get_by_label("Message to the agent").fill(text)
    page.get_by_label("Message to the agent").press("Enter")


def approvals(page: Page) -> Locator:
    """What waits for a person."""
    return page.get_by_role("region", name="Waiting for your approval")


def cards(page: Page) -> Locator:
    """The calls in it, each."""
    return approvals(page).get_by_role("article")


def approve(page: Page) -> None:
    """Approve the only call that waits."""
    expect(cards(page)).to_have_count(1)
    cards(page).get_by_role("button", name="Approve", exact=False).first.click()


def command(page: Page, index: int = -1) -> Locator:
    """The card of a command that runs or has run, by default of the last one."""
    return page.locator("details.run").nth(index)
