"""The local chat model with a fake engine: streaming, stop, limits and cancelled calls."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from agent.config import load_settings
from agent.models import build_model
from libs.models.deferred_model import DeferredChatModel, ModelUnavailable
from libs.models.gguf_header import GgufError, context_tokens
from libs.models.local_model import ContextTooLong, LocalChatModel, Piece
from libs.models.openvino_engine import OpenVinoEngine, runtime_installed
from libs.models.stop_text import StopText


class Words:
    """An engine whose tokens are words: yields each word of `answer` after `delay` seconds."""

    context_tokens = 100

    def __init__(self, answer: str, delay: float = 0, reading_steps: int = 1) -> None:
        self.answer, self.delay, self.reading_steps = answer.split(" "), delay, reading_steps
        self.prompts: list[Sequence[dict[str, str]]] = []
        self.steps = 0
        self.running = 0
        self.begun, self.ended = threading.Event(), threading.Event()

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        self.prompts.append(messages)
        return [0] * sum(len(message["content"].split()) for message in messages)

    def generate(
        self, prompt: list[int], *, max_new_tokens: int, temperature: float
    ) -> Generator[Piece, None, None]:
        self.running += 1
        try:
            for _ in range(self.reading_steps):
                yield self._step(Piece())
            words = self.answer[:max_new_tokens]
            for at, word in enumerate(words):
                yield self._step(Piece(word + " " * (at < len(self.answer) - 1), 1))
            yield Piece("", 0, "length" if len(words) < len(self.answer) else "stop")
        finally:
            self.running -= 1
            self.ended.set()

    def _step(self, piece: Piece) -> Piece:
        time.sleep(self.delay)
        self.steps += 1
        if self.steps == 5:
            self.begun.set()
        return piece


def model(answer: str = "one two three", **changed: float) -> tuple[LocalChatModel, Words]:
    engine = Words(answer, **changed)  # type: ignore[arg-type]
    return LocalChatModel(engine=engine, max_new_tokens=50), engine


def test_answer_and_its_usage() -> None:
    local, engine = model()
    answer = local.invoke(
        [SystemMessage("be brief"), HumanMessage("count"), AIMessage("yes"), HumanMessage("go")]
    )
    assert answer.text == "one two three"
    assert answer.usage_metadata == {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
    assert answer.response_metadata["finish_reason"] == "stop"
    assert [message["role"] for message in engine.prompts[0]] == ["system", "user", "assistant", "user"]


async def test_asynchronous_and_streamed_calls_agree() -> None:
    local, _ = model()
    assert (await local.ainvoke("hi")).usage_metadata == local.invoke("hi").usage_metadata
    pieces = [chunk async for chunk in local.astream("hi")]
    assert [chunk.text for chunk in pieces] == [chunk.text for chunk in local.stream("hi")]
    assert [chunk.text for chunk in pieces] == ["one ", "two ", "three", ""]
    assert [chunk.chunk_position for chunk in pieces] == [None, None, None, "last"]
    whole = sum(pieces[1:], pieces[0])
    assert whole.usage_metadata == {"input_tokens": 1, "output_tokens": 3, "total_tokens": 4}


def test_stop_sequence_ends_the_generation() -> None:
    local, engine = model("run this: ```end of``` it and much more")
    answer = local.invoke("hi", stop=["of``` it", "never"])
    assert answer.text == "run this: ```end "
    assert answer.response_metadata["finish_reason"] == "stop"
    assert engine.ended.is_set()
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 5, "what came after it was not made"


def test_too_long_conversation_is_refused() -> None:
    local, engine = model()
    assert local.invoke("word " * 50).text == "one two three"
    with pytest.raises(
        ContextTooLong, match=r"has 51 tokens and its answer may have 50; .* can take 100 together"
    ):
        local.invoke("word " * 51)
    with pytest.raises(ContextTooLong):
        asyncio.run(local.ainvoke("word " * 51))
    assert engine.running == 0


def test_tools_and_images_are_refused() -> None:
    local, _ = model()
    with pytest.raises(ModelUnavailable, match="The local model cannot call tools"):
        local.bind_tools([{"name": "f"}])
    assert local.bind_tools([]) is local
    with pytest.raises(ValueError, match="not tool messages"):
        local.invoke([ToolMessage("x", tool_call_id="1")])
    with pytest.raises(ValueError, match="reads text only, and a message holds image"):
        local.invoke([HumanMessage([{"type": "text", "text": "see"}, {"type": "image", "url": "x"}])])
    assert local.profile == {
        "max_input_tokens": 50,
        "max_output_tokens": 50,
        "tool_calling": False,
        "structured_output": False,
        "image_inputs": False,
    }


@pytest.mark.parametrize("phase", ["reading", "answering"])
async def test_cancelled_call_ends_the_generation(phase: str) -> None:
    local, engine = model("word " * 40, delay=0.1, reading_steps=500 if phase == "reading" else 0)
    task = asyncio.create_task(local.ainvoke("hi"))
    assert await asyncio.to_thread(engine.begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(engine.ended.wait, 30)
    assert engine.steps < 30


@given(
    st.text("ab`\n", max_size=30), st.lists(st.text("ab`\n", min_size=1, max_size=4), max_size=3), st.data()
)
def test_stop_sequence_is_found_in_any_pieces(text: str, stop: list[str], data: st.DataObject) -> None:
    stopping, shown, rest = StopText(stop), "", text
    while rest and not stopping.found:
        at = data.draw(st.integers(1, len(rest)))
        shown, rest = shown + stopping.feed(rest[:at]), rest[at:]
    shown += stopping.end()
    ends = [place for word in stop if (place := text.find(word)) >= 0]
    assert stopping.found is bool(ends)
    if not ends:
        assert shown == text
    else:
        assert text.startswith(shown)
        assert not any(word in shown for word in stop)


def gguf(path: Path, *fields: tuple[str, int, bytes]) -> Path:
    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    body = b"".join(string(key) + struct.pack("<I", kind) + value for key, kind, value in fields)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + body)
    return path


NAME = ("general.name", 8, struct.pack("<Q", 4) + b"Tiny")
KIND = ("general.architecture", 8, struct.pack("<Q", 5) + b"llama")
CONTEXT = ("llama.context_length", 4, struct.pack("<I", 4096))
TOKENS = ("tokenizer.ggml.tokens", 9, b"a list")
TAGS = ("general.tags", 9, struct.pack("<IQQ", 8, 2, 4) + b"chat" + struct.pack("<Q", 2) + b"en")
LAYERS = ("llama.heads", 9, struct.pack("<IQ3I", 4, 3, 8, 8, 8))
NESTED = ("general.nested", 9, struct.pack("<IQ", 9, 1))


def test_lists_in_a_gguf_header_are_skipped(tmp_path: Path) -> None:
    fields = (KIND, TAGS, LAYERS, NAME, CONTEXT, TOKENS)
    assert OpenVinoEngine(gguf(tmp_path / "x", *fields)).context_tokens == 4096
    with pytest.raises(GgufError, match=r"general\.nested is a list of 1 values of type 9"):
        context_tokens(gguf(tmp_path / "x", KIND, NESTED, CONTEXT))


def test_broken_model_file_is_named(tmp_path: Path) -> None:
    whole = gguf(tmp_path / "whole", KIND, TAGS, LAYERS, NAME, CONTEXT).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(GgufError, match="cut"):
            context_tokens(tmp_path / "cut")
    (tmp_path / "text").write_text("GIF89a and so on")
    with pytest.raises(GgufError, match="does not begin with GGUF"):
        context_tokens(tmp_path / "text")
    with pytest.raises(GgufError, match="is not a language model"):
        context_tokens(gguf(tmp_path / "image", KIND, NAME))


def refusal(built: BaseChatModel) -> str:
    with pytest.raises(ModelUnavailable) as caught:
        built.invoke("hi")
    return str(caught.value)


def test_error_without_a_model_names_the_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    message = refusal(build_model(load_settings(None, model="local")))
    hint = "fetch its 1.1 GB with `code-agent model fetch`" if runtime_installed() else "`make local` in "
    assert message.startswith(f"The local model is not ready: {hint}")
    assert "OPENAI_API_KEY" in message


@pytest.mark.skipif(not runtime_installed(), reason="the extra `local` is not installed")
def test_own_model_file(tmp_path: Path) -> None:
    path = gguf(tmp_path / "own.gguf", KIND, NAME, CONTEXT)
    built = build_model(load_settings(None, model=f"local:{path}"))
    assert isinstance(built, DeferredChatModel)
    assert built.build()._llm_type == "local"
    assert "OpenVINO cannot load" in refusal(built), "a head is not a model"
    assert "cannot be read as a GGUF file" in refusal(build_model(load_settings(None, model="local:/absent")))
