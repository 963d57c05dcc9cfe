"""What models are told of the network is what the gateway lets through."""

from __future__ import annotations

from typing import Any

import pytest

from agent.code_prompt import system_prompt as code_prompt
from agent.config import load_settings
from agent.prompt import system_prompt
from agent.reach import network_rule


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"egress_allow": ("https://api.example.org", "*.example.com")},
            "https://api.example.org, *.example.com",
        ),
        ({"egress_packages": True}, "`pip install"),
        ({"search_provider": "searxng", "searxng_url": "http://localhost:8888"}, "web search (skill `web`)"),
        ({"egress_allow": tuple(f"h{n}.example.org" for n in range(25))}, "and 5 hosts more"),
    ],
)
def test_what_can_be_reached_is_named(changed: dict[str, Any], told: str) -> None:
    settings = load_settings(None, **changed)
    for prompt in (
        network_rule(settings),
        system_prompt(settings),
        code_prompt(settings, skills="", data="", tables=False),
    ):
        assert told in prompt
        assert "There is no network" not in prompt


def test_by_default_there_is_no_network() -> None:
    settings = load_settings(None)
    for prompt in (system_prompt(settings), code_prompt(settings, skills="", data="", tables=False)):
        assert "There is no network: nothing can be downloaded or installed." in prompt
