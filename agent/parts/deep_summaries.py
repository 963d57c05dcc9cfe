"""Bound the time of calls that summarize a long conversation, and explain and redact their errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from deepagents.backends.protocol import BackendProtocol
from deepagents.middleware import SummarizationMiddleware as DeepagentsSummarizationMiddleware
from deepagents.middleware.summarization import compute_summarization_defaults
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel

from libs.middleware.budget import BudgetMiddleware
from libs.models import ConversationTooLong

__all__ = ["SummarizationMiddleware"]

_TOO_LONG = (
    "The conversation, or that of a subagent, does not fit the model's context, and could not be shortened "
    "enough. Give a smaller task, start a new thread, or choose a model with a larger context."
)


class SummarizationMiddleware(DeepagentsSummarizationMiddleware):
    """Replaces deepagents' middleware of the same name, which asks for a summary outside of other middleware.

    Here that call has its errors explained and redacted. In an asynchronous run it ends with the run's time.
    It counts neither as a call of the run nor for its tokens.
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
        self._explained = errors

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        with self._errors():
            return super().wrap_model_call(request, handler)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        with self._errors():
            try:
                with self._run_budget.at_work(request.state) as seconds:
                    async with asyncio.timeout(seconds) as deadline:
                        return await super().awrap_model_call(request, handler)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return await handler(request)  # the budget answers in place of the model

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with self._explained():
                yield
        except ContextOverflowError as error:
            raise ConversationTooLong(_TOO_LONG) from error
