"""Runs a GGUF file with OpenVINO GenAI on the processor.

The pipeline for parallel generations would be faster with four callers, but each of its steps holds Python's
lock and blocks the event loop. `LLMPipeline` releases the lock.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from libs.models.deferred_model import ModelUnavailable
from libs.models.gguf_header import context_tokens
from libs.models.local_model import Piece

__all__ = ["OpenVinoEngine", "runtime_installed"]

_CACHE_GB = 1
"""Memory of the prefix cache: over 32,000 tokens of a model with 1.5 billion parameters."""
_ENCODER_LIMIT = 8192
"""Limit of the tokenizer that OpenVINO makes from a GGUF file; longer text is cut without an error."""
_SAFE_CHARS = 2000
"""This many characters never exceed the limit: a character has at most four bytes."""


def runtime_installed() -> bool:
    """Return whether `openvino-genai` is installed, without importing it."""
    return importlib.util.find_spec("openvino_genai") is not None


class OpenVinoEngine:
    """Runs one GGUF file; see `libs.models.local_model.Engine` for the methods.

    The first call loads the file: for 1.1 GB on two cores 14 s, and for a moment 4 GB of memory. The prefix
    cache is on, so a prefix of earlier prompts is not read again. A closed generation ends with its next
    token, after the whole prompt was read.

    Raises:
        GgufError: the file is not a GGUF file of a language model.
        ModelUnavailable: OpenVINO cannot load the file or fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.context_tokens = context_tokens(path)
        self._turn = threading.Lock()
        self._loading = threading.Lock()
        self._loaded: Any = None

    def _pipeline(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        import openvino_genai

        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = _CACHE_GB
        try:
            return openvino_genai.LLMPipeline(str(self._path), "CPU", scheduler_config=scheduler)
        except (RuntimeError, LookupError, ValueError, MemoryError) as error:  # from C++ exceptions
            raise ModelUnavailable(f"OpenVINO cannot load {self._path}: {_reason(error)}") from error

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        tokenizer = self._pipeline().get_tokenizer()

        def encode(text: str) -> list[int]:
            # The template already contains the special tokens.
            return [
                int(token) for token in tokenizer.encode(text, add_special_tokens=False).input_ids.data[0]
            ]

        text = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True)
        tokens = encode(text)
        if len(tokens) < _ENCODER_LIMIT:
            return tokens
        return [token for part in _parts(text) for token in encode(part)]

    def generate(
        self, prompt: list[int], *, max_new_tokens: int, temperature: float
    ) -> Generator[Piece, None, None]:
        pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        gone = threading.Event()

        def work() -> None:
            try:
                with self._turn:
                    if not gone.is_set():
                        self._run(prompt, max_new_tokens, temperature, pieces, gone)
            finally:
                pieces.put(None)

        # OpenVINO returns at the end of the answer; this generator can be closed before.
        worker = ThreadPoolExecutor(1, "openvino")
        done = worker.submit(work)
        worker.shutdown(wait=False)
        try:
            while True:
                try:
                    piece = pieces.get(timeout=0.2)
                except queue.Empty:
                    piece = Piece()
                if piece is None:
                    break
                yield piece
            try:
                done.result()
            except ModelUnavailable:
                raise
            except RuntimeError as error:  # from C++ exceptions
                message = f"OpenVINO failed while {self._path.name} answered: {_reason(error)}"
                raise ModelUnavailable(message) from error
        finally:
            gone.set()

    def _run(
        self,
        prompt: list[int],
        max_new_tokens: int,
        temperature: float,
        pieces: queue.SimpleQueue[Piece | None],
        gone: threading.Event,
    ) -> None:
        import numpy
        import openvino
        import openvino_genai as genai

        pipeline = self._pipeline()
        options = pipeline.get_generation_config()
        options.apply_chat_template = False
        options.max_new_tokens = max_new_tokens
        options.do_sample = temperature > 0
        if temperature > 0:
            options.temperature = temperature
        shown: list[str] = []
        # The streamer holds back characters that the next token may still change.
        text = genai.TextStreamer(pipeline.get_tokenizer(), shown.append)

        class Streamer(genai.StreamerBase):  # type: ignore[misc]
            """Runs in a thread of OpenVINO, where an exception would end the whole process."""

            def write(self, token: int | list[int]) -> Any:
                text.write(token)
                pieces.put(Piece("".join(shown), len(token) if isinstance(token, list) else 1))
                shown.clear()
                return genai.StreamingStatus.CANCEL if gone.is_set() else genai.StreamingStatus.RUNNING

            def end(self) -> None:
                text.end()

        ids = openvino.Tensor(numpy.array([prompt], numpy.int64))
        result = pipeline.generate(ids, options, Streamer())
        if gone.is_set():
            return
        full = result.finish_reasons[0] == genai.GenerationFinishReason.LENGTH
        pieces.put(Piece("".join(shown), 0, "length" if full else "stop"))


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _parts(text: str) -> list[str]:
    """Split the text into parts that the tokenizer can take, after a line end if possible."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _SAFE_CHARS):
            piece = line[at : at + _SAFE_CHARS]
            if len(parts[-1]) + len(piece) > _SAFE_CHARS:
                parts.append("")
            parts[-1] += piece
    return parts
