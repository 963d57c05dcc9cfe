"""A web browser that stays open from call to call: for pages that need JavaScript, clicks or a form.

All programs of the sandbox share one browser: what one opens, the next reads. It ends at `close()`, or after
ten minutes without a call. A target is text that can be seen (of a button, link, field, label or heading), a
CSS selector, or `role=…`, `text=…`, `label=…`, `css=…`, `xpath=…`. Import the module, not its functions:
two of them have names of Python's own.

    from skills import browser

    browser.open("https://example.org/login")
    browser.type("User name", "ada")
    print(browser.click("Sign in").url)
    print(browser.text())
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

__all__ = ["BrowserError", "Page", "click", "close", "html", "open", "screenshot", "text", "type"]

MAX_SECONDS = 600


class BrowserError(RuntimeError):
    """What could not be done in the browser, why, and where it can be said, what would do."""


class Page(NamedTuple):
    """The page after a call: address, title, HTTP status (0: unknown), paths of downloaded files."""

    url: str
    title: str
    status: int
    downloads: tuple[str, ...]


def open(url: str, timeout: float = 30) -> Page:
    """Open an address (http, https, a file of the sandbox) in the tab in use, and return the page.

    Waits until it has loaded, at most 10 seconds once it has begun to come: then what is there can be used.
    A file that is offered is downloaded to /results/downloads instead, and named in the output. Starts the
    browser where none runs. `timeout` is in seconds, here and below.

    Example:
        page = browser.open("https://example.org")

    Raises:
        BrowserError: it cannot be reached, is not allowed, did not answer in time, or there is no browser.
        ValueError: `url` is not an http or https address.
    """
    return _page(_ask("open", timeout, url=_address(url)))


def click(target: str, answer: bool | str = False, timeout: float = 10) -> Page:
    """Click what `target` names, wait for what that sets off, and return the page.

    A dialog that comes up is cancelled, or with `answer=True` confirmed; a text answers a prompt. A new tab
    is the one in use from then on, until it is closed. Downloads are waited for.

    Example:
        browser.click("Sign in")

    Raises:
        BrowserError: nothing of that name can be seen, several things can, or it cannot be clicked.
    """
    return _page(_ask("click", timeout, target=_target(target), answer=answer))


def type(target: str, text: str, submit: bool = False, timeout: float = 10) -> Page:
    """Put `text` into the field that `target` names, in place of what it holds, and return the page.

    `target` is its label, placeholder, name or CSS selector. In a list of choices `text` is chosen; in a
    field for files it is the path of one. `submit` presses Enter afterwards.

    Example:
        browser.type("Search", "sandbox", submit=True)

    Raises:
        BrowserError: there is no such field, or several, or it does not take that.
    """
    return _page(
        _ask("type", timeout, target=_target(target), text=text, submit=submit, folder=str(Path.cwd()))
    )


def screenshot(name: str, target: str | None = None, full_page: bool = False, timeout: float = 30) -> str:
    """Save a picture as /results/<name>, a .png (or .jpg), and return its path. A file there is replaced.

    Of what can be seen, of `target` alone, or of the page from top to bottom (16,000 pixels at most).

    Example:
        path = browser.screenshot("start.png", full_page=True)

    Raises:
        ValueError: `name` leads out of /results or is not a file name.
    """
    from skills.file._results import as_shown, results_file

    path = results_file(name, ".png", (".jpg", ".jpeg"))
    chosen = None if target is None else _target(target)
    _ask("screenshot", timeout, path=str(path), target=chosen, full_page=full_page)
    return as_shown(path)


def text(target: str | None = None, timeout: float = 10) -> str:
    """Return the text that can be seen on the page, or in all that `target` names, a line end between them.

    Example:
        print(browser.text("main"))
    """
    return str(_ask("text", timeout, target=None if target is None else _target(target)))


def html(target: str | None = None, timeout: float = 10) -> str:
    """Return the HTML of the page as it is now, or of all that `target` names.

    Example:
        rows = browser.html("table")
    """
    return str(_ask("html", timeout, target=None if target is None else _target(target)))


def close(tab: bool = False) -> None:
    """End the browser, with its cookies and what it has open; or `tab=True`: close the tab in use alone.

    Example:
        browser.close()
    """
    _ask("close", 30, tab=tab)


def _ask(do: str, seconds: float, **arguments: object) -> Any:
    # Imported here, so that importing the skill stays cheap.
    from skills.browser._server_client import ask

    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"timeout is {seconds}: it is a number of seconds, at most {MAX_SECONDS}")
    answer = ask(do, seconds, arguments)
    for note in answer["notes"]:
        print(f"[{note}]", flush=True)
    if "error" in answer:
        raise BrowserError(answer["error"])
    return answer["value"]


def _page(value: dict[str, Any]) -> Page:
    return Page(value["url"], value["title"], value["status"], tuple(value["downloads"]))


def _target(target: str) -> str:
    if not target.strip():
        raise ValueError("target is empty: give the text on it, its label, or a CSS selector")
    return target.strip()


def _address(url: str) -> str:
    url = url.strip()
    if url == "about:blank" or re.match(r"(?i)https?://[^/\s]", url):
        return url
    scheme = re.match(r"(?i)([a-z][a-z0-9+.-]*):(?!\d)", url)  # localhost:8000 has none
    file = Path(unquote(url[7:]) if url.lower().startswith("file:///") else url)
    if file.is_absolute() and not url.startswith("//"):
        if not file.is_file():
            raise ValueError(f"there is no file {file}")
        return file.as_uri()
    if scheme or not re.match(r"[^/\s?#]+(?:[/?#]|$)", url):
        raise ValueError(
            f"no address that can be opened: {url!r}; give one that begins with http:// or https://"
        )
    host = re.split(r"[/:?#]", url, maxsplit=1)[0]
    return f"{'http' if host in ('localhost', '127.0.0.1') else 'https'}://{url}"
