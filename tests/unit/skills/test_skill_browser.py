"""`skills.browser` without a browser: arguments, proxy settings and names of files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.browser")


@pytest.fixture
def network(browser: Any) -> Any:
    return importlib.import_module("skills.browser._network")


@pytest.mark.parametrize("url", ["", "ftp://a", "javascript:x", "//a", "http://", "a b"])
def test_wrong_address_is_refused(browser: Any, url: str) -> None:
    with pytest.raises(ValueError, match="no address that can be opened"):
        browser._address(url)


def test_image_without_browser_is_an_error(
    browser: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = importlib.import_module("skills.browser._server_client")
    for module in (link, importlib.import_module("skills.browser._processes")):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "browser")
    monkeypatch.setattr(link, "SOCKET", tmp_path / "browser" / "socket")
    monkeypatch.setattr(link, "PROGRAMS", ("no-such-program",))
    for call in (lambda: browser.open("example.org"), lambda: browser.click("x")):
        with pytest.raises(browser.BrowserError, match="SANDBOX_BROWSER=1"):
            call()
    browser.close()
    assert list(tmp_path.iterdir()) == []


def test_proxy_of_the_environment_is_used(network: Any) -> None:
    proxy = "http://127.0.0.1:3128"
    assert network.proxy_arguments({}) == []
    assert network.proxy_arguments({"HTTPS_PROXY": proxy, "NO_PROXY": "localhost, 127.0.0.1,::1,.corp,"}) == [
        f"--proxy-server=https={proxy}",
        "--proxy-bypass-list=<-loopback>;localhost;127.0.0.1;[::1];localhost;127.0.0.1;.corp",
    ]
    assert network.proxy_arguments({"ALL_PROXY": proxy})[0] == f"--proxy-server=http={proxy};https={proxy}"
