"""A model that cannot be reached: the page says so, as `/run` does."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import open_chat, say

pytestmark = pytest.mark.docker

SCRIPT = ""
SETTINGS = {"MODEL": "openai:any", "OPENAI_API_KEY": "sk-any", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


def test_model_that_does_not_answer_is_explained(page: Page) -> None:
    open_chat(page)
    say(page, "hello")
    told = page.get_by_role("alert")
    expect(told).to_contain_text(
        "The agent could not go on. The model could not be reached or refused: Connection error."
    )
    page.reload()
    expect(told).to_contain_text(
        "The agent could not go on. The model could not be reached or refused: Connection error."
    )
