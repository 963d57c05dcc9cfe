"""The page as a person meets it: Debian's Chromium, a server as `make dev` starts it, a real sandbox.

A module says in SCRIPT what the model replies, and in SETTINGS, where it has any, how the server is set.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from agent.config import ROOT
from tests.served import Served, served

PICTURES = ROOT / "tests" / "artifacts" / "page"
"""Where what the browser shows is kept, for whoever wants to look."""

_NOWHERE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


@pytest.fixture(scope="module")
def page_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that may be killed and started again; its workspace is `page_server.workspace`."""
    settings: dict[str, str] = getattr(request.module, "SETTINGS", {})
    with served(tmp_path_factory.mktemp("page"), request.module.SCRIPT, **settings) as server:
        yield server
    assert "BlockingError" not in server.log()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that reaches nothing but this machine.

    Of a module, not of the session: while it runs, this thread counts as one with an event loop of its own,
    and asynchronous tests could not start theirs.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("Chromium is missing: `make chromium` installs it, and `make test` does so by itself.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-background-networking", f"--host-resolver-rules={_NOWHERE}"],
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, page_server: Served) -> Iterator[Page]:
    """A tab of a person who has never been here; what goes wrong in it, and what its policy stops, fails."""
    context = browser.new_context(base_url=page_server.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None,
    )
    yield page
    context.close()
    assert wrong == []


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page], Path]:
    """Keeps what a page shows, under the name of the test: `picture(page)`, or `picture(page, "name")`."""

    def keep(page: Page, name: str = "") -> Path:
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', (name or request.node.name).lower()).strip('-')}.png"
        page.screenshot(path=path)
        return path

    return keep
