"""The settings of what may leave: how they are read, what is said of those that cannot be (G1, G2, G5)."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from agent.config import ROOT, Settings, SettingsError, load_settings
from agent.known_secrets import known_secrets, secret_filter
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


def with_credentials(env: Path, *more: str) -> Settings:
    env.write_text("\n".join([f"EGRESS_CREDENTIALS={CREDENTIALS}", *more]))
    return load_settings(env)


def test_unset_nothing_leaves() -> None:
    settings = load_settings(None)
    assert (settings.egress_allow, settings.egress_credentials, settings.egress_private) == ((), (), ())
    assert settings.egress_packages is False
    assert (settings.egress_rate, settings.egress_max_bytes, settings.egress_seconds) == (600, 2 << 30, 600)


def test_as_the_environment_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ({"egress_allow": "*"}, "EGRESS_ALLOW=*: "),
        ({"egress_allow": "*.com"}, "EGRESS_ALLOW=*.com: "),
        ({"egress_allow": "https://a.example/path"}, "EGRESS_ALLOW=https://a.example/path: "),
        ({"egress_private": "10.1.2.3/8"}, "EGRESS_PRIVATE=10.1.2.3/8: 10.1.2.3/8 must be written as 10."),
        ({"egress_private": "office"}, "EGRESS_PRIVATE=office: office must be a network such as 10.1.0.0/16"),
        ({"egress_private": "0.0.0.0/0"}, "EGRESS_PRIVATE=0.0.0.0/0: 0.0.0.0/0 is every address"),
        ({"egress_private": "::/0"}, "EGRESS_PRIVATE=::/0: ::/0 is every address"),
        ({"egress_rate": "0"}, "EGRESS_RATE=0: input should be greater than or equal to 1"),
        ({"egress_max_bytes": "1"}, "EGRESS_MAX_BYTES=1: must lie between 1k and 1024t"),
        ({"egress_max_bytes": "much"}, "EGRESS_MAX_BYTES=much: must be a number with k, m, g or t"),
        ({"egress_seconds": "0"}, "EGRESS_SECONDS=0: input should be greater than or equal to 1"),
        ({"egress_packages": "perhaps"}, "EGRESS_PACKAGES=perhaps: input should be a valid boolean"),
        ({"egress_credentials": "{"}, "EGRESS_CREDENTIALS: must be JSON such as {"),
        (
            {"egress_credentials": CREDENTIALS},
            "EGRESS_CREDENTIALS names api.github.com, which EGRESS_ALLOW does not let through: "
            "add https://api.github.com to EGRESS_ALLOW",
        ),
        (
            {"egress_credentials": CREDENTIALS, "egress_allow": "http://api.github.com,*.api.github.com"},
            "EGRESS_CREDENTIALS names api.github.com, which EGRESS_ALLOW does not let through",
        ),
        (
            {"egress_credentials": CREDENTIALS, "egress_allow": "api.github.com"},
            "EGRESS_CREDENTIALS names GITHUB_TOKEN for api.github.com, and it is not set: set it in the "
            "environment or in .env, or take the host out",
        ),
    ],
)
def test_what_cannot_be_is_named_with_what_to_do(overrides: dict[str, str], message: str) -> None:
    assert refused(**overrides).startswith(message)


@pytest.mark.parametrize(
    "allow",
    ["api.github.com", "*.github.com", "https://api.github.com:8443", "x.example:9,api.github.com:8443"],
)
def test_a_host_with_a_credential_may_be_allowed_in_any_way(
    monkeypatch: pytest.MonkeyPatch, allow: str
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    assert load_settings(None, egress_allow=allow, egress_credentials=CREDENTIALS).egress_credentials


def test_a_secret_in_the_place_of_its_name_is_not_repeated() -> None:
    for text in (
        CREDENTIALS.replace("GITHUB_TOKEN", TOKEN),
        CREDENTIALS.replace("}}", f', "{TOKEN}": 1}}}}'),
    ):
        assert TOKEN not in refused(egress_credentials=text, egress_allow="api.github.com")


def test_the_secret_may_be_in_the_file(tmp_path: Path) -> None:
    settings = with_credentials(tmp_path / ".env", "EGRESS_ALLOW=api.github.com", f"GITHUB_TOKEN={TOKEN}")
    assert settings.egress_credentials[0].secret == "GITHUB_TOKEN"
    assert TOKEN not in repr(settings)


def test_a_secret_that_cannot_be_told_from_other_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="its value cannot be used: it is shorter"):
        with_credentials(tmp_path / ".env", "EGRESS_ALLOW=api.github.com", "GITHUB_TOKEN=abc")


class TestRedaction:
    def test_the_secret_is_known_whatever_its_variable_is_called(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PLAIN_NAME", TOKEN)
        text = CREDENTIALS.replace("GITHUB_TOKEN", "PLAIN_NAME")
        settings = load_settings(None, egress_allow="api.github.com", egress_credentials=text)
        assert known_secrets(settings) == {"PLAIN_NAME": TOKEN}
        redact = secret_filter(settings)
        assert redact is not None
        assert redact(f"<{TOKEN}>") == "<[REDACTED]>"
        stands = placeholder("PLAIN_NAME")
        assert redact(stands) is stands

    def test_a_placeholder_is_no_secret_whatever_its_variable_is_called(self, tmp_path: Path) -> None:
        env = tmp_path / ".env"
        env.write_text(f"GITHUB_TOKEN={placeholder('GITHUB_TOKEN')}\nOTHER_TOKEN={TOKEN}\n")
        assert known_secrets(load_settings(env)) == {"OTHER_TOKEN": TOKEN}


def test_settings_without_egress_cost_no_time() -> None:
    code = (
        "import sys; from agent.config import load_settings; load_settings(None); "
        "print(sorted({'h11', 'cryptography', 'idna', 'publicsuffixlist'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "[]\n"


def test_a_sandbox_starts_without_what_only_serves_connections() -> None:
    heavy = "{'h11', 'httpx', 'httpcore', 'ssl', 'cryptography', 'idna', 'publicsuffixlist', 'http.client'}"
    code = (
        "import sys; from agent.config import load_settings; settings = load_settings(None); "
        "before = set(sys.modules); from agent.egress import build_gateway; build_gateway(settings).door(); "
        f"print(sorted({heavy} & (set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "[]\n"
