"""The engine of the local model with a fake OpenVINO GenAI: calls, options and errors."""

from __future__ import annotations

import enum
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import schemathesis.generation.hypothesis.builder  # noqa: F401 - its plugin would, with numpy replaced

from libs.models.deferred_model import ModelUnavailable
from libs.models.openvino_engine import OpenVinoEngine
from tests.unit.models.test_local_model import CONTEXT, KIND, gguf

ANSWER = "one two three four five"


class Pipeline:
    """Streams ANSWER, one word as one token; `generate` returns at the end, like the real pipeline."""

    made: list[Pipeline]
    fails: Exception | None = None

    def __init__(self, path: str, device: str, *, scheduler_config: Any) -> None:
        if self.fails:
            raise self.fails
        self.path, self.device, self.scheduler = path, device, scheduler_config
        self.options: list[Any] = []
        self.encoded: list[str] = []
        self.said = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.made.append(self)

    def get_tokenizer(self) -> Any:
        def encode(text: str, *, add_special_tokens: bool) -> Any:
            assert not add_special_tokens
            self.encoded.append(text)
            return SimpleNamespace(input_ids=SimpleNamespace(data=[list(range(len(text.split())))]))

        def template(messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
            assert add_generation_prompt
            return " ".join(f"<{each['role']}> {each['content']}" for each in messages) + " <assistant> "

        return SimpleNamespace(encode=encode, apply_chat_template=template)

    def get_generation_config(self) -> Any:
        return SimpleNamespace(apply_chat_template=True, temperature=1.0)

    def generate(self, ids: Any, options: Any, streamer: Any) -> Any:
        self.options.append(options)
        words = ANSWER.split()
        for word in words[: options.max_new_tokens]:
            assert self.go_on.wait(5)
            self.said += 1
            if streamer.write(word) == Status.CANCEL:
                break
        streamer.end()
        full = options.max_new_tokens < len(words)
        return SimpleNamespace(finish_reasons=[Reason.LENGTH if full else Reason.STOP])


class Status(enum.Enum):
    RUNNING, CANCEL = 1, 2


class Reason(enum.Enum):
    STOP, LENGTH = 1, 2


class TextStreamer:
    def __init__(self, tokenizer: Any, show: Any) -> None:
        self._show = show

    def write(self, token: Any) -> None:
        self._show(f"{token} ")

    def end(self) -> None:
        self._show(".")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenVinoEngine:
    genai: Any = ModuleType("openvino_genai")
    genai.LLMPipeline, genai.SchedulerConfig, genai.StreamerBase = Pipeline, SimpleNamespace, object
    genai.TextStreamer, genai.StreamingStatus, genai.GenerationFinishReason = TextStreamer, Status, Reason
    openvino: Any = ModuleType("openvino")
    openvino.Tensor = list
    numpy: Any = ModuleType("numpy")
    numpy.array, numpy.int64 = (lambda values, kind: values), int
    for name, module in (("openvino_genai", genai), ("openvino", openvino), ("numpy", numpy)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Pipeline, "made", [], raising=False)
    return OpenVinoEngine(gguf(tmp_path / "tiny.gguf", KIND, CONTEXT))


def test_model_is_loaded_once_with_the_prefix_cache(engine: OpenVinoEngine) -> None:
    assert Pipeline.made == []
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "count"}]
    assert engine.prompt(messages) == engine.prompt(messages) == [0, 1, 2, 3, 4, 5]
    [pipeline] = Pipeline.made
    assert pipeline.encoded[0] == "<system> be brief <user> count <assistant> "
    assert (Path(pipeline.path).name, pipeline.device) == ("tiny.gguf", "CPU")
    assert pipeline.scheduler.enable_prefix_caching is True
    assert pipeline.scheduler.cache_size > 0


@pytest.mark.parametrize(
    ("limit", "temperature", "text", "end"),
    [(9, 0, "one two three four five .", "stop"), (2, 0.7, "one two .", "length")],
)
def test_answer_is_streamed_with_its_finish_reason(
    engine: OpenVinoEngine, limit: int, temperature: float, text: str, end: str
) -> None:
    pieces = list(engine.generate([1, 2], max_new_tokens=limit, temperature=temperature))
    assert "".join(piece.text for piece in pieces) == text
    assert sum(piece.tokens for piece in pieces) == min(limit, 5)
    assert [piece.end for piece in pieces if piece.end] == [end]
    [options] = Pipeline.made[0].options
    assert (options.apply_chat_template, options.do_sample, options.temperature) == (
        (False, True, 0.7) if temperature else (False, False, 1.0)
    )


def test_closed_generation_ends_and_the_next_starts(engine: OpenVinoEngine) -> None:
    engine.prompt([])
    [pipeline] = Pipeline.made
    steps = engine.generate([1], max_new_tokens=9, temperature=0)
    pipeline.go_on.clear()
    assert next(steps).text == ""  # an empty piece while the caller waits
    steps.close()
    pipeline.go_on.set()
    assert "".join(piece.text for piece in engine.generate([1], max_new_tokens=9, temperature=0)).endswith(
        "five ."
    )
    assert pipeline.said == 1 + 5, "the first was ended with its next token"


def test_next_call_works_after_a_failed_one(engine: OpenVinoEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise RuntimeError("Exception from src/x.cpp:\nnot enough memory for the cache")

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "generate", fails)
        with pytest.raises(ModelUnavailable, match=r"tiny\.gguf answered: not enough memory for the cache"):
            list(engine.generate([1], max_new_tokens=9, temperature=0))
    assert list(engine.generate([1], max_new_tokens=9, temperature=0))[-1].end == "stop"
