"""An error without an answer of the model's server names the address and its setting."""

from __future__ import annotations

import httpx
import pytest
from langchain_openai import ChatOpenAI
from openai import APIConnectionError

from agent.run import explained


def test_unreachable_model_is_named_with_address_and_setting() -> None:
    model = ChatOpenAI(model="m", api_key="none", base_url="http://127.0.0.1:9/v1", max_retries=0)  # type: ignore[arg-type]
    with pytest.raises(APIConnectionError) as caught:
        model.invoke("hi")
    told = explained(caught.value) or ""
    assert "http://127.0.0.1:9/v1/chat/completions" in told
    assert "OPENAI_BASE_URL" in told


def test_password_and_query_of_the_address_are_not_named() -> None:
    request = httpx.Request("GET", "http://me:hush@host:81/v1?key=hush")
    told = explained(httpx.ConnectError("refused", request=request))
    assert told == "refused. No answer from http://host:81/v1."
    assert explained(httpx.ConnectError("refused")) == "refused"
