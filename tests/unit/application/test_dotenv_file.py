"""Errors in `.env`: lines that cannot be read, and misspelt names of settings."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.commands.doctor import check_all
from agent.secrets.secret_values import PROVIDER_KEYS
from agent.settings import SettingsError, load_settings, unchecked_settings


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    return Path(".env")


def test_line_that_cannot_be_read_is_an_error_with_file_and_line(
    env_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env_file.write_text(
        "# a comment\nMODEL: foo\n\nAPPROVALS=auto\nexport RUN_MAX_CALLS=7\nBRAVE_API_KEY='x\n"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(env_file)
    assert str(caught.value) == (
        ".env, line 2: cannot be read. Write NAME=value.\n.env, line 6: cannot be read. Write NAME=value."
    )
    # The variables of the other lines are known, and python-dotenv's own warnings are not printed.
    assert unchecked_settings(env_file).dotenv() == {"APPROVALS": "auto", "RUN_MAX_CALLS": "7"}
    settings = check_all()[0]
    assert (settings.name, settings.ok) == ("settings", False)
    assert ".env, line 2" in settings.detail
    assert [record for record in caplog.records if record.name.startswith("dotenv")] == []


def test_name_near_a_setting_is_named_once(env_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    env_file.write_text("MODELL=local\nAPPROVAL=auto\nSANDBOX_MEM=1g\nOPENAI_KEY=sk-0123456789\n")
    near = {
        "APPROVAL": "APPROVALS",
        "MODELL": "MODEL",
        "OPENAI_KEY": "OPENAI_API_KEY",
        "SANDBOX_MEM": "SANDBOX_MEMORY",
    }
    expected = [f"{name} in .env is not a setting. Did you mean {right}?" for name, right in near.items()]
    with caplog.at_level(logging.WARNING, "agent.settings"):
        assert load_settings(env_file).misspelt() == expected
        load_settings(env_file)
    assert sorted(record.message for record in caplog.records if ".env" in record.message) == expected


def test_doctor_shows_each_misspelt_name_once(env_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    env_file.write_text("APROVALS=auto\nSANDBOX_MEMRY=1g\n")
    shown = [check for check in check_all() if check.name == "settings"]
    assert [check.ok for check in shown] == [False, False]
    assert [check.detail for check in shown] == load_settings(env_file).misspelt()
    assert caplog.text == ""
    printed = CliRunner().invoke(app, ["doctor"]).output
    assert "Did you mean APPROVALS? Correct the name" in printed


def test_doctor_with_wrong_values_judges_no_default(env_file: Path) -> None:
    env_file.write_text("APPROVALS=maybe\nSANDBOX_CPUS=many\nWORKSPACE_DIR=elsewhere\n")
    checks = check_all()
    wrong = [check.detail for check in checks if check.name == "settings"]
    assert [line.partition(":")[0] for line in wrong] == ["SANDBOX_CPUS=many", "APPROVALS=maybe"]
    assert {"workspace", "model", "image", "reload"}.isdisjoint(check.name for check in checks)
    assert "CA certificates" in {check.name for check in checks}


def test_short_name_and_beginning_of_a_name_are_near(env_file: Path) -> None:
    env_file.write_text("MODLE=openai:gpt\nSANDBOX=x\nWORKSPACE=foo\n")
    assert load_settings(env_file).misspelt() == [
        "MODLE in .env is not a setting. Did you mean MODEL?",
        "WORKSPACE in .env is not a setting. Did you mean WORKSPACE_DIR?",
    ]


def test_variables_of_other_programs_are_not_named(env_file: Path) -> None:
    others = [
        *(
            "OPENAI_API_TYPE",
            "OPENAI_ORG_ID",
            "AZURE_OPENAI_API_KEY",
            "TAVILY_API_KEY",
            "HTTPS_PROXY",
            "PATH",
        ),
        *("DB_URL", "APP_NAME", "NODE_ENV", "LANGSMITH_TRACING", "API_KEY_WEATHER", "MODEL_NAME", "model"),
        *PROVIDER_KEYS.values(),
    ]
    mine = (
        'EGRESS_ALLOW=api.x.org\nEGRESS_CREDENTIALS={"api.x.org": {"header":"A","secret":"OPEN_API_KEY"}}\n'
        "OPEN_API_KEY=k3y-0123456789abcdef\nSANDBOX_ENV_ALLOW=AUTH_TOK*\nAUTH_TOKEN=x\n"
    )
    env_file.write_text("".join(f"{name}=local\n" for name in others) + mine)
    assert load_settings(env_file).misspelt() == []
