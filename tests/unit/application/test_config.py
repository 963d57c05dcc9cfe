"""Settings: values, refused values, and the model that is chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent import code_graph, exec_graph, graph
from agent.config import build_backend, build_model
from agent.secrets.secret_values import known_secrets
from agent.settings import ROOT, RULES, Settings, SettingsError, load_settings
from agent.settings.write_settings_docs import PAGE, env_example, with_table
from libs.models.deferred_model import DeferredChatModel, ModelUnavailable
from libs.sandbox.docker.container_config import variables


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*Settings.model_fields, "ANTHROPIC_API_KEY"]:
        monkeypatch.delenv(name.upper(), raising=False)


def test_arguments_win_over_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("RUN_MAX_CALLS=7\nRUN_MAX_SECONDS=8\nRUN_MAX_TOKENS=9\n")
    monkeypatch.setenv("RUN_MAX_SECONDS", "80")
    settings = load_settings(env_file, run_max_tokens=900)
    assert (settings.run_max_calls, settings.run_max_seconds, settings.run_max_tokens) == (7, 80, 900)


def test_lists_sizes_and_names(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    settings = load_settings(
        None,
        skills_dirs=f"{tmp_path}/one, {tmp_path}/two,",
        sandbox_env_allow="LANG,TZ , MY_*",
        sandbox_memory="1.5G",
        sandbox_image="localhost:5000/team/agent:v1",
        sandbox_browser="1",
    )
    assert settings.skills_dirs == (tmp_path / "one", tmp_path / "two")
    assert settings.sandbox_env_allow == ("LANG", "TZ", "MY_*")
    assert settings.sandbox_memory == 3 << 29
    assert settings.image == "localhost:5000/team/agent-browser:v1"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("APPROVALS", "never", "APPROVALS=never: input should be 'ask', 'effects' or 'auto'"),
        ("SANDBOX_MEMORY", "lots", "SANDBOX_MEMORY=lots: must be a number with k, m, g or t"),
        ("SANDBOX_MEMORY", "1m", "SANDBOX_MEMORY=1m: must lie between 64m and 1024t"),
        ("WORKSPACE_DIR", "/etc", "WORKSPACE_DIR=/etc: "),
        ("WORKSPACE_DIR", str(Path.home()), "WORKSPACE_DIR="),
        ("WORKSPACE_DIR", str(ROOT.parent), "WORKSPACE_DIR="),
        ("SANDBOX_TMP", "2g", "SANDBOX_TMP=2048m: must be at most half of SANDBOX_MEMORY, which is 2048m"),
        ("RUN_MAX_CALLS", "0", "RUN_MAX_CALLS=0: must be a whole number from 1 to 100,000"),
        ("RUN_MAX_CALLS", "abc", "RUN_MAX_CALLS=abc: must be a whole number from 1 to 100,000"),
        ("RUN_MAX_SECONDS", "604801", "RUN_MAX_SECONDS=604801: must be a number from 1 to 604,800"),
        ("SETUP_ENGINE", "maybe", "SETUP_ENGINE=maybe: must be 1 or 0"),
        ("SKILLS_DIRS", "/nowhere", "SKILLS_DIRS=/nowhere: /nowhere is not a folder"),
        ("MODEL", "gpt-5", "MODEL=gpt-5: must be provider:model, local, local:<file.gguf> or "),
        ("MODEL", "scripted:", "MODEL='scripted:': must be provider:model"),
        ("OPENAI_BASE_URL", "x:1", "OPENAI_BASE_URL=x:1: must begin with http:// or https://"),
    ],
)
def test_bad_value_is_named_with_the_allowed_values(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(None)
    assert str(caught.value).startswith(message)


def test_workspace_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace").touch()  # the default
    for given in (None, tmp_path / "workspace", tmp_path / "workspace" / "below"):
        with pytest.raises(SettingsError, match=r"^WORKSPACE_DIR=.* is not a folder: choose another"):
            load_settings(None, **({"workspace_dir": given} if given else {}))
    assert load_settings(None, workspace_dir=tmp_path / "new" / "folder").workspace_dir.name == "folder"


def test_skills_inside_the_workspace_are_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace/skills").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "workspace/skills/.."):
        with pytest.raises(SettingsError, match="apart from the workspace"):
            load_settings(None, workspace_dir=tmp_path / "workspace", skills_dirs=str(folder))


@pytest.mark.parametrize("place", ["{}", "{}/snapshots", "file://{}/snapshots"])
def test_snapshots_in_the_workspace_are_refused(tmp_path: Path, place: str) -> None:
    def loaded(where: str) -> Settings:
        return load_settings(None, workspace_dir=tmp_path / "workspace", snapshots_url=where)

    loaded(str(tmp_path / "snapshots"))
    with pytest.raises(SettingsError, match=r"SNAPSHOTS_URL=.*: is in the workspace"):
        loaded(place.format(tmp_path / "workspace"))


def test_rules_in_the_workspace_are_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "link.toml").symlink_to(tmp_path / "workspace" / "rules.toml")
    for place in (tmp_path / "workspace" / "rules.toml", tmp_path / "link.toml"):
        with pytest.raises(SettingsError, match=r"APPROVAL_RULES=.*: is in the workspace"):
            load_settings(None, workspace_dir=tmp_path / "workspace", approval_rules=place)


def test_threads_in_the_workspace_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "workspace" / "project"
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    monkeypatch.chdir(tmp_path / "link")
    with pytest.raises(SettingsError, match="the working directory is in the workspace"):
        load_settings(None, workspace_dir=tmp_path / "workspace")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sandbox_scope": "shared"}, "set SANDBOX_SCOPE=thread"),
        ({"app_env": "production", "database_url": "postgresql://h/d"}, "set DATABASE_URL and SNAPSHOTS_URL"),
        ({"app_env": "production", "snapshots_url": "s3://b/p"}, "set DATABASE_URL and SNAPSHOTS_URL"),
    ],
)
def test_cluster_is_refused_if_files_could_not_travel(
    tmp_path: Path, more: dict[str, str], message: str
) -> None:
    given: dict[str, Any] = {"sandbox_cluster": "auto", "sandbox_scope": "thread"}
    workspace = tmp_path / "workspace"
    assert load_settings(None, workspace_dir=workspace, **given).sandbox_wait == 60
    with pytest.raises(SettingsError, match=f"^SANDBOX_CLUSTER: .*{message}"):
        load_settings(None, workspace_dir=workspace, **(given | more))


def test_order_of_model_settings() -> None:
    openai = {"openai_base_url": "http://localhost:1/v1", "openai_api_key": "k", "openai_model": "gpt-x"}
    assert load_settings(None, model="anthropic:claude-x", **openai).chosen_model == "anthropic:claude-x"
    assert load_settings(None, **openai).chosen_model == "openai:gpt-x"
    assert load_settings(None, openai_base_url="http://h/v1").chosen_model == "openai:gpt-5-mini"
    assert load_settings(None).chosen_model == "local"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "openai:gpt-x"}, "OPENAI_API_KEY is not set, and openai:gpt-x needs it"),
        ({"model": "nobody:x"}, "MODEL=nobody:x cannot be used"),
        ({}, "No model is configured, and the local one is not ready: "),
    ],
)
def test_first_call_names_what_is_missing(
    settings: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # a cache without a local model
    model = build_model(load_settings(None, **settings))
    bound = model.bind_tools([])
    with pytest.raises(ModelUnavailable) as caught:
        bound.invoke("hi")
    assert str(caught.value).startswith(message)


def test_key_of_a_provider_may_be_in_the_file(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("MODEL=anthropic:claude-x\nANTHROPIC_API_KEY=from-the-file\n")
    settings = load_settings(env_file)
    model = build_model(settings)
    assert isinstance(model, DeferredChatModel)
    real = model.build()
    assert type(real).__name__ == "ChatAnthropic"
    assert real.anthropic_api_key.get_secret_value() == "from-the-file"  # type: ignore[attr-defined]
    assert "ANTHROPIC_API_KEY" not in os.environ


def test_generated_files_are_current() -> None:
    hint = "run: python -m agent.settings.write_settings_docs"
    assert (ROOT / ".env.example").read_text() == env_example(), hint
    assert PAGE.read_text() == with_table(PAGE.read_text()), hint
    assert dict(load_settings(ROOT / ".env.example")) == dict(load_settings(None))


@pytest.mark.parametrize(
    ("overrides", "seen"),
    [
        ({}, set()),
        ({"sandbox_env_allow": "CANARY_*"}, {"CANARY_A"}),
        ({"sandbox_env_inherit": "all"}, {"CANARY_A"}),
    ],
)
def test_variables_that_commands_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict[str, str], seen: set[str]
) -> None:
    monkeypatch.setenv("CANARY_A", "a")
    backend = build_backend(load_settings(None, workspace_dir=tmp_path / "workspace", **overrides))
    sandbox: Any = backend.default.sandbox  # type: ignore[attr-defined]
    inside = variables(sandbox._environment, None)
    assert {name for name in inside if name.startswith("CANARY_")} == seen
    assert "PATH" not in inside, "the container sets PATH"
    assert inside["HOME"] == "/tmp/home"


def test_database_url_counts_in_production_only(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:pass-9Zx8Kq3V@db/threads"
    monkeypatch.setenv("DATABASE_URL", url.replace("postgresql", "mysql"))  # another program's
    assert load_settings(None).postgres_url is None
    monkeypatch.setenv("APP_ENV", "production")
    with pytest.raises(SettingsError, match="DATABASE_URL: must begin with postgresql://") as refused:
        load_settings(None)
    monkeypatch.setenv("DATABASE_URL", url)
    settings = load_settings(None)
    assert settings.postgres_url == url
    assert "pass-9Zx8Kq3V" not in f"{refused.value} {settings!r} {settings.model_dump_json()}"
    assert known_secrets(settings)["DATABASE_URL"] == "pass-9Zx8Kq3V"


@pytest.mark.parametrize("module", [graph, code_graph, exec_graph])
def test_wrong_arguments_of_a_graph_are_refused_at_once(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError) as refused:
        module.build_graph("nonsense")
    monkeypatch.setenv("MODEL", "nonsense")
    with pytest.raises(SettingsError, match=r"^MODEL=nonsense: .*provider:model") as in_environment:
        load_settings(None)
    assert str(refused.value) == str(in_environment.value)
    monkeypatch.delenv("MODEL")
    with pytest.raises(TypeError, match="model is 123: give a chat model, or a name such as"):
        module.build_graph(123)
    with pytest.raises(TypeError, match="settings has the type dict: give load_settings"):
        module.build_graph(settings={"model": "local"})


def test_workspace_below_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings(None, workspace_dir="~/foo").workspace_dir == tmp_path / "foo"


@pytest.mark.parametrize("module", [graph, code_graph, exec_graph])
@pytest.mark.parametrize("named", [True, False])
def test_no_graph_is_built_with_a_wrong_rules_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = tmp_path / RULES
    rules.parent.mkdir()
    rules.write_text('[[rule]]\ntool = "execute"\nprefix = ["git"]\ndecision = "allow"\nmatch = ["ls"]\n')
    settings = load_settings(
        None, workspace_dir=tmp_path / "w", **({"approval_rules": rules} if named else {})
    )
    with pytest.raises(SettingsError, match=r"APPROVAL_RULES=.*: rule 1 .* the example 'ls' of match"):
        module.build_graph("openai:gpt-x", settings=settings)


def test_named_rules_file_must_exist(tmp_path: Path) -> None:
    settings = load_settings(None, workspace_dir=tmp_path / "w", approval_rules=tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="there is no such file"):
        graph.build_graph("openai:gpt-x", settings=settings)
