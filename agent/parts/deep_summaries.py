"""Bind the calls that summarize a long conversation, as other calls of the model are bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

from deepagents.backends.protocol import BackendProtocol
from deepagents.middleware import SummarizationMiddleware as DeepagentsSummarizationMiddleware
from deepagents.middleware.summarization import compute_summarization_defaults
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage

from libs.middleware.budget import BudgetMiddleware, BudgetUsedUp
from libs.models import ConversationTooLong

__all__ = ["SummarizationMiddleware"]

_request: ContextVar[ModelRequest[Any]] = ContextVar("request")
"""The request whose messages are summarized."""
_NOTHING = "[The model wrote no summary.]"
_TOO_LONG = (
    "The conversation, or that of a subagent, does not fit the model's context, and could not be shortened "
    "enough. Give a smaller task, start a new thread, or choose a model with a larger context."
)


class SummarizationMiddleware(DeepagentsSummarizationMiddleware):
    """Replaces deepagents' middleware of the same name, which asks for a summary outside of other middleware.

    Here the call for a summary counts for the budget of the run, ends with the run's time, and has its errors
    explained and redacted. Without budget, nothing is summarized and the run ends. If the conversation is too
    long for that call, too, or the answer is empty, the model is told so, and has the saved history. This is
    whole: deepagents would save calls whose long arguments it has cut.
    """

    def __init__(
        self,
        model: BaseChatModel,
        backend: BackendProtocol,
        budget: BudgetMiddleware,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        defaults: Any = compute_summarization_defaults(model)
        super().__init__(model, backend=backend, trim_tokens_to_summarize=None, **defaults)
        self._run_budget = budget
        self._errors = errors

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        with _summarizing(request):
            try:
                return super().wrap_model_call(request, handler)
            except BudgetUsedUp:
                return handler(request)  # the budget answers in place of the model

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        with _summarizing(request):
            try:
                return await super().awrap_model_call(request, handler)
            except BudgetUsedUp:
                return await handler(request)

    def _create_summary(self, messages_to_summarize: list[AnyMessage]) -> str:
        text = ""
        with self._run_budget.other_call(_request.get().state) as meter:
            with suppress(ContextOverflowError), self._errors():
                text = super()._create_summary(messages_to_summarize)
            meter.add_tokens(self.token_counter([*messages_to_summarize, AIMessage(text)]))
        return text or _NOTHING

    async def _acreate_summary(self, messages_to_summarize: list[AnyMessage]) -> str:
        text = ""
        with self._run_budget.other_call(_request.get().state) as meter:
            try:
                with suppress(ContextOverflowError), self._errors():
                    async with asyncio.timeout(meter.remaining()) as deadline:
                        text = await super()._acreate_summary(messages_to_summarize)
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise BudgetUsedUp from None
            meter.add_tokens(self.token_counter([*messages_to_summarize, AIMessage(text)]))
        return text or _NOTHING

    def _offload_to_backend(
        self, backend: BackendProtocol, messages: list[AnyMessage], session_id: str
    ) -> str | None:
        whole = _with_whole_calls(messages, _request.get().messages)
        return super()._offload_to_backend(backend, whole, session_id)

    async def _aoffload_to_backend(
        self, backend: BackendProtocol, messages: list[AnyMessage], session_id: str
    ) -> str | None:
        whole = _with_whole_calls(messages, _request.get().messages)
        return await super()._aoffload_to_backend(backend, whole, session_id)


@contextmanager
def _summarizing(request: ModelRequest[Any]) -> Iterator[None]:
    token = _request.set(request)
    try:
        yield
    except ContextOverflowError as error:
        raise ConversationTooLong(_TOO_LONG) from error
    finally:
        _request.reset(token)


def _with_whole_calls(messages: Sequence[AnyMessage], kept: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages with the calls that messages with the same id have in `kept`."""
    calls = {each.id: each.tool_calls for each in kept if isinstance(each, AIMessage) and each.id}
    return [
        each.model_copy(update={"tool_calls": calls[each.id]}) if each.id in calls else each
        for each in messages
    ]
