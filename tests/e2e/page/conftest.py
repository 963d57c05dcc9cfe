"""Fixtures for tests of the page: Debian's Chromium, a real server and a real sandbox.

A module defines the model's replies in SCRIPT (YAML with `conversations:`). Modules share one server and its
workspace, so each `when` and each file name is unique among them. A module with SETTINGS has its own server.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.servers.served import Served, joined_script, served

# The tests must also pass on a busy machine.
expect.set_options(timeout=30_000)

_LOCAL_ONLY = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
_ARGUMENTS = ["--no-sandbox", "--disable-background-networking", f"--host-resolver-rules={_LOCAL_ONLY}"]


def _shares_server(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "page_server" not in item.fixturenames:
        return False
    return not hasattr(item.module, "SETTINGS") and not hasattr(item.module, "page_server")


@pytest.fixture(scope="session")
def default_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A server with default settings that plays the conversations of all modules without SETTINGS."""
    modules = {item.module for item in request.session.items if _shares_server(item)}  # type: ignore[attr-defined]
    with served(tmp_path_factory.mktemp("page"), joined_script(each.SCRIPT for each in modules)) as server:
        yield server


@pytest.fixture(scope="module")
def page_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that may be killed and started again; its workspace is `page_server.workspace`."""
    settings: dict[str, str] | None = getattr(request.module, "SETTINGS", None)
    if settings is None:
        yield request.getfixturevalue("default_server")
    else:
        with served(tmp_path_factory.mktemp("page"), request.module.SCRIPT, **settings) as server:
            yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that can connect to this machine only.

    Each module starts its own browser. While Playwright runs, this thread has an event loop, so asynchronous
    tests of other modules could not start theirs.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("Chromium is missing: install it with `make chromium`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, page_server: Served) -> Iterator[Page]:
    """A tab of a new browser. Uncaught errors and violations of its security policy fail the test."""
    context = browser.new_context(base_url=page_server.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    problems: list[str] = []
    lines: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: lines.append(line.text))
    yield page
    context.close()
    assert problems + [line for line in lines if "Content Security Policy" in line] == []
