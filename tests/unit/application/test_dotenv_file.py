"""Errors in `.env`: lines that cannot be read, and misspelt names of settings."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.commands.command_output import read_settings
from agent.commands.machine.doctor import check_all
from agent.secrets.secret_values import PROVIDER_KEYS, secret_filter
from agent.settings import ROOT, Settings, SettingsError, checked_settings, load_settings, unchecked_settings
from tests.support.canaries import listening

KEY = "sk-ant-5e9b1f7c2a8d4f60"
ALONE = """
import os
from agent.graph import build_graph
graph = build_graph()
print(os.environ.get("LANGSMITH_TRACING"), os.environ.get("OTHER"), os.environ.get("approvals"))
list(graph.stream({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}}))
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
"""
EDITED = """
import os
from pathlib import Path
from langgraph.checkpoint.memory import InMemorySaver
from agent.graph import build_graph, graph  # graph exports the variables of the first file
from agent.settings import load_settings
file = Path(".env")
file.write_text(file.read_text().replace("auto", "ask").replace("first", "second").replace("GONE", "# "))
made = build_graph(checkpointer=InMemorySaver())
state = made.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})
print([asked.value["action_requests"][0]["name"] for asked in state["__interrupt__"]])
print([os.environ.get(name) for name in ("OF_FILE", "OF_BOTH", "GONE")])
print(load_settings().secret("GROQ_API_KEY").get_secret_value())
file.write_text(file.read_text().replace("ask", "auto"))
print(load_settings().approvals)
os.chdir("elsewhere")
print(load_settings().approvals)
"""


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    return Path(".env")


def test_line_that_cannot_be_read_is_an_error_with_file_and_line(
    env_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env_file.write_text(
        "# a comment\n\nMODEL: foo\n\nAPPROVALS=auto\nexport RUN_MAX_CALLS=7\nMODEL=\n\n"
        "INTERRUPT_MODE\nexport SANDBOX_SCOPE\nBRAVE_API_KEY='x\n"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(env_file)
    assert str(caught.value).splitlines() == [
        f".env, line {number}: cannot be read. Write NAME=value." for number in (3, 9, 10, 11)
    ]
    # The variables of the other lines are known, and python-dotenv's own warnings are not printed.
    assert unchecked_settings(env_file).dotenv() == {"APPROVALS": "auto", "RUN_MAX_CALLS": "7"}
    settings = check_all()[0]
    assert (settings.name, settings.ok) == ("settings", False)
    assert ".env, line 3" in settings.detail
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
    assert [check.detail for check in shown] == checked_settings(env_file).misspelt()
    assert caplog.text == ""
    printed = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "300"}).output
    assert "Did you mean APPROVALS? Correct the name" in printed
    assert "?." not in printed
    states = {line.split("\t")[0] for line in printed.splitlines() if "is not a setting" in line}
    assert states == {"WARNING"}


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


def test_setting_without_a_secret_gets_no_warning_about_redaction(
    env_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The names look like those of secrets."""
    env_file.write_text("AUTH_TOKEN=x\nEXEC_PASS_KEYS=1\nAUTH_TOKENS=alice\nMY_TOKEN=short\n")
    with pytest.raises(SettingsError, match="AUTH_TOKENS"):
        load_settings(env_file)
    assert secret_filter(unchecked_settings(env_file)) is None
    assert [record.message for record in caplog.records] == [
        "MY_TOKEN is not redacted where it is printed: it is shorter than 8 characters"
    ]


def test_commands_that_prepare_a_program_leave_the_hint_to_it(
    env_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`make dev` starts several of them before the server."""
    env_file.write_text("MODELL=local\n")
    assert read_settings().misspelt()
    assert caplog.records == []


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


def python(program: str, folder: Path, **added: str) -> list[str]:
    """Run a program in a folder and return its printed lines. The environment has no setting."""
    names = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name.upper() not in names}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "DOCKER_HOST": "unix:///nonexistent"} | added,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.thorough
def test_build_graph_alone_exports_variables_of_packages(tmp_path: Path) -> None:
    """The variables switch tracing on, so the traces must be redacted, too."""
    (tmp_path / "script.json").write_text(json.dumps([{"text": f"The key is {KEY}, and a frog jumps."}] * 2))
    with listening() as tracing:
        (tmp_path / ".env").write_text(
            "MODEL=scripted:script.json\napprovals=auto\nOTHER=of the file\nLANGSMITH_TRACING=true\n"
            f"ANTHROPIC_API_KEY={KEY}\nLANGSMITH_API_KEY=lsv2_pt_5e9b1f7c2a8d\n"
            f"LANGSMITH_ENDPOINT=http://127.0.0.1:{tracing.port}\n"
        )
        assert python(ALONE, tmp_path, OTHER="") == ["true of the file None"]
        parts = [part for body in tracing.bodies for part in body.split(b"\r\n--")]
    # Other parts describe the model, and the script is a part of this model.
    outputs = b"".join(part for part in parts if b'.outputs"' in part)
    assert b"The key is [REDACTED], and a frog jumps." in outputs
    assert KEY.encode() not in outputs


@pytest.mark.thorough
def test_later_change_of_the_file_holds_for_the_next_graph(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    call = {"name": "execute", "args": {"command": "true"}}
    (tmp_path / "script.json").write_text(json.dumps([{"tool_calls": [call]}, {"text": "Done."}]))
    (tmp_path / ".env").write_text(
        "MODEL=scripted:script.json\nAPPROVALS=auto\nOF_FILE=first\nOF_BOTH=first\nGROQ_API_KEY=first-key\nGONE=x\n"
    )

    assert python(EDITED, tmp_path, OF_BOTH="of the environment") == [
        "['execute']",
        "['second', 'of the environment', None]",
        "second-key",
        "auto",
        "ask",
    ]
