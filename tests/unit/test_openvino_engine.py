"""The engine of the local model with a stand-in for OpenVINO GenAI: what it is asked for, and how it ends."""

from __future__ import annotations

import enum
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import schemathesis.generation.hypothesis.builder  # noqa: F401 - its plugin would, with numpy replaced

from libs.models.deferred import ModelUnavailable
from libs.models.openvino import OpenVinoEngine
from tests.unit.test_local_model import CONTEXT, KIND, gguf

ANSWER = "one two three four five"


class Pipeline:
    """Says ANSWER, a word a token, as the real one does: `generate` returns when all is said."""

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


def test_it_is_loaded_once_at_the_first_call_with_the_prefix_cache_on(engine: OpenVinoEngine) -> None:
    assert Pipeline.made == []
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "count"}]
    assert engine.prompt(messages) == engine.prompt(messages) == [0, 1, 2, 3, 4, 5]
    [pipeline] = Pipeline.made
    assert (Path(pipeline.path).name, pipeline.device) == ("tiny.gguf", "CPU")
    assert pipeline.scheduler.enable_prefix_caching is True
    assert pipeline.scheduler.cache_size > 0


def test_the_prompt_ends_where_the_answer_begins(engine: OpenVinoEngine) -> None:
    asked = {"role": "user", "content": "count"}
    engine.prompt([asked])
    [pipeline] = Pipeline.made
    assert pipeline.encoded == ["<user> count <assistant> "]


@pytest.mark.parametrize(
    ("limit", "text", "end"), [(9, "one two three four five .", "stop"), (2, "one two .", "length")]
)
def test_an_answer_comes_token_by_token_with_its_end(
    engine: OpenVinoEngine, limit: int, text: str, end: str
) -> None:
    pieces = list(engine.generate([1, 2], max_new_tokens=limit, temperature=0))
    assert "".join(piece.text for piece in pieces) == text
    assert sum(piece.tokens for piece in pieces) == min(limit, 5)
    assert [piece.end for piece in pieces if piece.end] == [end]
    [options] = Pipeline.made[0].options
    assert (options.apply_chat_template, options.do_sample, options.temperature) == (False, False, 1.0)


def test_a_temperature_is_passed_on(engine: OpenVinoEngine) -> None:
    assert list(engine.generate([1], max_new_tokens=9, temperature=0.7))
    [options] = Pipeline.made[0].options
    assert (options.do_sample, options.temperature) == (True, 0.7)


def test_closing_ends_the_generation_and_the_next_one_is_served(engine: OpenVinoEngine) -> None:
    engine.prompt([])
    [pipeline] = Pipeline.made
    steps = engine.generate([1], max_new_tokens=9, temperature=0)
    pipeline.go_on.clear()
    assert next(steps).text == ""  # nothing yet: whoever waits is told so now and then
    steps.close()
    pipeline.go_on.set()
    assert "".join(piece.text for piece in engine.generate([1], max_new_tokens=9, temperature=0)).endswith(
        "five ."
    )
    assert pipeline.said == 1 + 5, "the first was ended with its next token"


def test_a_call_that_fails_says_so_and_the_next_one_is_served(
    engine: OpenVinoEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> Any:
        raise RuntimeError("Exception from src/x.cpp:\nnot enough memory for the cache")

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "generate", fails)
        with pytest.raises(ModelUnavailable, match=r"tiny\.gguf answered: not enough memory for the cache"):
            list(engine.generate([1], max_new_tokens=9, temperature=0))
    assert list(engine.generate([1], max_new_tokens=9, temperature=0))[-1].end == "stop"


def test_a_file_that_cannot_be_loaded_is_named(
    engine: OpenVinoEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipeline, "fails", RuntimeError("Check failed:\nunsupported architecture"))
    with pytest.raises(ModelUnavailable, match=r"cannot load .*tiny\.gguf: unsupported architecture"):
        list(engine.generate([1], max_new_tokens=9, temperature=0))
