"""What the model of the one-tool agent is told: one tool, true figures, interfaces from one file (X1, X9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent import exec_prompt
from agent.config import load_settings
from agent.exec_catalogue import FILE, load_catalogue, shown_apis
from libs.exec_tool.call import Call
from libs.exec_tool.runner import CodeRunner
from libs.exec_tool.tool import execute_code_tool

CATALOGUE = load_catalogue()


def test_the_tool_has_these_parameters_and_no_others() -> None:
    tool = execute_code_tool(CodeRunner.__new__(CodeRunner), description=exec_prompt.TOOL)
    schema = convert_to_openai_tool(tool)["function"]
    assert schema["name"] == "execute_code"
    assert set(schema["parameters"]["properties"]) == {"code", "dependencies", "files", "args", "language"}
    assert schema["parameters"]["required"] == ["code"]
    assert schema["parameters"]["additionalProperties"] is False
    assert len(json.dumps(schema)) < 2_500


def test_every_parameter_is_documented() -> None:
    assert set(CATALOGUE.parameters) == set(Call.model_fields)


def test_these_interfaces_are_documented() -> None:
    names = [api.name for api in CATALOGUE.apis]
    assert names == ["Brave Search", "GitHub", "OpenAI", "Anthropic", "Open-Meteo", "News feed"]


@pytest.mark.parametrize("api", CATALOGUE.apis, ids=lambda api: api.name)
def test_an_example_is_a_program_that_asks_its_host(api: object) -> None:
    example, host = api.example, api.host  # type: ignore[attr-defined]
    compile(example, "example", "exec")
    assert f"https://{host}/" in example
    assert "timeout=" in example
    assert '"ok": True' in example


@pytest.mark.parametrize("good", CATALOGUE.good, ids=lambda good: good.task)
def test_good_programs_compile(good: object) -> None:
    compile(good.code, "good", "exec")  # type: ignore[attr-defined]


def test_packages_that_are_said_to_be_there_are_in_the_image() -> None:
    pinned = (Path(__file__).parents[2] / "libs/backends/docker/requirements.txt").read_text().lower()
    assert [each.name for each in CATALOGUE.packages if f"{each.name.lower()}==" not in pinned] == []


def test_an_interface_is_shown_in_full_where_it_can_be_reached() -> None:
    text = shown_apis(CATALOGUE, load_settings(None, egress_allow="https://api.github.com"))
    reached, _, others = text.partition("Not reachable now")
    assert "### GitHub" in reached
    assert all(part in reached for part in ("60 an hour", 'rel="next"', "404 not there", "issues?state=open"))
    assert "### Brave Search" not in text
    assert "Brave Search" in others
    assert "GitHub" not in others


def test_by_default_none_is_said_to_be_reachable() -> None:
    text = exec_prompt.system_prompt(load_settings(None), CATALOGUE)
    assert "###" not in text
    assert "There is no network" in text
    assert all(api.endpoint in text for api in CATALOGUE.apis)


def test_figures_come_from_the_settings() -> None:
    text = exec_prompt.system_prompt(
        load_settings(None, exec_seconds=7, sandbox_memory="1g", sandbox_pids=99, exec_disk="64m"), CATALOGUE
    )
    assert "7 seconds, installing included; 1,024 MB of memory" in text
    assert "64 MB; 99 processes" in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"egress_packages": "1"}, "installed before the program starts, as wheels"),
        ({"egress_packages": "0"}, "EGRESS_PACKAGES is 0"),
        ({"approvals": "ask"}, "A person approves each program first"),
        ({"approvals": "auto"}, "Programs run at once"),
    ],
)
def test_what_is_said_is_what_is_set(settings: dict[str, str], said: str) -> None:
    assert said in exec_prompt.system_prompt(load_settings(None, **settings), CATALOGUE)


def test_without_a_second_try_none_is_promised() -> None:
    assert "comes back with its error class" in exec_prompt.system_prompt(load_settings(None), CATALOGUE)
    text = exec_prompt.system_prompt(load_settings(None, exec_repairs=0), CATALOGUE)
    assert "comes back with its error class" not in text
    assert "no second try" in text


def test_rules_are_stated() -> None:
    text = exec_prompt.system_prompt(load_settings(None), CATALOGUE)
    for rule in (
        "a whole program",
        "no Markdown",
        "No other tools",
        "last thing printed is one JSON",
        "Deterministic",
    ):
        assert rule in text, rule
    assert "Keys and tokens are never printed" in text
    assert text.count("Good, for") == len(CATALOGUE.good)
    assert text.count("Bad (") == len(CATALOGUE.bad)


def test_an_entry_needs_no_code(tmp_path: Path) -> None:
    entry = """
  - name: Tides
    use: the times of tides
    host: tides.example
    endpoint: GET https://tides.example/v1
    auth: none
    example: |
      print(1)
    response: a list
    rate_limit: none
    pagination: none
    errors: none
"""
    file = tmp_path / "catalogue.yaml"
    file.write_text(FILE.read_text().replace("\ngood:", f"{entry}\ngood:"))
    text = shown_apis(load_catalogue(file), load_settings(None, egress_allow="https://tides.example"))
    assert "### Tides: the times of tides" in text


def test_an_entry_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text(FILE.read_text().replace("rate_limit: 600", "limit: 600"))
    with pytest.raises(ValueError, match=r"apis\.4"):
        load_catalogue(file)
