"""The settings of the one-tool agent: what is passed on, what never is, and where things are (X6)."""

from __future__ import annotations

import pytest

from agent.config import load_settings
from agent.known_secrets import PROVIDER_KEYS, known_secrets, own_variables

PASSED = {
    "WEATHER_API_KEY": "w-4711-4711",
    "API_KEY_MAPS": "m-4711-4711",
    "BASE_URL_SHOP": "http://shop.example",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *PROVIDER_KEYS.values(),
        "OPENAI_API_KEY",
        "BRAVE_API_KEY",
        "LANGSMITH_API_KEY",
        "GITHUB_API_KEY",
    ):
        monkeypatch.setenv(name, "own-4711-4711")
    for name, value in {**PASSED, "KEY": "x", "MY_API_KEYS": "x", "XAPI_KEY_": "x"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
class TestPassedOn:
    def test_nothing_by_default(self) -> None:
        settings = load_settings(None)
        assert settings.passed_keys(own_variables(settings)) == {}

    def test_by_their_names_and_never_this_applications_own(self) -> None:
        settings = load_settings(
            None,
            exec_pass_keys=True,
            egress_allow="https://api.github.com",
            egress_credentials='{"api.github.com": {"header": "Authorization", "secret": "GITHUB_API_KEY"}}',
        )
        assert settings.passed_keys(own_variables(settings)) == PASSED

    def test_what_is_passed_on_is_a_known_secret(self) -> None:
        known = known_secrets(load_settings(None, exec_pass_keys=True))
        assert known["WEATHER_API_KEY"] == PASSED["WEATHER_API_KEY"]
        assert known["API_KEY_MAPS"] == PASSED["API_KEY_MAPS"]
        assert "BASE_URL_SHOP" not in known


def test_a_working_directory_takes_a_quarter_of_the_memory_at_most() -> None:
    assert load_settings(None).exec_disk_used == 256 << 20
    assert load_settings(None, sandbox_memory="512m", sandbox_tmp="64m").exec_disk_used == 128 << 20
