"""A model's replies, whole or in pieces, and its errors hold no known secret for anybody (G6)."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_anthropic import ChatAnthropic
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from libs.gateway.redaction import SecretFilter
from libs.models.deferred import DeferredChatModel, ModelUnavailable
from libs.models.model_errors import ModelFailed, without_secrets
from libs.models.redacted import REDACTED, not_as_written, redacted_model
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

KEY = "sk-canary-Ab12Cd34Ef56"
KNOWN = SecretFilter({"KEY": KEY})
MARK = "[REDACTED]"
ENCODED = base64.b64encode(f"user:{KEY}".encode()).decode()


class Pieces(BaseChatModel):
    """Gives just these pieces, by whichever way it is asked."""

    pieces: list[AIMessageChunk]

    @property
    def _llm_type(self) -> str:
        return "pieces"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        whole = add_ai_message_chunks(*self.pieces)
        message = AIMessage(
            whole.content,
            tool_calls=whole.tool_calls,
            additional_kwargs=whole.additional_kwargs,
            response_metadata=whole.response_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output={"told": KEY})

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for piece in self.pieces:
            chunk = ChatGenerationChunk(message=piece.model_copy())
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class AsyncPieces(Pieces):
    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self.pieces:
            yield ChatGenerationChunk(message=piece.model_copy())


class Listening(BaseCallbackHandler):
    """Keeps all that a tracer would be told."""

    raise_error = True

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        self.told += [token, chunk]

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.told.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.told += [repr(error), "".join(traceback.format_exception(error)), kwargs.get("response")]


def said(*texts: str) -> list[AIMessageChunk]:
    return [AIMessageChunk(content=text) for text in texts]


def cut(text: str, *places: int) -> list[str]:
    ends = [0, *sorted(places), len(text)]
    return [text[start:stop] for start, stop in pairwise(ends)]


def whole(pieces: list[AIMessageChunk]) -> AIMessageChunk:
    return add_ai_message_chunks(*pieces)


class TestReplies:
    async def test_every_way_to_ask(self) -> None:
        for kind in (Pieces, AsyncPieces):
            model = redacted_model(
                kind(pieces=said("the key ", "is sk-can", "ary-Ab12Cd34Ef56", ", I say")), KNOWN
            )
            told = Listening()
            config: Any = {"callbacks": [told]}
            replies = [
                model.invoke("x", config),
                await model.ainvoke("x", config),
                whole(list(model.stream("x", config))),  # type: ignore[arg-type]
                whole([piece async for piece in model.astream("x", config)]),  # type: ignore[misc]
                [event async for event in model.astream_events("x", config, version="v2")][-1]["data"][
                    "output"
                ],  # type: ignore[typeddict-item]
            ]
            assert [reply.text for reply in replies] == [f"the key is {MARK}, I say"] * 5
            assert all(reply.response_metadata[REDACTED] for reply in replies)
            assert KEY not in repr(replies) + repr(told.told)
            assert MARK in repr(told.told)

    @given(st.lists(st.integers(0, 80), max_size=6), st.sampled_from([KEY, ENCODED, f"{KEY}{KEY}", KEY[:12]]))
    def test_however_it_is_cut(self, places: list[int], secret: str) -> None:
        text = f"first {secret} and then s"
        model = redacted_model(Pieces(pieces=said(*cut(text, *(min(at, len(text)) for at in places)))), KNOWN)
        assert whole(list(model.stream("x"))).text == KNOWN(text)  # type: ignore[arg-type]

    def test_what_holds_none_is_as_it_was(self) -> None:
        pieces = said("nothing ", "to ", "see")
        model = redacted_model(Pieces(pieces=pieces), KNOWN)
        shown = [piece for piece in model.stream("x") if piece.content]
        assert [piece.content for piece in shown] == ["nothing ", "to ", "see"]
        assert REDACTED not in whole(shown).response_metadata  # type: ignore[arg-type]

    def test_calls(self) -> None:
        args = json.dumps({"command": f"curl -H 'Authorization: {KEY}' x", "n": 1})
        pieces = [
            AIMessageChunk(
                content="",
                tool_call_chunks=[
                    {"name": ("execute", None)[at > 0], "args": part, "id": ("1", None)[at > 0], "index": 0,
                     "type": "tool_call_chunk"}
                ],
            )
            for at, part in enumerate(cut(args, 9, 35, 41, 50))
        ]  # fmt: skip
        model = redacted_model(Pieces(pieces=pieces), KNOWN)
        for reply in (whole(list(model.stream("x"))), model.invoke("x")):  # type: ignore[arg-type]
            [call] = reply.tool_calls
            assert call["args"] == {"command": f"curl -H 'Authorization: {MARK}' x", "n": 1}
            assert (call["name"], call["id"]) == ("execute", "1")
            assert not reply.invalid_tool_calls
            assert KEY not in repr(reply)
            assert not_as_written(reply, [json.dumps(call["args"])], MARK)

    def test_blocks_of_content(self) -> None:
        pieces = [
            AIMessageChunk(content=[{"type": "thinking", "thinking": f"hm {KEY[:9]}", "index": 0}]),
            AIMessageChunk(content=[{"type": "thinking", "thinking": f"{KEY[9:]} s", "index": 0}]),
            AIMessageChunk(content=[{"type": "text", "text": f"so {KEY[:5]}", "index": 1}]),
            AIMessageChunk(content=[{"type": "text", "text": KEY[5:], "index": 1}]),
            AIMessageChunk(content=[{"type": "text", "text": " s", "index": 1}], chunk_position="last"),
        ]
        model = redacted_model(Pieces(pieces=pieces), KNOWN)
        for reply in (whole(list(model.stream("x"))), model.invoke("x")):  # type: ignore[arg-type]
            assert KEY not in repr(reply)
            texts = [
                block.get("thinking") or block.get("text")
                for block in reply.content
                if isinstance(block, dict)
            ]
            assert "".join(texts[:1]) + "|" + "".join(texts[1:]) == f"hm {MARK} s|so {MARK} s"

    def test_what_a_provider_adds(self) -> None:
        pieces = [
            AIMessageChunk(
                content="fine",
                additional_kwargs={"reasoning_content": f"it is {KEY[:7]}"},
                response_metadata={"headers": {"echo": KEY}},
            ),
            AIMessageChunk(content="", additional_kwargs={"reasoning_content": KEY[7:]}),
        ]
        model = redacted_model(Pieces(pieces=pieces), KNOWN)
        for reply in (whole(list(model.stream("x"))), model.invoke("x")):  # type: ignore[arg-type]
            assert KEY not in repr(reply)
            assert reply.additional_kwargs["reasoning_content"] == f"it is {MARK}"
            assert reply.response_metadata["headers"] == {"echo": MARK}

    def test_a_stream_that_is_closed_closes_the_models(self) -> None:
        closed: list[bool] = []

        class Endless(Pieces):
            def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
                try:
                    while True:
                        yield ChatGenerationChunk(message=AIMessageChunk(content="on "))
                finally:
                    closed.append(True)

        stream = redacted_model(Endless(pieces=[]), KNOWN).stream("x")
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert closed == [True]

    async def test_a_generator_of_plain_text(self) -> None:
        model = redacted_model(FakeListLLM(responses=[f"it is {KEY}"]), KNOWN)
        assert model.invoke("x") == f"it is {MARK}"
        assert await model.ainvoke("x") == f"it is {MARK}"
        assert [piece async for piece in model.astream("x")] == [f"it is {MARK}"]


class TestModels:
    def test_without_secrets_it_is_the_same(self) -> None:
        model = Pieces(pieces=[])
        assert redacted_model(model, None) is model
        once = redacted_model(model, KNOWN)
        assert redacted_model(once, KNOWN) is once

    @pytest.mark.parametrize(
        "model",
        [
            ChatOpenAI(model="m", api_key=SecretStr(KEY), base_url="http://localhost:1/v1"),
            ChatAnthropic(model_name="claude-x", api_key=SecretStr(KEY), timeout=None, stop=None),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_it_stays_of_its_class(self, model: BaseChatModel) -> None:
        shown = redacted_model(model, KNOWN)
        assert isinstance(shown, type(model))
        assert type(shown).__name__ == type(model).__name__
        assert shown.lc_id() == model.lc_id()
        assert shown.model_dump() == model.model_dump()
        assert shown._llm_type == model._llm_type
        assert shown._identifying_params == model._identifying_params
        assert shown._serialized == model._serialized

        class Args(BaseModel):
            """x"""

            path: str

        assert shown.bind_tools([Args]).kwargs == model.bind_tools([Args]).kwargs  # type: ignore[attr-defined]

    def test_how_it_was_made_is_told_to_tracers_without(self) -> None:
        class Started(BaseCallbackHandler):
            def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
                told.append((serialized, kwargs))

        told: list[Any] = []
        made = ChatOpenAI(
            model="m",
            api_key=SecretStr(KEY),
            base_url=f"http://me:{KEY}@127.0.0.1:1/v1",
            model_kwargs={"user": KEY},
            max_retries=0,
        )
        with pytest.raises(openai.APIConnectionError):
            redacted_model(made, KNOWN).invoke("x", {"callbacks": [Started()]})
        assert KEY not in repr(told)
        assert told[0][0]["kwargs"]["openai_api_base"] == f"http://me:{MARK}@127.0.0.1:1/v1"

    def test_it_is_told_no_secret(self) -> None:
        heard: list[Any] = []

        class Hearing(Pieces):
            def _stream(self, messages: Any, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
                heard.append(messages)
                yield ChatGenerationChunk(message=AIMessageChunk(content="fine"))

        list(redacted_model(Hearing(pieces=[]), KNOWN).stream([("system", f"a {KEY}"), ("user", "b")]))
        assert [message.text for message in heard[0]] == [f"a {MARK}", "b"]

    async def test_one_that_is_built_later(self) -> None:
        inner = ScriptedChatModel(
            conversations=(
                Conversation(
                    replies=(Reply(text=f"a {KEY}", tool_calls=(ToolUse(name="ls", args={"path": KEY}),)),)
                ),
            )
        )
        model = redacted_model(DeferredChatModel(label="x", build=lambda: inner), KNOWN)
        reply = await model.bind_tools([]).ainvoke([("user", "go")])
        assert reply.text == f"a {MARK}"
        assert reply.tool_calls[0]["args"] == {"path": MARK}

        def refuse() -> BaseChatModel:
            raise ModelUnavailable(f"no {KEY}")

        refusing = redacted_model(DeferredChatModel(label="x", build=refuse), KNOWN)
        with pytest.raises(ModelUnavailable, match=r"no \[REDACTED\]"):
            refusing.invoke("x")


def refused(request: httpx.Request | None = None) -> openai.AuthenticationError:
    request = request or httpx.Request("POST", "http://x/v1", headers={"Authorization": f"Bearer {KEY}"})
    body = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}
    response = httpx.Response(401, json={"error": body}, headers={"echo": KEY}, request=request)
    return openai.AuthenticationError(f"Error code: 401 - {body}", response=response, body=body)


class Failing(Pieces):
    error: Any = None

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.fail()
        raise AssertionError

    def _stream(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content="I "))
        self.fail()

    def fail(self) -> None:
        try:
            raise ConnectionError(f"http://me:{KEY}@host")
        except ConnectionError as error:
            raise self.error from error


class TestErrors:
    async def test_of_a_provider(self) -> None:
        told = Listening()
        config: Any = {"callbacks": [told]}
        for ask in ("invoke", "ainvoke", "stream", "astream"):
            model = redacted_model(Failing(pieces=[], error=refused()), KNOWN)
            with pytest.raises(openai.AuthenticationError) as raised:
                if ask == "invoke":
                    model.invoke("x", config)
                elif ask == "ainvoke":
                    await model.ainvoke("x", config)
                elif ask == "stream":
                    list(model.stream("x", config))
                else:
                    [piece async for piece in model.astream("x", config)]
            error = raised.value
            assert "Incorrect API key provided: [REDACTED]" in str(error)
            assert error.code == "invalid_api_key"
            assert error.status_code == 401
            assert KEY not in "".join(traceback.format_exception(error))
            assert KEY not in repr(error.body) + error.response.text + repr(error.response.headers)
        assert "401" in repr(told.told)
        assert KEY not in repr(told.told)

    def test_one_that_holds_none_is_the_same_object(self) -> None:
        error = ValueError("no secret")
        assert without_secrets(error, KNOWN) is error

    def test_one_that_cannot_be_changed(self) -> None:
        class Strict(BaseModel):
            n: int

        try:
            Strict.model_validate({"n": KEY})
        except ValueError as error:
            shown = without_secrets(error, KNOWN)
        assert isinstance(shown, ModelFailed)
        assert str(shown).startswith("ValidationError: 1 validation error")
        assert KEY not in str(shown)

    def test_those_that_it_came_from_and_is_made_of(self) -> None:
        inner = OSError(5, f"cannot read {KEY}", f"/tmp/{KEY}")
        group = ExceptionGroup("several", [ValueError(KEY), KeyError(KEY)])
        error = RuntimeError("outer")
        error.__cause__, error.__context__ = group, inner
        error.add_note(f"note {KEY}")
        shown = without_secrets(error, KNOWN)
        assert KEY not in "".join(traceback.format_exception(shown))
