"""`skills.browser` where it needs no browser: arguments, the proxy, names of files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.browser")


@pytest.fixture
def network(browser: Any) -> Any:
    return importlib.import_module("skills.browser._network")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://example.org/a b?c", "https://example.org/a b?c"),
        (" HTTP://example.org ", "HTTP://example.org"),
        ("example.org", "https://example.org"),
        ("example.org/login?next=/a:b", "https://example.org/login?next=/a:b"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("about:blank", "about:blank"),
    ],
)
def test_addresses_as_people_write_them(browser: Any, url: str, address: str) -> None:
    assert browser._address(url) == address


@pytest.mark.parametrize(
    "url", ["", "ftp://a", "javascript:x", "data:text/html,x", "chrome://gpu", "//a", "http://", "?a", "a b"]
)
def test_what_is_no_address(browser: Any, url: str) -> None:
    with pytest.raises(ValueError, match="no address that can be opened"):
        browser._address(url)


@pytest.mark.parametrize("seconds", [0, -1, 601, float("nan")])
def test_a_timeout_is_a_number_of_seconds(browser: Any, seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        browser.text(timeout=seconds)


@pytest.mark.parametrize("call", ["click", "text", "html"])
def test_a_target_says_something(browser: Any, call: str) -> None:
    with pytest.raises(ValueError, match="target is empty"):
        getattr(browser, call)(" ")


def test_without_a_browser_nothing_is_started(
    browser: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = importlib.import_module("skills.browser._link")
    for module in (link, importlib.import_module("skills.browser._processes")):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "browser")
    monkeypatch.setattr(link, "SOCKET", tmp_path / "browser" / "socket")
    monkeypatch.setattr(link, "PROGRAMS", ("no-such-program",))
    for call in (lambda: browser.open("example.org"), lambda: browser.click("x")):
        with pytest.raises(browser.BrowserError, match="SANDBOX_BROWSER=1"):
            call()
    browser.close()
    assert list(tmp_path.iterdir()) == []


def test_the_proxy_is_that_of_the_environment(network: Any) -> None:
    proxy = "http://127.0.0.1:3128"
    assert network.proxy_arguments({}) == []
    assert network.proxy_arguments({"HTTPS_PROXY": proxy, "NO_PROXY": "localhost, 127.0.0.1,::1,.corp,"}) == [
        f"--proxy-server=https={proxy}",
        "--proxy-bypass-list=<-loopback>;localhost;127.0.0.1;[::1];localhost;127.0.0.1;.corp",
    ]
    assert network.proxy_arguments({"ALL_PROXY": proxy})[0] == f"--proxy-server=http={proxy};https={proxy}"


def test_certificates_are_told_apart(network: Any, tmp_path: Path) -> None:
    one = "-----BEGIN CERTIFICATE-----\nb25l\n-----END CERTIFICATE-----\n"
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"# a name\n{one}-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n{one}")
    assert network._bodies(bundle) == [b"one"]
    assert network._bodies(tmp_path / "none.pem") == []
