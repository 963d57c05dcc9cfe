"""Settings of pip and npm on the host, as the gateway reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.packages.host_index_settings import Index, npm_settings, pip_settings


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home; no variable configures pip or npm, and `pip.conf` there is pip's file."""
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "CERT", "PROXY", "TRUSTED_HOST"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("NPM_CONFIG_GLOBALCONFIG", str(tmp_path / "global.npmrc"))
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / ".npmrc"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.conf").write_text("")
    return tmp_path


class TestPip:
    def test_default_index_of_pip(self, bare: Path) -> None:
        assert [index.url for index in pip_settings().indexes] == [PyPI.simple_url]

    def test_variables_win_over_files(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (bare / "wheels").mkdir()
        (bare / "pip.conf").write_text(
            "[global]\nindex-url = https://one.example/simple\ncert = /nowhere/ca.pem\n"
            f"find-links = {bare / 'wheels'}\n    https://links.example/all.html\n"
            "proxy = http://proxy.example:8080\n"
            "[install]\nextra-index-url = https://two.example/simple\n    file:///three/simple\n"
        )
        settings = pip_settings()
        more = ["https://two.example/simple", "file:///three/simple"]
        assert [index.url for index in settings.indexes] == ["https://one.example/simple", *more]
        assert [page.url for page in settings.pages] == [
            (bare / "wheels").as_uri(),
            "https://links.example/all.html",
        ]
        assert (settings.network.trusted, settings.network.proxy) == (
            ("/nowhere/ca.pem",),
            "http://proxy.example:8080",
        )
        monkeypatch.setenv("PIP_INDEX_URL", "https://own.example/simple")
        assert [index.url for index in pip_settings().indexes] == ["https://own.example/simple", *more]

    def test_credentials_of_urls_and_netrc(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/bundle.pem")
        monkeypatch.setenv("PIP_INDEX_URL", "https://me:p%40ss-5e9b1f7c@one.example/simple")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://two.example/simple")
        (bare / ".netrc").write_text("machine two.example login me password s3cr3t-4711\n")
        (bare / ".netrc").chmod(0o600)
        settings = pip_settings()
        assert "/nowhere/bundle.pem" in settings.network.trusted
        one, two = settings.indexes
        assert (one.url, one.secret, two.secret) == (
            *("https://one.example/simple", "p@ss-5e9b1f7c", "s3cr3t-4711"),
        )
        assert "5e9b1f7c" not in repr(one)

    def test_no_index(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(bare))
        settings = pip_settings()
        assert (settings.indexes, len(settings.pages)) == ((), 1)

    def test_plain_http_only_for_trusted_hosts(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_INDEX_URL", "http://one.example/simple")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://two.example/simple")
        monkeypatch.setenv("PIP_TRUSTED_HOST", "one.example")
        assert [index.url for index in pip_settings().indexes] == ["http://one.example/simple"]

    def test_broken_settings_file_is_an_error_without_secrets(
        self, bare: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (bare / "pip.conf").write_text("index-url = https://me:s3cr3t-4711@one.example\n")
        with pytest.raises(GatewayError, match="pip on the host does not say") as raised:
            pip_settings()
        assert "4711" not in str(raised.value)
        assert caplog.records


class TestNpm:
    def test_settings_of_npm(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (bare / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        monkeypatch.setenv("THE_TOKEN", "npm_s3cr3t4711")
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(bare / "extra.pem"))
        (bare / ".npmrc").write_text(
            "registry=https://one.example/npm/all/\n"
            "@corp:registry=https://two.example/\n"
            "//one.example/npm/:_authToken=${THE_TOKEN}\n"
            "//two.example/:username=me\n//two.example/:_password=czNjcjN0LTQ3MTE=\n"
            f"cafile={bare / 'ca.pem'}\nhttps-proxy=http://proxy.example:8080\nnoproxy=one.example\n"
        )
        settings = npm_settings()
        assert settings.registry == Index("https://one.example/npm/all/", "Bearer npm_s3cr3t4711")
        assert settings.scopes["@corp"].secret == "s3cr3t-4711"
        assert settings.network.trusted == (str(bare / "extra.pem"),)
        assert "AAAA" in settings.network.certificates
        assert (settings.network.proxy, settings.network.no_proxy) == (
            "http://proxy.example:8080",
            "one.example",
        )


def test_missing_npm_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatewayError, match="the host has no npm"):
        npm_settings()
