"""The real local model, if its weights and its runtime are installed."""

from __future__ import annotations

import asyncio
import time

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage

from agent.config import load_settings
from libs.models.local_model import ContextTooLong, LocalChatModel
from libs.models.openvino_engine import OpenVinoEngine, runtime_installed
from libs.models.weights import QWEN_CODER, kept

PATH = kept(QWEN_CODER, load_settings(None).models_dir)
pytestmark = [
    pytest.mark.thorough,  # the model takes most of a minute to load
    pytest.mark.skipif(
        PATH is None or not runtime_installed(), reason="the local model is not on this machine"
    ),
]

RULES = SystemMessage("Answer with one word. " + " ".join(f"Rule {n}: be exact." for n in range(40)))


@pytest.fixture(scope="module")
def model() -> LocalChatModel:
    assert PATH is not None
    return LocalChatModel(engine=OpenVinoEngine(PATH), max_new_tokens=24)


async def test_model_does_not_block_the_event_loop(model: LocalChatModel) -> None:
    longest, last = 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    ticking = asyncio.create_task(tick())
    whole = AIMessageChunk("")
    async for chunk in model.astream([RULES, HumanMessage("The capital of France, and then: 日本 😀")]):
        whole += chunk
    ticking.cancel()
    assert "Paris" in whole.text
    assert "\ufffd" not in whole.text
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["input_tokens"] > 200
    assert 0 < whole.usage_metadata["output_tokens"] <= 24
    assert longest < 2, "loading takes ten seconds, and the prompt several"


async def test_next_call_works_after_a_cancelled_one(model: LocalChatModel) -> None:
    task = asyncio.create_task(model.ainvoke([HumanMessage("Count to a thousand.")]))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stopped = await model.ainvoke([RULES, HumanMessage("The capital of Spain?")], stop=["rid"])
    assert stopped.text == "Mad"


def test_long_prompt_is_not_cut(model: LocalChatModel) -> None:
    """Without the check the tokenizer would cut the prompt at 8,192 tokens."""
    prompt = model.engine.prompt([{"role": "user", "content": "one two\n" * 5000}])
    assert 15_000 < len(prompt) < 15_100
    with pytest.raises(ContextTooLong):
        model.invoke("one two\n" * 11_000)
