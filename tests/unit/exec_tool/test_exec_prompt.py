"""The prompt of the one-tool agent: tool schema, settings, and the catalogue of interfaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent.config import load_settings
from agent.prompts import exec_prompt
from agent.prompts.exec_catalogue import FILE, load_catalogue, shown_apis
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.langchain_tool import execute_code_tool
from libs.exec_tool.outcome import last_json
from libs.exec_tool.program_runner import CodeRunner

CATALOGUE = load_catalogue()


def test_tool_schema() -> None:
    tool = execute_code_tool(CodeRunner.__new__(CodeRunner), description=exec_prompt.TOOL)
    schema = convert_to_openai_tool(tool)["function"]
    assert schema["name"] == "execute_code"
    assert set(schema["parameters"]["properties"]) == {"code", "dependencies", "files", "args", "language"}
    assert schema["parameters"]["required"] == ["code"]
    assert schema["parameters"]["additionalProperties"] is False
    assert len(json.dumps(schema)) < 2_500


async def test_text_as_input_is_refused() -> None:
    tool = execute_code_tool(CodeRunner.__new__(CodeRunner))
    for told in (tool.invoke("print(5)"), await tool.ainvoke("print(5)")):
        error = json.loads(told)["error"]
        assert error["class"] == "input"
        assert error["message"].startswith('The input must be an object, such as {"code": "print(1)"}')


def test_catalogue_documents_parameters_and_interfaces() -> None:
    assert set(CATALOGUE.parameters) == set(Call.model_fields)
    names = [api.name for api in CATALOGUE.apis]
    assert names == ["Brave Search", "GitHub", "OpenAI", "Anthropic", "Open-Meteo", "News feed"]


@pytest.mark.parametrize("api", CATALOGUE.apis, ids=lambda api: api.name)
def test_example_is_a_program_that_calls_its_host(api: object) -> None:
    example, host = api.example, api.host  # type: ignore[attr-defined]
    compile(example, "example", "exec")
    assert f"https://{host}/" in example
    assert "timeout=" in example
    assert '"ok": True' in example


def test_packages_are_in_the_image_or_installable() -> None:
    pinned = (Path(__file__).parents[3] / "libs/backends/docker/requirements.txt").read_text()
    in_image = {line.partition("==")[0] for line in pinned.splitlines()}
    there, installable = (
        {name for names in group.values() for name in names}
        for group in (CATALOGUE.packages.installed, CATALOGUE.packages.installable)
    )
    assert there <= in_image
    assert not installable & in_image
    uses = {*CATALOGUE.packages.installed, *CATALOGUE.packages.installable}
    assert {"HTTP", "scraping", "data", "validation", "XML", "dates"} <= uses


def test_installable_packages_are_shown_where_they_can_be_installed() -> None:
    for settings, tools in (({}, True), ({"egress_packages": "1"}, False), ({"egress_packages": "1"}, True)):
        text = exec_prompt.system_prompt(load_settings(None, **settings), CATALOGUE, tools=tools)
        assert "HTTP: requests; " in text
        shown = bool(settings) and tools
        assert ("validation: pydantic, jsonschema; " in text) is shown
        assert ('`dependencies`: ["croniter>=2"]\n`args`: {"schedule"' in text) is shown
        assert ('`files`: {"meetings.csv": ' in text) is tools


CREDENTIALS = '{"api.search.brave.com": {"header": "X-Subscription-Token", "secret": "MY_BRAVE"}}'
BRAVE = {"egress_allow": "https://api.search.brave.com"}


@pytest.mark.parametrize(
    ("more", "passed", "said"),
    [
        ({}, [], ["Programs are given none.", "the key is in BRAVE_API_KEY, which is not set here."]),
        (
            {},
            ["BRAVE_API_KEY", "SHOP_API_KEY"],
            [
                "The program has these variables of the user: BRAVE_API_KEY, SHOP_API_KEY.",
                "header X-Subscription-Token: the key is in BRAVE_API_KEY.",
                'os.environ["BRAVE_API_KEY"]',
            ],
        ),
        (
            {"egress_credentials": CREDENTIALS},
            [],
            [
                "To requests to api.search.brave.com, the gateway adds the key in the header "
                "X-Subscription-Token; here MY_BRAVE holds a placeholder.",
                "header X-Subscription-Token: the gateway puts the key there (MY_BRAVE is a placeholder).",
                'os.environ["MY_BRAVE"]',
            ],
        ),
    ],
)
def test_prompt_says_where_keys_are(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str], passed: list[str], said: list[str]
) -> None:
    monkeypatch.setenv("MY_BRAVE", "BSA-5e9b1f7c2a8d")
    text = exec_prompt.system_prompt(load_settings(None, **BRAVE, **more), CATALOGUE, passed=passed)
    assert [part for part in said if part not in text] == []
    assert ("gateway" in text) is bool(more)
    assert ("Programs are given none." in text) is not (more or passed)


def test_prompt_shows_the_request_of_a_search() -> None:
    without = exec_prompt.system_prompt(load_settings(None), CATALOGUE)
    searching = load_settings(None, search_provider="searxng", searxng_url="http://localhost:8888")
    text = exec_prompt.system_prompt(searching, CATALOGUE)
    assert "GET http://search.gateway/search?q=" in text
    assert "skill" not in text
    assert "search.gateway" not in without


def test_reachable_interface_is_shown_in_full() -> None:
    text = shown_apis(CATALOGUE, load_settings(None, egress_allow="https://api.github.com"))
    reached, _, others = text.partition("Not reachable now")
    assert "### GitHub" in reached
    assert all(part in reached for part in ("60 an hour", 'rel="next"', "404 not there", "issues?state=open"))
    assert "### Brave Search" not in text
    assert "Brave Search" in others
    assert "GitHub" not in others


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"egress_packages": "1"}, "installed before the program starts, as wheels"),
        ({"approvals": "ask"}, "A person approves each program first"),
        ({}, "There is no network"),
        ({"exec_seconds": "7"}, "7 seconds, installing included"),
        ({"exec_repairs": "0"}, "no second try"),
    ],
)
def test_prompt_states_the_settings(settings: dict[str, str], said: str) -> None:
    assert said in exec_prompt.system_prompt(load_settings(None, **settings), CATALOGUE)


def test_prompt_states_the_rules() -> None:
    text = exec_prompt.system_prompt(load_settings(None, egress_packages="1"), CATALOGUE)
    for rule in ("a whole program", "no Markdown", "No other tools", "last thing printed is one JSON"):
        assert rule in text, rule
    assert "Deterministic" in text
    assert "Keys and tokens are never printed" in text
    assert text.count("Good, for") == len(CATALOGUE.good) > 0
    assert text.count("Bad (") == len(CATALOGUE.bad) > 0
    assert "from zoneinfo import ZoneInfo" in text  # not pytz, and no offset by hand


def test_model_reads_that_later_values_are_the_result() -> None:
    """So it is, and a failure that the program has told before is lost: see `last_json`."""
    assert "last object or array, or a later line that is a number" in exec_prompt.TOOL
    text = exec_prompt.system_prompt(load_settings(None), CATALOGUE)
    assert "A list after it, or a line after it with a number alone, would be taken as the result" in text
    said = '{"ok": false, "error": "no data"}'
    assert [last_json(f"{said}\n{later}\n").value for later in ("rows [1]", "3")] == [[1], 3]


def test_new_entry_needs_no_code(tmp_path: Path) -> None:
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
