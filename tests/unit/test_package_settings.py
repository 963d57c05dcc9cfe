"""What pip and npm on the host say they are set to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from libs.gateway.errors import GatewayError
from libs.gateway.packages.host_settings import Index, npm_settings, pip_settings, without_secrets

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="this host has no npm")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing is set, and no variable that sets anything; below it `pip.conf` is pip's."""
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
    def test_its_own_default(self, bare: Path) -> None:
        settings = pip_settings()
        assert [index.url for index in settings.indexes] == [PyPI.simple_url]
        assert settings.pages == ()

    def test_a_file(self, bare: Path) -> None:
        (bare / "wheels").mkdir()
        (bare / "pip.conf").write_text(
            "[global]\nindex-url = https://one.example/simple\ncert = /nowhere/ca.pem\n"
            f"find-links = {bare / 'wheels'}\n    https://links.example/all.html\n"
            "proxy = http://proxy.example:8080\n"
            "[install]\nextra-index-url = https://two.example/simple\n    file:///three/simple\n"
        )
        settings = pip_settings()
        assert [index.url for index in settings.indexes] == [
            "https://one.example/simple",
            "https://two.example/simple",
            "file:///three/simple",
        ]
        assert [page.url for page in settings.pages] == [
            (bare / "wheels").as_uri(),
            "https://links.example/all.html",
        ]
        assert settings.reach.trusted == ("/nowhere/ca.pem",)
        assert settings.reach.proxy == "http://proxy.example:8080"

    def test_variables_come_before_files(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (bare / "pip.conf").write_text("[global]\nindex-url = https://one.example/simple\n")
        monkeypatch.setenv("PIP_INDEX_URL", "https://two.example/simple")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/bundle.pem")
        settings = pip_settings()
        assert [index.url for index in settings.indexes] == ["https://two.example/simple"]
        assert "/nowhere/bundle.pem" in settings.reach.trusted

    def test_credentials_leave_the_url(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_INDEX_URL", "https://me:p%40ss-5e9b1f7c@one.example/simple")
        [index] = pip_settings().indexes
        assert index.url == "https://one.example/simple"
        assert index.secret == "p@ss-5e9b1f7c"
        assert "5e9b1f7c" not in repr(index)

    def test_credentials_of_netrc(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_INDEX_URL", "https://one.example/simple")
        (bare / ".netrc").write_text("machine one.example login me password s3cr3t-4711\n")
        (bare / ".netrc").chmod(0o600)
        [index] = pip_settings().indexes
        assert index.secret == "s3cr3t-4711"

    def test_no_index(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(bare))
        settings = pip_settings()
        assert (settings.indexes, len(settings.pages)) == ((), 1)

    def test_plain_http_counts_where_pip_trusts_it(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_INDEX_URL", "http://one.example/simple")
        assert pip_settings().indexes == ()
        monkeypatch.setenv("PIP_TRUSTED_HOST", "one.example")
        assert [index.url for index in pip_settings().indexes] == ["http://one.example/simple"]

    def test_a_file_that_it_cannot_read(self, bare: Path, caplog: pytest.LogCaptureFixture) -> None:
        (bare / "pip.conf").write_text("index-url = https://me:s3cr3t-4711@one.example\n")
        with pytest.raises(GatewayError, match="pip on the host does not say") as raised:
            pip_settings()
        assert "4711" not in str(raised.value)
        assert caplog.records


@needs_npm
class TestNpm:
    def test_its_own_default(self, bare: Path) -> None:
        settings = npm_settings()
        assert settings.registry.url.startswith("https://")
        assert settings.registry.authorization == ""
        assert settings.scopes == {}

    def test_files_and_variables(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert settings.reach.trusted == (str(bare / "extra.pem"),)
        assert "AAAA" in settings.reach.certificates
        assert (settings.reach.proxy, settings.reach.no_proxy) == ("http://proxy.example:8080", "one.example")

    def test_credentials_of_another_registry_are_not_taken(self, bare: Path) -> None:
        (bare / ".npmrc").write_text(
            "registry=https://one.example/\n//two.example/:_authToken=npm_s3cr3t4711\n"
        )
        assert npm_settings().registry.authorization == ""


def test_a_host_without_npm_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatewayError, match="the host has no npm"):
        npm_settings()


def test_credentials_are_taken_out_of_answers() -> None:
    redact = without_secrets(
        [Index("https://one.example/", "Basic bWU6czNjcjN0LTQ3MTE="), Index("https://x/")]
    )
    assert redact(b"it is s3cr3t-4711.") == b"it is [REDACTED]."
    assert b"czNjcjN0LTQ3" not in redact(b"or bWU6czNjcjN0LTQ3MTE=")
