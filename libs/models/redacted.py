"""Chat models that are told no secrets, and whose replies and errors come without any.

What a model says goes many ways: to callbacks and so to traces, to streams, into a thread's state, its
checkpoints, and back into tools. So secrets are taken out where the reply arrives, before any of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import aclosing, closing
from functools import lru_cache
from typing import Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from libs.models.deferred import DeferredChatModel
from libs.models.model_errors import Redact, errors_without_secrets

__all__ = ["REDACTED", "not_as_written", "redacted_model"]

REDACTED = "redacted"
"""In the `response_metadata` of a reply that held a secret."""

_FIXED = frozenset({"type", "id", "index", "name"})
"""Keys whose values are whole in every piece of a reply."""

Path = tuple[Any, ...]
Model = TypeVar("Model", bound=BaseChatModel | BaseLLM)


def redacted_model(model: Model, redact: Redact | None) -> Model:
    """`model`, but secrets taken out of what it is sent, its replies whole or in pieces, and its errors.

    It stays of its class. A reply that held one is marked in its `response_metadata`: a call or code in it is
    not what the model wrote, and should not run.

    Args:
        model: what answers. One that is built later is so from then on.
        redact: takes them out. None: `model` stays as it is.
    """
    if redact is None or getattr(type(model), "__redact__", None) is redact:
        return model
    if isinstance(model, DeferredChatModel):
        return model.model_copy(update={"build": _building(model.build, redact)})
    copied: Any = model.model_copy()
    # A subclass made for it, not a wrapper around it: middleware asks for the class of a model.
    object.__setattr__(
        copied, "__class__", _class_of(cast("Hashable", type(model)), cast("Hashable", redact))
    )
    return cast("Model", copied)


def _building(build: Callable[[], BaseChatModel], redact: Redact) -> Callable[[], BaseChatModel]:
    def built() -> BaseChatModel:
        with errors_without_secrets(redact):
            return redacted_model(build(), redact)

    return built


@lru_cache(maxsize=64)
def _class_of(kind: Any, redact: Any) -> Any:
    methods = _text_methods(kind, redact) if issubclass(kind, BaseLLM) else _chat_methods(kind, redact)
    # Tracers are told how a model was made, the password in its server's URL included.
    methods["_serialized"] = property(lambda self: redact.values(dumpd(self)))
    # Traces and caches know a model by its class's name.
    named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    made: Any = type(kind)(kind.__name__, (kind,), {**named, **methods})
    made.__redact__ = redact
    return made


def _text_methods(kind: type[Any], redact: Redact) -> dict[str, Any]:
    def _generate(
        self: Any, prompts: list[str], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> Any:
        kwargs.pop("run_manager", None)
        with errors_without_secrets(redact):
            return redact.values(kind._generate(self, redact.values(prompts), stop=stop, **kwargs))

    async def _agenerate(
        self: Any, prompts: list[str], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> Any:
        kwargs.pop("run_manager", None)
        with errors_without_secrets(redact):
            return redact.values(await kind._agenerate(self, redact.values(prompts), stop=stop, **kwargs))

    # A generator of plain text is asked for the whole.
    return {
        "_generate": _generate,
        "_agenerate": _agenerate,
        "_stream": BaseLLM._stream,
        "_astream": BaseLLM._astream,
    }


def _chat_methods(kind: type[Any], redact: Redact) -> dict[str, Any]:
    """The methods by which a model answers, those that it has itself.

    None is handed the run's callbacks: some models tell them of each piece on their own.
    """

    def _generate(
        self: Any,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG001
        **kwargs: Any,
    ) -> ChatResult:
        with errors_without_secrets(redact):
            return _whole(redact, kind._generate(self, redact.values(messages), stop=stop, **kwargs))

    async def _agenerate(
        self: Any,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG001
        **kwargs: Any,
    ) -> ChatResult:
        with errors_without_secrets(redact):
            return _whole(redact, await kind._agenerate(self, redact.values(messages), stop=stop, **kwargs))

    def _stream(
        self: Any,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces = _Pieces(redact)
        with (
            errors_without_secrets(redact),
            closing(kind._stream(self, redact.values(messages), stop=stop, **kwargs)) as chunks,
        ):
            for chunk in pieces.each(chunks):
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self: Any,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        pieces = _Pieces(redact)
        with errors_without_secrets(redact):
            async with aclosing(kind._astream(self, redact.values(messages), stop=stop, **kwargs)) as chunks:
                async for chunk in pieces.aeach(chunks):
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _get_invocation_params(self: Any, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", redact.values(kind._get_invocation_params(self, stop=stop, **kwargs)))

    methods: dict[str, Any] = {"_generate": _generate, "_get_invocation_params": _get_invocation_params}
    # What a class has from BaseChatModel calls one of these; having it would say that it can do more.
    for method in (_agenerate, _stream, _astream):
        if getattr(kind, method.__name__) is not getattr(BaseChatModel, method.__name__):
            methods[method.__name__] = method
    # LangChain takes `_stream` where a model has no events of its own.
    for name in ("_stream_chat_model_events", "_astream_chat_model_events"):
        if getattr(kind, name, None) is not None:
            methods[name] = property(lambda self: None)  # noqa: ARG005
    return methods


def _whole(redact: Redact, result: ChatResult) -> ChatResult:
    shown = cast("ChatResult", redact.values(result))
    if shown is result:
        return result
    pairs = zip(result.generations, shown.generations, strict=True)
    generations = [
        new if new is old else new.model_copy(update={"message": _marked(new.message)}) for old, new in pairs
    ]
    return shown.model_copy(update={"generations": generations})


def _marked(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage):
        return message
    return message.model_copy(update={"response_metadata": {**message.response_metadata, REDACTED: True}})


class _Pieces:
    """A reply that comes in pieces: each text, block and call of it is a stream of its own."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._streams: dict[Path, Any] = {}
        self._shapes: dict[Path, Any] = {}
        """The latest piece of each text, block or call, for what is held back of it at the end."""
        self._marked = False
        self._ended = False

    def each(self, chunks: Iterator[ChatGenerationChunk]) -> Iterator[ChatGenerationChunk]:
        """The pieces without secrets."""
        for chunk in chunks:
            yield self._shown(chunk)
        yield from self._rest()

    async def aeach(self, chunks: AsyncIterator[ChatGenerationChunk]) -> AsyncIterator[ChatGenerationChunk]:
        """As `each`."""
        async for chunk in chunks:
            yield self._shown(chunk)
        for rest in self._rest():
            yield rest

    def _shown(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return cast("ChatGenerationChunk", self._redact.values(chunk))
        shown = {
            "content": self._fed(("content",), message.content),
            "tool_call_chunks": [
                {**call, "args": self._fed(("calls", _index(call, n), "args"), call["args"])}
                for n, call in enumerate(message.tool_call_chunks)
            ],
            "additional_kwargs": self._fed(("extra",), message.additional_kwargs),
            "response_metadata": self._redact.values(message.response_metadata),
        }
        self._remember(message)
        if message.chunk_position == "last":
            self._ended = True
            _append(shown, self._held())
        info = self._redact.values(chunk.generation_info)
        if self._found() and not self._marked:
            self._marked = True
            shown["response_metadata"] = {**shown["response_metadata"], REDACTED: True}
        if info is chunk.generation_info and all(
            getattr(message, name) == new for name, new in shown.items()
        ):
            return chunk
        # Made anew, so that the calls are read from the pieces of calls again.
        kept = {name: getattr(message, name) for name in ("name", "id", "usage_metadata", "chunk_position")}
        return ChatGenerationChunk(message=AIMessageChunk(**{**kept, **shown}), generation_info=info)

    def _rest(self) -> Iterator[ChatGenerationChunk]:
        held = {} if self._ended else self._held()
        if held or (self._found() and not self._marked):
            mark = {REDACTED: True} if self._found() and not self._marked else {}
            given = {"content": "", **held, "response_metadata": mark}
            yield ChatGenerationChunk(message=AIMessageChunk(**given))

    def _found(self) -> bool:
        return any(stream.found for stream in self._streams.values())

    def _fed(self, path: Path, value: Any) -> Any:
        return _mapped(path, value, self._feed)

    def _feed(self, path: Path, text: str) -> str:
        stream = self._streams.get(path)
        if stream is None:
            stream = self._streams[path] = self._redact.stream()
        shown = stream.feed(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        return text if shown == text else shown

    def _flush(self, path: Path, _: str) -> str:
        stream = self._streams.get(path)
        return stream.flush().decode("utf-8", "surrogatepass") if stream else ""

    def _remember(self, message: AIMessageChunk) -> None:
        if isinstance(message.content, list):
            for n, block in enumerate(message.content):
                self._shapes["content", _index(block, n)] = block
        elif message.content:
            self._shapes["content",] = ""
        for n, call in enumerate(message.tool_call_chunks):
            self._shapes["calls", _index(call, n)] = call
        for key, value in message.additional_kwargs.items():
            self._shapes["extra", key] = value

    def _held(self) -> dict[str, Any]:
        """What was held back, in the form of a piece; empty where it is nothing."""
        held: dict[str, Any] = {}
        content: list[Any] = []
        for (kind, *rest), shape in self._shapes.items():
            texts: list[str] = []
            if kind == "calls":
                if args := self._flush(("calls", *rest, "args"), ""):
                    call = {"name": None, "args": args, "id": None, "index": shape["index"]}
                    held.setdefault("tool_call_chunks", []).append({**call, "type": "tool_call_chunk"})
                continue
            value = _mapped((kind, *rest), shape, lambda at, text: _noted(texts, self._flush(at, text)))  # noqa: B023
            if not any(texts):
                continue
            if kind == "extra":
                held.setdefault("additional_kwargs", {})[rest[0]] = value
            else:
                content.append(value)
        if content:
            held["content"] = content[0] if len(content) == 1 and isinstance(content[0], str) else content
        return held


def _noted(texts: list[str], text: str) -> str:
    texts.append(text)
    return text


def _append(shown: dict[str, Any], held: dict[str, Any]) -> None:
    """Put what was held back behind a piece."""
    if "content" in held:
        before, behind = shown["content"], held["content"]
        if isinstance(before, str) != isinstance(behind, str):
            before, behind = _blocks(before), _blocks(behind)
        shown["content"] = before + behind
    if "tool_call_chunks" in held:
        shown["tool_call_chunks"] = shown["tool_call_chunks"] + held["tool_call_chunks"]
    if "additional_kwargs" in held:
        extra = shown["additional_kwargs"] = dict(shown["additional_kwargs"])
        for key, value in held["additional_kwargs"].items():
            extra[key] = extra[key] + value if isinstance(extra.get(key), str) else value


def _blocks(content: str | list[Any]) -> list[Any]:
    return content if isinstance(content, list) else [content] if content else []


def _mapped(path: Path, value: Any, leaf: Callable[[Path, str], str]) -> Any:
    """`value` with each text in it replaced by what `leaf` makes of it."""
    if isinstance(value, str):
        return leaf(path, value)
    if isinstance(value, list):
        return [_mapped((*path, _index(item, n)), item, leaf) for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            key: item if key in _FIXED else _mapped((*path, key), item, leaf) for key, item in value.items()
        }
    return value


def _index(item: Any, n: int) -> Any:
    """Which text, block or call of the reply a piece belongs to."""
    index = item.get("index") if isinstance(item, dict) else None
    return n if index is None else index


def not_as_written(message: BaseMessage, texts: Sequence[str], mark: str) -> bool:
    """Whether a reply held a secret, and one of these texts of it has `mark` in its place."""
    return bool(message.response_metadata.get(REDACTED)) and any(mark in text for text in texts)
