"""Settings: what is read, what is refused and how that is said, and which model they lead to."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel

from agent.config import (
    INTERRUPT_ON,
    ROOT,
    Settings,
    SettingsError,
    build_backend,
    build_model,
    load_settings,
)
from agent.known_secrets import known_secrets
from agent.settings_docs import configuration_md, env_example
from libs.models.deferred import DeferredChatModel, ModelUnavailable
from libs.models.scripted import ScriptedChatModel, ScriptError


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*Settings.model_fields, "ANTHROPIC_API_KEY"]:
        monkeypatch.delenv(name.upper(), raising=False)


def test_defaults_are_those_of_the_documentation() -> None:
    settings = load_settings(None)
    assert settings.workspace_dir == Path("workspace")
    assert settings.approvals == "ask"
    assert (settings.run_max_calls, settings.run_max_seconds, settings.run_max_tokens) == (
        60,
        1800,
        2_000_000,
    )
    limits = settings.limits
    assert (limits.memory, limits.tmp, limits.cpus, limits.pids) == (2 << 30, 256 << 20, 2, 256)
    assert (limits.timeout, limits.output_chars) == (120, 50_000)
    assert settings.sandbox_env_allow == ()
    assert set(INTERRUPT_ON) == {"execute", "edit_file", "delete", "execute_code"}


def test_the_environment_wins_over_the_file_and_arguments_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("RUN_MAX_CALLS=7\nRUN_MAX_SECONDS=8\nRUN_MAX_TOKENS=9\n")
    monkeypatch.setenv("RUN_MAX_SECONDS", "80")
    settings = load_settings(env_file, run_max_tokens=900)
    assert (settings.run_max_calls, settings.run_max_seconds, settings.run_max_tokens) == (7, 80, 900)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("code-execution-agent", "code-execution-agent-browser"),
        ("localhost:5000/team/agent", "localhost:5000/team/agent-browser"),
        ("localhost:5000/team/agent:v1", "localhost:5000/team/agent-browser:v1"),
    ],
)
def test_an_image_with_a_browser_goes_by_a_name_of_its_own(name: str, variant: str) -> None:
    assert load_settings(None, sandbox_image=name).image == name
    assert load_settings(None, sandbox_image=name, sandbox_browser="1").image == variant


def test_empty_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.setenv(name.upper(), "")
    settings = load_settings(None)
    assert settings.sandbox_memory == 2 << 30
    assert settings.chosen_model == "local"


def test_lists_and_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.setenv("SKILLS_DIRS", f"{tmp_path}/one, {tmp_path}/two,")
    monkeypatch.setenv("SANDBOX_ENV_ALLOW", "LANG,TZ , MY_*")
    monkeypatch.setenv("SANDBOX_MEMORY", "1.5G")
    monkeypatch.setenv("SANDBOX_TMP", "512mb")
    settings = load_settings(None)
    assert settings.skills_dirs == (tmp_path / "one", tmp_path / "two")
    assert settings.sandbox_env_allow == ("LANG", "TZ", "MY_*")
    assert (settings.sandbox_memory, settings.sandbox_tmp) == (3 << 29, 512 << 20)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("APPROVALS", "never", "APPROVALS=never: input should be 'ask' or 'auto'"),
        (
            "SANDBOX_MEMORY",
            "lots",
            "SANDBOX_MEMORY=lots: must be a number with k, m, g or t, such as 512m or 2g",
        ),
        ("SANDBOX_MEMORY", "1m", "SANDBOX_MEMORY=1m: must lie between 64m and 1024t"),
        ("SANDBOX_TMP", "2g", "SANDBOX_TMP=2048m: must be at most half of SANDBOX_MEMORY, which is 2048m"),
        ("SANDBOX_TIMEOUT", "7200", "SANDBOX_TIMEOUT=7200: input should be less than or equal to 3600"),
        ("RUN_MAX_CALLS", "0", "RUN_MAX_CALLS=0: input should be greater than or equal to 1"),
        ("SANDBOX_PIDS", "many", "SANDBOX_PIDS=many: input should be a valid integer"),
        ("SKILLS_DIRS", "/nowhere", "SKILLS_DIRS=/nowhere: /nowhere is not a folder"),
        ("MODEL", "gpt-5", "MODEL=gpt-5: must be provider:model, local or scripted:<file>"),
        (
            "OPENAI_BASE_URL",
            "localhost:1",
            "OPENAI_BASE_URL=localhost:1: must begin with http:// or https://",
        ),
        ("SANDBOX_ENV_INHERIT", "some", "SANDBOX_ENV_INHERIT=some: input should be 'none' or 'all'"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(None)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_each_bad_value_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPROVALS", "x" * 500)
    monkeypatch.setenv("SANDBOX_CPUS", "0")
    with pytest.raises(SettingsError) as caught:
        load_settings(None)
    lines = str(caught.value).splitlines()
    assert sorted(line.split("=")[0] for line in lines) == ["APPROVALS", "SANDBOX_CPUS"]
    assert max(map(len, lines)) < 200


def test_two_skill_folders_of_one_name_are_refused(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "same").mkdir(parents=True)
    with pytest.raises(SettingsError, match="two folders have the same name"):
        load_settings(None, skills_dirs=(tmp_path / "a/same", tmp_path / "b/same"))


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_bytes(b"MODEL=\xff\xfe\n")
    with pytest.raises(SettingsError, match=r"\.env: cannot be read"):
        load_settings(env_file)


def test_a_secret_is_in_no_rendering() -> None:
    settings = load_settings(None, openai_api_key="sk-very-secret")
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(build_model(settings))):
        assert "sk-very-secret" not in shown


def label(model: BaseChatModel) -> str:
    assert isinstance(model, DeferredChatModel)
    return model.label


def test_the_order_in_which_a_model_is_chosen() -> None:
    everything = {
        "model": "anthropic:claude-x",
        "openai_base_url": "http://localhost:1/v1",
        "openai_api_key": "k",
        "openai_model": "gpt-x",
    }
    assert label(build_model(load_settings(None, **everything))) == "anthropic:claude-x"
    assert label(build_model(load_settings(None, **everything | {"model": None}))) == "openai:gpt-x"
    assert label(build_model(load_settings(None, openai_base_url="http://h/v1"))) == "openai:gpt-5-mini"
    assert label(build_model(load_settings(None, openai_api_key="k"))) == "openai:gpt-5-mini"
    assert label(build_model(load_settings(None))) == "local"
    assert label(build_model(load_settings(None, openai_model="gpt-x"))) == "local"
    assert label(build_model(load_settings(None, model="local", openai_api_key="k"))) == "local"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "openai:gpt-x"}, "OPENAI_API_KEY is not set, and openai:gpt-x needs it"),
        ({"model": "anthropic:claude-x"}, "ANTHROPIC_API_KEY is not set, and anthropic:claude-x needs it"),
        ({"model": "nobody:x"}, "MODEL=nobody:x cannot be used"),
        ({}, "No model is configured, and the local one is not ready: "),
    ],
)
def test_what_is_missing_is_named_at_the_first_call(
    settings: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where no model was fetched
    model = build_model(load_settings(None, **settings))
    bound = model.bind_tools([])
    with pytest.raises(ModelUnavailable) as caught:
        bound.invoke("hi")
    assert str(caught.value).startswith(message)
    with pytest.raises(ModelUnavailable):
        asyncio.run(model.ainvoke("hi"))
    with pytest.raises(ModelUnavailable):
        list(model.stream("hi"))


def test_a_providers_key_may_be_in_the_file(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("MODEL=anthropic:claude-x\nANTHROPIC_API_KEY=from-the-file\n")
    settings = load_settings(env_file)
    model = build_model(settings)
    assert isinstance(model, DeferredChatModel)
    real = model.build()
    assert type(real).__name__ == "ChatAnthropic"
    assert real.anthropic_api_key.get_secret_value() == "from-the-file"  # type: ignore[attr-defined]
    assert model.build() is real
    assert "ANTHROPIC_API_KEY" not in os.environ


def test_a_script_is_read_when_the_model_is_made(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- text: hello\n")
    model = build_model(load_settings(None, model=f"scripted:{script}"))
    assert isinstance(model, ScriptedChatModel)
    assert model.invoke("hi").text == "hello"
    with pytest.raises(ScriptError, match=r"absent\.yaml"):
        build_model(load_settings(None, model="scripted:absent.yaml"))


def test_the_backend_routes_every_folder_of_skills(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    backend = build_backend(
        load_settings(None, workspace_dir=tmp_path / "workspace", skills_dirs=(tmp_path / "more",))
    )
    assert set(backend.routes) == {"/skills/", "/skills.d/more/"}
    assert backend.artifacts_root == "/workspace/.output"


def test_generated_files_are_current() -> None:
    hint = "run: python -m agent.settings_docs"
    assert (ROOT / ".env.example").read_text() == env_example(), hint
    assert (ROOT / "docs" / "configuration.md").read_text() == configuration_md(), hint


def test_the_example_sets_nothing(tmp_path: Path) -> None:
    assert dict(load_settings(ROOT / ".env.example")) == dict(load_settings(None))
    uncommented = tmp_path / ".env"
    settings = [line[2:] for line in env_example().splitlines() if re.match(r"# [A-Z_]+=", line)]
    assert len(settings) == len(Settings.model_fields)
    uncommented.write_text("\n".join(settings))
    assert dict(load_settings(uncommented)) == dict(load_settings(None))


def test_settings_load_without_the_agent_framework() -> None:
    code = "import sys, agent.config; print(sorted({'langchain', 'deepagents', 'docker'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    "folder", ["/", "/etc", "/home", "/usr/", "/tmp/..", str(Path.home()), str(ROOT), str(ROOT.parent)]
)
def test_a_folder_that_holds_more_is_no_workspace(folder: str) -> None:
    with pytest.raises(SettingsError, match="WORKSPACE_DIR"):
        load_settings(None, workspace_dir=folder)


def test_skills_and_workspace_are_apart(tmp_path: Path) -> None:
    (tmp_path / "workspace/skills").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "workspace/skills", tmp_path / "workspace/skills/.."):
        with pytest.raises(SettingsError, match="apart from the workspace"):
            load_settings(None, workspace_dir=tmp_path / "workspace", skills_dirs=str(folder))
    with pytest.raises(SettingsError, match="whole machine"):
        load_settings(None, workspace_dir=tmp_path / "workspace", skills_dirs="/")


@pytest.mark.parametrize(
    ("overrides", "seen"),
    [
        ({}, set()),
        ({"sandbox_env_allow": "CANARY_A"}, {"CANARY_A"}),
        ({"sandbox_env_allow": "CANARY_*"}, {"CANARY_A", "CANARY_B"}),
        ({"sandbox_env_inherit": "all"}, {"CANARY_A", "CANARY_B"}),
    ],
)
def test_the_variables_that_commands_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict[str, str], seen: set[str]
) -> None:
    monkeypatch.setenv("CANARY_A", "a")
    monkeypatch.setenv("CANARY_B", "b")
    backend = build_backend(load_settings(None, workspace_dir=tmp_path / "workspace", **overrides))
    variables = backend.default.sandbox._variables(None)  # type: ignore[attr-defined]
    assert {name for name in variables if name.startswith("CANARY_")} == seen
    assert "PATH" not in variables, "it is the container's own"
    assert variables["HOME"] == "/tmp/home"


def test_where_a_threads_files_are(tmp_path: Path) -> None:
    shared = load_settings(None, workspace_dir=tmp_path)
    assert shared.workspace_of("a") == tmp_path
    own = load_settings(None, workspace_dir=tmp_path, sandbox_scope="thread")
    assert own.workspace_of("a") == tmp_path / "threads" / "a"
    assert own.workspace_of("../b").parent == tmp_path / "threads"


def test_threads_are_in_postgres_only_where_both_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:pass-9Zx8Kq3V@db/threads"
    monkeypatch.setenv("DATABASE_URL", url)
    assert load_settings(None).postgres_url is None
    monkeypatch.setenv("APP_ENV", "production")
    settings = load_settings(None)
    assert settings.postgres_url == url
    assert "pass-9Zx8Kq3V" not in repr(settings) + settings.model_dump_json()
    assert known_secrets(settings)["DATABASE_URL"] == "pass-9Zx8Kq3V"
    monkeypatch.delenv("DATABASE_URL")
    assert load_settings(None).postgres_url is None


def test_another_programs_database_is_no_concern_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://me:pass-9Zx8Kq3V@db/shop")
    assert load_settings(None).postgres_url is None
    monkeypatch.setenv("APP_ENV", "production")
    with pytest.raises(SettingsError, match="DATABASE_URL: must begin with postgresql://") as refused:
        load_settings(None)
    assert "pass-9Zx8Kq3V" not in str(refused.value)
