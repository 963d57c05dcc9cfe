"""Errors of model providers are explained, and contain no known secret."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_api.serde import json_dumpb
from pydantic import BaseModel

from agent.code_graph import build_graph as code_graph
from agent.config import build_model, load_settings
from agent.exec_graph import build_graph as exec_graph
from agent.graph import build_graph as deep_graph
from agent.run import explained
from libs.models.deferred_model import DeferredChatModel, ModelUnavailable
from libs.models.model_errors import ConversationTooLong, ModelFailed, explained_errors, without_secrets
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.redaction import SecretFilter
from tests.servers.chat_server import serving

KEY = "sk-canary-Ab12Cd34Ef56"
KNOWN = SecretFilter({"KEY": KEY})


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")


def refused(request: httpx.Request | None = None) -> openai.AuthenticationError:
    request = request or httpx.Request("POST", "http://x/v1", headers={"Authorization": f"Bearer {KEY}"})
    body = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}
    response = httpx.Response(401, json={"error": body}, headers={"echo": KEY}, request=request)
    return openai.AuthenticationError(f"Error code: 401 - {body}", response=response, body=body)


class Failing(BaseChatModel):
    """Fails in the middle of a reply with an error that contains the key."""

    @property
    def _llm_type(self) -> str:
        return "failing"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

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
            raise refused() from error


class TestErrors:
    @pytest.mark.parametrize(
        ("build", "asynchronous"), [(deep_graph, False), (code_graph, True), (exec_graph, True)]
    )
    async def test_key_in_an_error_is_redacted(
        self, tmp_path: Path, build: Callable[..., Any], asynchronous: bool
    ) -> None:
        settings = load_settings(None, openai_api_key=KEY, workspace_dir=tmp_path, approvals="auto")
        saver = InMemorySaver()
        graph = build(Failing(), settings=settings, checkpointer=saver)
        given: Any = {"messages": [("user", "go")]}
        thread: Any = {"configurable": {"thread_id": "1"}}
        with pytest.raises(ModelFailed) as raised:
            await graph.ainvoke(given, thread) if asynchronous else graph.invoke(given, thread)
        error = raised.value.__cause__
        assert isinstance(error, openai.AuthenticationError)
        assert str(raised.value) == explained(error) == explained(raised.value)
        assert "Incorrect API key provided: [REDACTED]" in str(raised.value)
        assert (error.code, error.status_code) == ("invalid_api_key", 401)
        told = [*traceback.format_exception(raised.value), repr(error.body), error.response.text]
        kept = [repr(list(saver.list(thread))), repr(saver.writes), repr(saver.blobs)]
        assert KEY not in "".join([*told, repr(error.response.headers), *kept])

    async def test_key_in_an_error_of_a_subagent_is_redacted(self, tmp_path: Path) -> None:
        class Half(ScriptedChatModel):
            """Starts a subagent, which fails."""

            def _next(self, messages: Any) -> AIMessage:
                if messages[-1].text == "part":
                    raise refused()
                return super()._next(messages)

        call = ToolUse(name="task", args={"subagent_type": "general-purpose", "description": "part"})
        replies = (Reply(tool_calls=(call,)), Reply(text="It failed."))
        model = Half(conversations=(Conversation(replies=replies),))
        settings = load_settings(None, openai_api_key=KEY, workspace_dir=tmp_path, approvals="auto")
        graph = deep_graph(model, settings=settings, checkpointer=InMemorySaver())
        with pytest.raises(ModelFailed) as raised:
            await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})
        assert "Incorrect API key provided: [REDACTED]" in str(raised.value)
        assert KEY not in "".join(traceback.format_exception(raised.value))

    def test_error_of_a_provider_is_explained_in_a_class_that_the_server_shows(self) -> None:
        told = "The model could not be reached or refused: Error code: 401"
        with pytest.raises(ModelFailed, match=told), explained_errors(None):
            raise refused()
        assert json.loads(json_dumpb(ModelFailed("why")))["message"] == "why"

    @pytest.mark.parametrize(
        ("provider", "key", "address"),
        [
            ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
            ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            ("google_genai", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
            ("openrouter", "OPENROUTER_API_KEY", "OPENROUTER_API_BASE"),
            ("ollama", "UNUSED", "OLLAMA_HOST"),
        ],
    )
    def test_refusal_of_each_installed_provider_is_explained(
        self, monkeypatch: pytest.MonkeyPatch, provider: str, key: str, address: str
    ) -> None:
        with serving(lambda _: (401, {"error": {"message": "no such key", "code": 401}})) as server:
            server.keep_alive = False  # no client keeps a connection open
            monkeypatch.setenv(key, KEY)
            monkeypatch.setenv(address, server.url)
            model = build_model(load_settings(None, model=f"{provider}:m"))
            with pytest.raises(ModelFailed, match="no such key"), explained_errors(None):
                model.invoke("hi")

    def test_ollama_that_does_not_run_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
        model = build_model(load_settings(None, model="ollama:m"))
        with pytest.raises(ModelFailed, match=r"from http://127\.0\.0\.1:9"), explained_errors(None):
            model.invoke("hi")

    def test_context_that_is_too_long_has_its_class(self) -> None:
        class TooLong(openai.OpenAIError, ContextOverflowError):
            pass

        with pytest.raises(ConversationTooLong), explained_errors(None):
            raise TooLong("too long")

    def test_status_of_an_answer_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with serving(lambda _: (400, {"error": {"message": "prompt is too long"}})) as server:
            server.keep_alive = False
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            model = build_model(load_settings(None, model="openai:m"))
            with pytest.raises(ModelFailed, match="prompt is too long") as caught, explained_errors(None):
                model.invoke("hi")
        assert caught.value.status_code == 400

    async def test_key_in_an_error_of_the_set_up_is_redacted(self, tmp_path: Path) -> None:
        def refuse() -> BaseChatModel:
            raise ModelUnavailable(f"no {KEY}")

        settings = load_settings(None, openai_api_key=KEY, workspace_dir=tmp_path, approvals="auto")
        for build in (deep_graph, code_graph):
            graph = build(DeferredChatModel(label="x", build=refuse), settings=settings)
            with pytest.raises(ModelUnavailable, match=r"no \[REDACTED\]"):
                await graph.ainvoke({"messages": [("user", "go")]})

    def test_immutable_error_is_replaced(self) -> None:
        class Strict(BaseModel):
            n: int

        try:
            Strict.model_validate({"n": KEY})
        except ValueError as error:
            shown = without_secrets(error, KNOWN)
        assert isinstance(shown, ModelFailed)
        assert str(shown).startswith("ValidationError: 1 validation error")
        assert KEY not in str(shown)

    def test_causes_groups_and_notes_are_redacted(self) -> None:
        error = RuntimeError("outer")
        error.__cause__ = ExceptionGroup("several", [ValueError(KEY), KeyError(KEY)])
        error.__context__ = OSError(5, f"cannot read {KEY}", f"/tmp/{KEY}")
        error.add_note(f"note {KEY}")
        assert KEY not in "".join(traceback.format_exception(without_secrets(error, KNOWN)))
        clean = ValueError("no secret")
        assert without_secrets(clean, KNOWN) is clean
