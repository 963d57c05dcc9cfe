"""The EGRESS_* settings: how they are read, and the errors for invalid values."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from agent.secrets.secret_values import known_secrets, secret_filter
from agent.settings import ROOT, SettingsError, load_settings
from libs.gateway.credentials import CredentialRule, placeholder

TOKEN = "ghp_4f9XqT7bZuAb3dEfGh"
CREDENTIALS = '{"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN"}}'


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)


def refused(**overrides: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, **overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "EGRESS_ALLOW": "https://api.github.com, *.example.com,example.org:8080,",
        "EGRESS_PACKAGES": "1",
        "EGRESS_CREDENTIALS": CREDENTIALS,
        "EGRESS_PRIVATE": "10.1.0.0/16, 192.168.1.7,fd00::/8",
        "EGRESS_RATE": "60",
        "EGRESS_MAX_BYTES": "10m",
        "EGRESS_SECONDS": "1.5",
        "GITHUB_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(None)
    assert settings.egress_allow == ("https://api.github.com", "*.example.com", "example.org:8080")
    assert settings.egress_packages is True
    assert settings.egress_credentials == (
        CredentialRule("api.github.com", "Authorization", "GITHUB_TOKEN", "Bearer {}"),
    )
    networks = ("10.1.0.0/16", "192.168.1.7/32", "fd00::/8")
    assert settings.egress_private == tuple(ip_network(network) for network in networks)
    assert (settings.egress_rate, settings.egress_max_bytes, settings.egress_seconds) == (60, 10 << 20, 1.5)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"egress_allow": "*.com"}, "EGRESS_ALLOW=*.com: "),
        ({"egress_private": "10.1.2.3/8"}, "EGRESS_PRIVATE=10.1.2.3/8: 10.1.2.3/8 must be written as 10."),
        ({"egress_private": "office"}, "EGRESS_PRIVATE=office: office must be a network such as 10.1.0.0/16"),
        ({"egress_private": "0.0.0.0/0"}, "EGRESS_PRIVATE=0.0.0.0/0: 0.0.0.0/0 is every address"),
        ({"egress_rate": "0"}, "EGRESS_RATE=0: must be a whole number from 1 to 1,000,000"),
        ({"egress_max_bytes": "1"}, "EGRESS_MAX_BYTES=1: must lie between 1k and 1024t"),
        ({"egress_seconds": "0"}, "EGRESS_SECONDS=0: must be a number from 1 to 604,800"),
        ({"egress_packages": "perhaps"}, "EGRESS_PACKAGES=perhaps: must be 1 or 0"),
        ({"egress_credentials": "{"}, "EGRESS_CREDENTIALS: must be JSON such as {"),
        (
            {"egress_credentials": CREDENTIALS, "egress_allow": "http://api.github.com,*.api.github.com"},
            "EGRESS_CREDENTIALS names api.github.com, which EGRESS_ALLOW does not let through: "
            "add https://api.github.com to EGRESS_ALLOW",
        ),
        (
            {"egress_credentials": CREDENTIALS, "egress_allow": "api.github.com"},
            "EGRESS_CREDENTIALS names GITHUB_TOKEN for api.github.com, and it is not set: set it in the "
            "environment or in .env, or take the host out",
        ),
    ],
)
def test_invalid_setting_is_named_with_a_hint(overrides: dict[str, str], message: str) -> None:
    assert refused(**overrides).startswith(message)


@pytest.mark.parametrize("allow", ["*.github.com", "https://api.github.com:8443"])
def test_credential_host_may_be_allowed_by_wildcard_or_port(
    monkeypatch: pytest.MonkeyPatch, allow: str
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    assert load_settings(None, egress_allow=allow, egress_credentials=CREDENTIALS).egress_credentials


def test_secret_may_be_in_the_env_file(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text(f"EGRESS_CREDENTIALS={CREDENTIALS}\nEGRESS_ALLOW=api.github.com\nGITHUB_TOKEN={TOKEN}")
    settings = load_settings(env)
    assert settings.egress_credentials[0].secret == "GITHUB_TOKEN"
    assert TOKEN not in repr(settings)


def test_secret_is_redacted_whatever_its_variable_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_NAME", TOKEN)
    text = CREDENTIALS.replace("GITHUB_TOKEN", "PLAIN_NAME")
    settings = load_settings(None, egress_allow="api.github.com", egress_credentials=text)
    assert known_secrets(settings) == {"PLAIN_NAME": TOKEN}
    redact = secret_filter(settings)
    assert redact is not None
    assert redact(f"<{TOKEN}>") == "<[REDACTED]>"
    stands = placeholder("PLAIN_NAME")
    assert redact(stands) is stands


@pytest.mark.thorough
def test_heavy_imports_wait_for_the_first_connection() -> None:
    """Settings and the start of a sandbox do not import what only connections need."""
    code = """
import sys
from agent.config import load_settings
settings = load_settings(None)
heavy = {"h11", "httpx", "httpcore", "cryptography", "idna", "publicsuffixlist", "http.client"}
print(sorted(heavy & set(sys.modules)))
from libs.gateway.gateway_thread import Gateway
Gateway(lambda: None).door()
print(sorted(heavy & set(sys.modules)))
from agent.parts.egress_gateway import build_gateway
build_gateway(settings).door()
print(sorted({"h11", "cryptography", "publicsuffixlist"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "[]\n" * 3
