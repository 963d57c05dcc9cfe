"""OpenVINO GenAI as the engine of a local model: reads a GGUF file as it is, on the processor."""

from __future__ import annotations

import importlib.util
import logging
import queue
import threading
import time
from collections.abc import Generator, Sequence
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
    cores. The prefix cache is on: what a prompt has in common with earlier ones is not read again.
    Generations run side by side (see `_Batch`); one that is given up ends with its next token, or, while its
    prompt is read, with the next part of that.

    Raises:
        GgufError: the file is no GGUF file of a language model.
        ModelUnavailable: at the first call, OpenVINO cannot load it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.context_tokens = read_head(path).context_tokens
        self._loading = threading.Lock()
        self._loaded: _Batch | None = None

    def _batch(self) -> _Batch:
        with self._loading:
            if self._loaded is None:
                self._loaded = _Batch(self._load())
            return self._loaded

    def _load(self) -> Any:
        import openvino_genai as genai

        _LOG.info("loading %s", self._path.name)
        began = time.monotonic()
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = _CACHE_GB
        try:
            loaded = genai.ContinuousBatchingPipeline(str(self._path), scheduler, "CPU")
        except (RuntimeError, LookupError, ValueError, MemoryError) as error:  # what C++ exceptions turn into
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise ModelUnavailable(f"OpenVINO cannot load {self._path}: {reason}") from error
        _LOG.info("loaded %s in %.1f s", self._path.name, time.monotonic() - began)
        return loaded

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        tokenizer = self._batch().tokenizer

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
        request = _Request(prompt, max_new_tokens, temperature)
        self._batch().add(request)
        try:
            while True:
                try:
                    piece = request.queue.get(timeout=0.2)
                except queue.Empty:
                    piece = Piece()
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
                if piece.end:
                    return
        finally:
            request.gone = True


class _Request:
    """One generation of a batch."""

    def __init__(self, prompt: list[int], max_new_tokens: int, temperature: float) -> None:
        self.queue: queue.SimpleQueue[Piece | BaseException] = queue.SimpleQueue()
        self.gone = False
        """Nobody wants the rest."""
        self._prompt = prompt
        self._left = max_new_tokens
        self._temperature = temperature
        self._shown: list[str] = []

    def begin(self, pipeline: Any, number: int) -> None:
        """Hand it to the pipeline; its steps do the rest."""
        import numpy
        import openvino
        import openvino_genai as genai

        options = pipeline.get_config()
        options.apply_chat_template = False
        options.max_new_tokens = self._left
        options.do_sample = self._temperature > 0
        if self._temperature > 0:
            options.temperature = self._temperature
            options.rng_seed = number
        # Tokens are not characters: this holds back what the next token may still change.
        self._streamer = genai.TextStreamer(pipeline.get_tokenizer(), self._shown.append)
        ids = openvino.Tensor(numpy.array([self._prompt], numpy.int64))
        self._handle = pipeline.add_request(number, ids, options)

    def advance(self) -> bool:
        """Pass on what the last step has made; False once there is nothing to come."""
        if self.gone:
            self._handle.stop()  # what it has read stays in the prefix cache
            return False
        while self._handle.can_read():
            for output in self._handle.read().values():
                for token in output.generated_ids:
                    self._streamer.write(token)
                    self._left -= 1
                    self.queue.put(Piece(self._text(), 1))
        status = self._handle.get_status().name
        if status == "RUNNING":
            return True
        if status != "FINISHED":
            self.queue.put(RuntimeError("The local model has no memory left for this conversation."))
            return False
        self._streamer.end()
        self.queue.put(Piece(self._text(), 0, "stop" if self._left > 0 else "length"))
        return False

    def _text(self) -> str:
        text = "".join(self._shown)
        self._shown.clear()
        return text


class _Batch:
    """Runs all generations of a pipeline together, in a thread that lives while there are any.

    To make a token every weight is read from memory once, for one generation or for several: four side by
    side take little longer than one (on two cores 16 tokens a second together, against 5).
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self.tokenizer = pipeline.get_tokenizer()
        self._lock = threading.Lock()
        self._new: list[_Request] = []
        self._running: list[_Request] = []
        self._count = 0
        self._thread: threading.Thread | None = None

    def add(self, request: _Request) -> None:
        """Let a generation begin with the next step."""
        with self._lock:
            self._new.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="openvino")
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                new, self._new = self._new, []
                if not (new or self._running):
                    self._thread = None
                    return
            self._running += new
            try:
                for request in new:
                    self._count += 1
                    request.begin(self._pipeline, self._count)
                self._pipeline.step()
                self._running = [request for request in self._running if request.advance()]
            except Exception as error:  # noqa: BLE001 - whatever C++ raises is for the callers to know
                for request in self._running:
                    request.queue.put(error)
                self._running = []


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
