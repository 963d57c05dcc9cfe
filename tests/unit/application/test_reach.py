"""Prompts describe the network as the gateway allows it."""

from __future__ import annotations

from typing import Any

import pytest

from agent.config import load_settings
from agent.prompt import system_prompt
from agent.prompts import network_rule
from agent.prompts.code_prompt import system_prompt as code_prompt


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "There is no network: nothing can be downloaded or installed."),
        ({"egress_allow": ("https://a.example.org", "*.b.com")}, "https://a.example.org, *.b.com"),
        ({"egress_packages": True}, "`pip install"),
        ({"search_provider": "searxng", "searxng_url": "http://localhost:8888"}, "web search (skill `web`)"),
        ({"egress_allow": tuple(f"h{n}.example.org" for n in range(25))}, "and 5 hosts more"),
    ],
)
def test_prompts_name_the_allowed_hosts(changed: dict[str, Any], told: str) -> None:
    settings = load_settings(None, **changed)
    for prompt in (
        network_rule(settings),
        system_prompt(settings),
        code_prompt(settings, skills="", data="", tables=False),
    ):
        assert told in prompt
        assert ("There is no network" in prompt) is not changed
