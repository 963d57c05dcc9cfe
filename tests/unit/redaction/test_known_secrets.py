"""Which values count as known secrets."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from agent.secrets.secret_values import known_secrets, secret_filter
from agent.settings import Settings, load_settings, unchecked_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)


def settings(env: Path | None = None, **overrides: object) -> Settings:
    return load_settings(env, **overrides)


def test_variables_that_commands_cannot_see_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "mt-12345-abcde")
    assert known_secrets(settings()) == {}
    assert secret_filter(settings()) is None


def test_keys_of_models_in_file_environment_and_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = tmp_path / ".env"
    env.write_text("OPENAI_API_KEY=from-the-file-1\nGROQ_API_KEY=gr-file-12\nANTHROPIC_API_KEY=an-file-12\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "an-environment-12")
    assert known_secrets(settings(env)) == {
        "OPENAI_API_KEY": "from-the-file-1",
        "GROQ_API_KEY": "gr-file-12",
        "ANTHROPIC_API_KEY": "an-environment-12",
    }
    assert known_secrets(settings(None, openai_api_key="given-12")) == {
        "OPENAI_API_KEY": "given-12",
        "ANTHROPIC_API_KEY": "an-environment-12",
    }


@pytest.mark.parametrize("let_in", [{"sandbox_env_inherit": "all"}, {"sandbox_env_allow": "MY_*"}])
def test_variables_that_commands_see_and_that_are_named_like_secrets(
    monkeypatch: pytest.MonkeyPatch, let_in: dict[str, str]
) -> None:
    secrets = {
        "MY_TOKEN": "t-1234-abcd",
        "MY_KEY": "k-1234-abcd",
        "MY_SECRET_2": "s-1234-abcd",
        "MY_DB_PASSWORD": "p-1234-abcd",
        "my_api_key": "a-1234-abcd",
    }
    others = {"MY_LANG": "de_DE.UTF-8", "MY_KEY_FILE": "/home/me/.ssh/id", "MY_KEY_ID": "AKIA1234567"}
    for name, value in {**secrets, **others}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_DATABASE_URL", "postgres://me:pa%2Fss-1234@db/x")
    if "sandbox_env_allow" in let_in:
        secrets.pop("my_api_key")
    assert known_secrets(settings(None, **let_in)) == {**secrets, "MY_DATABASE_URL": "pa/ss-1234"}


def test_passwords_in_urls_of_settings_and_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:pa%2Fss-1234@host/v1")
    monkeypatch.setenv("https_proxy", "http://me:px-1234-abcd@proxy:3128")
    monkeypatch.setenv("OTHER_URL", "http://me:ou-1234-abcd@other")  # no setting of ours
    known = {"OPENAI_BASE_URL": "pa/ss-1234", "https_proxy": "px-1234-abcd"}
    assert known_secrets(settings()) == known
    monkeypatch.setenv("APPROVALS", "never")
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://me:pa%2Fss-1234@host/v1")
    assert known_secrets(unchecked_settings(None)) == known


def test_keys_that_packages_read_and_tokens_of_the_env_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls-1234-abcd")
    (tmp_path / ".env").write_text("OTHER_TOKEN=ot-1234-abcd\nOTHER=plain-1234-abcd\n")
    known = {"LANGSMITH_API_KEY": "ls-1234-abcd", "OTHER_TOKEN": "ot-1234-abcd"}
    assert known_secrets(settings(tmp_path / ".env")) == known


def test_credentials_of_mcp_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("NOTES_TOKEN", "NOTES_FOLDER"):
        monkeypatch.setenv(variable, f"{variable.lower()}-1234")
    notes = {
        "command": "sh",
        "args": [
            *(
                "--header",
                "Authorization: Bearer ${NOTES_TOKEN}",
                "${NOTES_FOLDER}",
                "--api-key",
                "ak-1234-abcd",
            ),
            *("--secret=se-1234-abcd", "--key-file", "/home/me/.ssh/id", "postgres://me:pa-1234-abcd@db/x"),
        ],
        "env": {"MY_SECRET": "ms-1234-abcd", "MY_LANG": "de_DE.UTF-8"},
    }
    web = {
        "url": "https://me:ur-1234-abcd@example.org/mcp?theApiKey=qu-1234-abcd&region=europe-west",
        "headers": {"Authorization": "Bearer au-1234-abcd", "X-Region": "europe-west"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": notes, "web": web}}))
    assert known_secrets(settings(mcp_config=tmp_path / "mcp.json")) == {
        "NOTES_TOKEN of notes": "notes_token-1234",
        "api_key of notes": "ak-1234-abcd",
        "secret of notes": "se-1234-abcd",
        "args of notes": "pa-1234-abcd",
        "MY_SECRET of notes": "ms-1234-abcd",
        "url of web": "ur-1234-abcd",
        "theApiKey of web": "qu-1234-abcd",
        "Authorization of web": "au-1234-abcd",
    }


def test_unusable_secret_is_named_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=ollama-xyz\nSOME_TOKEN=abc\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert secret_filter(settings(tmp_path / ".env")) is None
    named = [record.getMessage() for record in caplog.records]
    assert len(named) == 2
    assert [message.split()[0] for message in named] == ["OPENAI_API_KEY", "SOME_TOKEN"]
    assert not any("ollama" in message or "abc" in message for message in named)
