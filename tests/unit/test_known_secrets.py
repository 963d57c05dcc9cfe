"""Which secrets are known, and that the sandbox is given them (G6)."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, cast

import pytest

from agent.config import Settings, build_backend, load_settings, unchecked_settings
from agent.known_secrets import PROVIDER_KEYS, known_secrets, secret_filter
from agent.run import Run
from libs.gateway.redaction import SecretFilter


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)


def settings(env: Path | None = None, **overrides: object) -> Settings:
    return load_settings(env, **overrides)


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "mt-12345-abcde")  # stays outside: commands cannot see it
    assert known_secrets(settings()) == {}
    assert secret_filter(settings()) is None


def test_keys_of_models_wherever_they_stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
def test_what_commands_may_see_and_is_named_like_one(
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
    monkeypatch.setenv("OTHER_URL", "http://me:ou-1234-abcd@other")  # nobody's
    known = {"OPENAI_BASE_URL": "pa/ss-1234", "https_proxy": "px-1234-abcd"}
    assert known_secrets(settings()) == known
    monkeypatch.setenv("APPROVALS", "never")
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://me:pa%2Fss-1234@host/v1")
    assert known_secrets(unchecked_settings(None)) == known


def test_keys_that_packages_read_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls-1234-abcd")
    monkeypatch.setenv("OPENAI_API_KEY", "oa-1234-abcd")
    known = {"LANGSMITH_API_KEY": "ls-1234-abcd", "OPENAI_API_KEY": "oa-1234-abcd"}
    assert known_secrets(settings()) == known
    assert known_secrets(unchecked_settings(None)) == known


def test_what_the_file_sets(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER_TOKEN=ot-1234-abcd\nOTHER=plain-1234-abcd\n")
    assert known_secrets(settings(tmp_path / ".env")) == {"OTHER_TOKEN": "ot-1234-abcd"}


def test_every_provider_has_one_key() -> None:
    assert all(name.endswith("_API_KEY") for name in PROVIDER_KEYS.values())


def test_one_that_cannot_be_taken_is_named_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=ollama-xyz\nSOME_TOKEN=abc\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert secret_filter(settings(tmp_path / ".env")) is None
    named = [record.getMessage() for record in caplog.records]
    assert len(named) == 2
    assert [message.split()[0] for message in named] == ["OPENAI_API_KEY", "SOME_TOKEN"]
    assert not any("ollama" in message or "abc" in message for message in named)


def test_what_a_run_says_that_does_not_come_out_of_the_sandbox(tmp_path: Path) -> None:
    """A provider's error may repeat the key; a file that a command has made may be named like one."""
    known = SecretFilter({"KEY": "sk-1234-abcd"})
    run = Run(cast("Any", None), cast("Any", None), "t", tmp_path, known)
    assert run.ended("error", "Incorrect API key: sk-1234-abcd.").text == "Incorrect API key: [REDACTED]."


def test_the_sandbox_is_given_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_TOKEN", "t-1234-abcd")
    backend = build_backend(settings(None, workspace_dir=tmp_path, sandbox_env_allow="MY_*"))
    redact = backend.default.sandbox._redact  # type: ignore[attr-defined]
    assert redact("<t-1234-abcd>") == "<[REDACTED]>"
    without = build_backend(settings(None, workspace_dir=tmp_path))
    assert without.default.sandbox._redact is None  # type: ignore[attr-defined]
