"""OpenVINO GenAI as the engine of a local model: reads a GGUF file as it is, on the processor.

Its pipeline for many generations at once would make three times the tokens of four, but each of its steps
holds Python's lock and with it the event loop; this one lets it go.
"""

from __future__ import annotations

import importlib.util
import logging
import queue
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from libs.models.deferred import ModelUnavailable
from libs.models.gguf import read_head
from libs.models.local import Piece

__all__ = ["OpenVinoEngine", "runtime_installed"]

_LOG = logging.getLogger(__name__)

_CACHE_GB = 1
"""Memory for what was read, kept between calls: over 32,000 tokens of a model of 1.5 billion parameters."""
_ENCODER_LIMIT = 8192
"""The tokenizer that OpenVINO makes from a GGUF file cuts off, without a word, what is over."""
_SAFE_CHARS = 2000
"""As many characters never give more tokens than that: a character has four bytes at most."""


def runtime_installed() -> bool:
    """Whether the package `openvino-genai` can be imported. Does not import it."""
    return importlib.util.find_spec("openvino_genai") is not None


class OpenVinoEngine:
    """Runs one GGUF file; see `libs.models.local.Engine` for the methods.

    The file is loaded at the first call: 14 s and for a moment 4 GB of memory for one of 1.1 GB on two
    cores. The prefix cache is on: what a prompt has in common with earlier ones is not read again. A
    generation that is given up ends with its next token: a prompt that is being read is read to its end.

    Raises:
        GgufError: the file is no GGUF file of a language model.
        ModelUnavailable: at the first call, OpenVINO cannot load it; at any, it fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.context_tokens = read_head(path).context_tokens
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

        _LOG.info("loading %s", self._path.name)
        began = time.monotonic()
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = _CACHE_GB
        try:
            loaded = openvino_genai.LLMPipeline(str(self._path), "CPU", scheduler_config=scheduler)
        except (RuntimeError, LookupError, ValueError, MemoryError) as error:  # what C++ exceptions turn into
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise ModelUnavailable(f"OpenVINO cannot load {self._path}: {reason}") from error
        _LOG.info("loaded %s in %.1f s", self._path.name, time.monotonic() - began)
        return loaded

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        tokenizer = self._pipeline().get_tokenizer()

        def encode(text: str) -> list[int]:
            # The template has the special tokens in it already.
            return [
                int(token) for token in tokenizer.encode(text, add_special_tokens=False).input_ids.data[0]
            ]

        # The template that the file brings.
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

        # OpenVINO returns when all is done; this generator, in the meantime, can be closed.
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
            except RuntimeError as error:  # what C++ exceptions turn into
                if isinstance(error, ModelUnavailable):
                    raise
                reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
                raise ModelUnavailable(
                    f"OpenVINO failed while {self._path.name} answered: {reason}"
                ) from error
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
        # Tokens are not characters: this holds back what the next token may still change.
        text = genai.TextStreamer(pipeline.get_tokenizer(), shown.append)

        class Streamer(genai.StreamerBase):  # type: ignore[misc]
            """Called in a thread of OpenVINO, where an exception would end the whole process."""

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


def _parts(text: str) -> list[str]:
    """The text in parts the tokenizer can take, ending with a line, where no token goes on, if possible."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _SAFE_CHARS):
            piece = line[at : at + _SAFE_CHARS]
            if len(parts[-1]) + len(piece) > _SAFE_CHARS:
                parts.append("")
            parts[-1] += piece
    return parts
