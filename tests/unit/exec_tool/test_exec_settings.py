"""The settings of the one-tool agent: which keys programs get, and the size of the workspace."""

from __future__ import annotations

import pytest

from agent.config import load_settings
from agent.secrets.secret_values import PROVIDER_KEYS, known_secrets, own_variables

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
class TestPassedKeys:
    def test_no_keys_by_default(self) -> None:
        settings = load_settings(None)
        assert settings.variables_of_programs(own_variables(settings)) == {}

    def test_keys_are_passed_by_name_except_our_own(self) -> None:
        settings = load_settings(
            None,
            exec_pass_keys=True,
            egress_allow="https://api.github.com",
            egress_credentials='{"api.github.com": {"header": "Authorization", "secret": "GITHUB_API_KEY"}}',
        )
        assert settings.variables_of_programs(own_variables(settings)) == PASSED

    def test_passed_keys_are_known_secrets(self) -> None:
        known = known_secrets(load_settings(None, exec_pass_keys=True))
        assert known["WEATHER_API_KEY"] == PASSED["WEATHER_API_KEY"]
        assert known["API_KEY_MAPS"] == PASSED["API_KEY_MAPS"]
        assert "BASE_URL_SHOP" not in known


def test_workspace_takes_at_most_a_quarter_of_the_memory() -> None:
    assert load_settings(None).exec_disk_used == 256 << 20
    assert load_settings(None, sandbox_memory="512m", sandbox_tmp="64m").exec_disk_used == 128 << 20
