"""The settings of the one-tool agent: which keys programs get, and the size of the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.config import build_model, load_settings
from agent.models import keys_in_use
from agent.secrets.secret_values import PROVIDER_KEYS, known_secrets
from agent.settings import Settings

OTHERS = {
    "WEATHER_API_KEY": "w-4711-4711",
    "API_KEY_MAPS": "m-4711-4711",
    "BASE_URL_SHOP": "http://shop.example",
}
PROVIDERS = {
    name: f"{name}-4711"
    for name in (*PROVIDER_KEYS.values(), "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "WATSONX_API_KEY")
}
SERVICES = {name: f"{name}-4711" for name in ("BRAVE_API_KEY", "LANGSMITH_API_KEY", "GITHUB_API_KEY")}
KEYS = {**OTHERS, **PROVIDERS, **SERVICES}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "KEY": "x", "MY_API_KEYS": "x", "XAPI_KEY_": "x"}.items():
        monkeypatch.setenv(name, value)


def passed(settings: Settings, model: Any = None) -> dict[str, str]:
    return settings.variables_of_programs(keys_in_use(settings, model))


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in KEYS.items() if name not in names}


def test_no_keys_by_default() -> None:
    assert passed(load_settings(None)) == {}


@pytest.mark.parametrize(
    ("model", "withheld"),
    [
        ("openai:gpt-x", ["OPENAI_API_KEY"]),
        ("anthropic:claude-x", ["ANTHROPIC_API_KEY"]),
        ("google_genai:gemini-x", ["GOOGLE_API_KEY"]),
        ("azure_openai:gpt-x", ["AZURE_OPENAI_API_KEY"]),
        ("ibm:granite-x", ["WATSONX_API_KEY"]),
        ("scripted:script.yaml", []),
    ],
)
def test_key_of_the_model_in_use_is_withheld(model: str, withheld: list[str]) -> None:
    assert passed(load_settings(None, exec_pass_keys=True, model=model)) == without(*withheld)


def test_key_of_the_embedder_is_withheld() -> None:
    settings = load_settings(None, exec_pass_keys=True, model="local", embedder="cohere:embed-x")
    assert passed(settings) == without("COHERE_API_KEY")


def test_key_of_a_model_that_the_caller_chose_is_withheld() -> None:
    from langchain_anthropic import ChatAnthropic  # takes 2 s

    settings = load_settings(None, exec_pass_keys=True, model="openai:gpt-x")
    named = build_model(settings, "anthropic:claude-x")
    made = ChatAnthropic(model_name="claude-x", timeout=None, stop=None)
    assert passed(settings, named) == passed(settings, made) == without("ANTHROPIC_API_KEY")


def test_key_of_the_model_is_withheld_under_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY_LLM", PROVIDERS["OPENAI_API_KEY"])
    assert passed(load_settings(None, exec_pass_keys=True)) == without("OPENAI_API_KEY")


@pytest.mark.parametrize("setting", [{"sandbox_env_allow": "OPENAI_*"}, {"sandbox_env_inherit": "all"}])
def test_key_of_the_model_is_passed_where_a_person_names_it(setting: dict[str, str]) -> None:
    settings = load_settings(None, exec_pass_keys=True, model="openai:gpt-x", **setting)
    assert passed(settings).items() >= KEYS.items()


def test_secret_of_the_gateway_is_withheld() -> None:
    settings = load_settings(
        None,
        exec_pass_keys=True,
        model="local",
        egress_allow="https://api.github.com",
        egress_credentials='{"api.github.com": {"header": "Authorization", "secret": "GITHUB_API_KEY"}}',
    )
    assert passed(settings) == without("GITHUB_API_KEY")


def test_keys_of_the_file_are_passed_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    file.write_text("FILE_API_KEY=f-4711-4711\nBRAVE_API_KEY=of-the-file\nWEATHER_API_KEY=wf-4711-4711\n")
    monkeypatch.setenv("WEATHER_API_KEY", "")
    settings = load_settings(file, exec_pass_keys=True, model="local")
    assert passed(settings) == {**KEYS, "FILE_API_KEY": "f-4711-4711", "WEATHER_API_KEY": "wf-4711-4711"}


def test_passed_keys_are_known_secrets() -> None:
    known = known_secrets(load_settings(None, exec_pass_keys=True))
    assert known["WEATHER_API_KEY"] == KEYS["WEATHER_API_KEY"]
    assert known["API_KEY_MAPS"] == KEYS["API_KEY_MAPS"]
    assert "BASE_URL_SHOP" not in known


def test_workspace_takes_at_most_a_quarter_of_the_memory() -> None:
    assert load_settings(None).exec_disk_used == 256 << 20
    assert load_settings(None, sandbox_memory="512m", sandbox_tmp="64m").exec_disk_used == 128 << 20
