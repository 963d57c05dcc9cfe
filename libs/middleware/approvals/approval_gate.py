"""Ask a person about calls with one interrupt, and ask again after a wrong answer.

`addressed_graph` checks an answer where the answer enters the graph. The gate checks only that the answer
is about the waiting calls. After a wrong answer the question is asked again, with the reason under
`"error"`. On a server, `"asked_in"` is the id of the run that asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.config import get_config
from langgraph.types import interrupt

from libs.middleware.approvals.decisions import Decision, WrongAnswer, decided
from libs.middleware.approvals.grants import Granted, Held
from libs.middleware.approvals.question import DecisionType, Request, question_about
from libs.private_names import CONFIG_KEY_CHECKPOINTER

__all__ = ["CheckpointerRequired", "ask", "require_checkpointer"]


_ADVICE = """\
Approvals are on (APPROVALS=ask), but this run has no checkpointer, so nobody could answer a question.

In Python, build the graph with a checkpointer, and run it in a thread, {"configurable": {"thread_id": "1"}}:

    from langgraph.checkpoint.memory import InMemorySaver
    graph = build_graph(checkpointer=InMemorySaver())

With LangGraph's server, create a thread first, and run in that thread:

    thread = await client.threads.create()
    client.runs.stream(thread["thread_id"], ...)

To run every command without asking, set APPROVALS=auto."""


class CheckpointerRequired(RuntimeError):
    """Approvals are on and the run has no checkpointer, so no question could be answered."""

    def __init__(self) -> None:
        super().__init__(_ADVICE)


def require_checkpointer() -> None:
    """Raise if the run has no checkpointer. Call this function inside a node.

    Subgraphs use their parent's checkpointer. A server passes its own when it starts the run.

    Raises:
        CheckpointerRequired: the run has no checkpointer.
    """
    if get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER) is None:
        raise CheckpointerRequired


def ask(
    requests: Sequence[Request],
    allowed: Mapping[str, Sequence[DecisionType]],
    held: Held | None = None,
) -> list[Decision | Granted]:
    """Interrupt the run with one question about `requests` and return a decision for each, in order.

    Requests that a grant covers are not asked about. The outermost graph must come from
    `addressed_graph.answer_by_id`, which checks the answers. Call this function at most once in a node:
    LangGraph repeats the node from its start for every answer, wrong answers included.

    Args:
        requests: the calls to decide on, at least one.
        allowed: for each request's name, the decision types that are offered.
        held: the grants of the thread. None: grants cannot be saved, so only this call can be approved.

    Raises:
        CheckpointerRequired: the run has no checkpointer.
        GraphInterrupt: the question has no answer yet.
    """
    require_checkpointer()
    covered = [held.covering(request) if held else None for request in requests]
    waiting = [request for request, grant in zip(requests, covered, strict=True) if grant is None]
    answers = iter(
        _asked(question_about(waiting, allowed, lasting=held is not None), waiting) if waiting else ()
    )
    return [grant or next(answers) for grant in covered]


def _asked(question: dict[str, Any], requests: Sequence[Request]) -> list[Decision]:
    # A server repeats a killed run together with its answer. `answer_by_id` uses this id to keep that answer
    # away from a question that the same run asked later.
    if run_id := get_config()["configurable"].get("run_id"):
        question["asked_in"] = str(run_id)
    while True:
        answer = interrupt(question)
        try:
            return decided(answer, requests)
        except WrongAnswer as wrong:
            question = {**question, "error": str(wrong)}
