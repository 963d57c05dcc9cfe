"""The approval gate: put calls before a person, read the answer, never get stuck on a wrong one.

The question is LangChain's batched interrupt, the shape that Studio and the public chat pages read::

    {"action_requests": [{"name", "args", "description", "digest"}],
     "review_configs": [{"action_name", "allowed_decisions"}]}

`libs.middleware.decisions` says what answers it, `libs.middleware.grants` what goes unasked because it was
approved for the thread. Whatever is wrong with an answer, the same question is asked again with the reason
under `"error"`. Where an approval can hold for this call alone, `"scopes"` is `["call"]`. Where runs have ids
(on a server), `"asked_in"` is that of the run that asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD, NS_SEP
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import interrupt

from libs.middleware.decisions import (
    Approve,
    Decision,
    DecisionType,
    Edit,
    Reject,
    Request,
    WrongAnswer,
    read_answer,
)
from libs.middleware.grants import Granted, Held

__all__ = [
    "Approve",
    "CheckpointerRequired",
    "Decision",
    "DecisionType",
    "Edit",
    "Reject",
    "Request",
    "ask",
    "require_checkpointer",
]


class CheckpointerRequired(RuntimeError):
    """Approvals are on, and the run has no checkpointer: a question could never be answered."""

    def __init__(self) -> None:
        super().__init__(
            "Approvals are on (APPROVALS=ask), but this run has no checkpointer, so nobody could answer a "
            "question. Build the graph with one, for example "
            "build_graph(checkpointer=InMemorySaver()), serve it with `langgraph dev` and run it in a "
            "thread, or choose APPROVALS=auto to run every command without asking."
        )


def require_checkpointer() -> None:
    """Refuse a run that could ask but never be answered. Call it inside a node.

    Subgraphs run on their parent's checkpointer; a server brings its own at run time.

    Raises:
        CheckpointerRequired: the run has none.
    """
    if get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER) is None:
        raise CheckpointerRequired


def ask(
    requests: Sequence[Request],
    allowed: Mapping[str, Sequence[DecisionType]],
    held: Held | None = None,
) -> list[Decision | Granted]:
    """Interrupt the run with `requests` as one question and return a decision for each, in order.

    Those that a grant covers are left out of the question; without others there is none.

    Call it at most once in a node: the node runs again from its start for every answer, and wrong answers
    are replayed, each refused for the same reason as before, until the right one is reached.

    Args:
        requests: the calls to decide on, at least one.
        allowed: for each request's name, the decision types that are offered.
        held: what was approved for the thread; None where nothing keeps that: only this call can then be
            approved. The graph must be one of `libs.middleware.answers.answer_by_id`.

    Raises:
        CheckpointerRequired: the run has no checkpointer.
        GraphInterrupt: there is no answer yet.
    """
    require_checkpointer()
    covered = [held.covering(request) if held else None for request in requests]
    waiting = [request for request, grant in zip(requests, covered, strict=True) if grant is None]
    answers = iter(_decisions(waiting, allowed, lasting=held is not None) if waiting else ())
    return [grant or next(answers) for grant in covered]


def _decisions(
    requests: Sequence[Request], allowed: Mapping[str, Sequence[DecisionType]], *, lasting: bool
) -> list[Decision]:
    question: dict[str, Any] = {
        "action_requests": [
            {
                "name": request.name,
                "args": dict(request.args),
                "description": request.description,
                "digest": request.digest,
            }
            for request in requests
        ],
        "review_configs": [
            {"action_name": request.name, "allowed_decisions": list(allowed[request.name])}
            for request in requests
        ],
    }
    if not lasting:
        question["scopes"] = ["call"]
    # A server runs a killed run again, with the answer it was given; `answer_by_id` must tell a question
    # that this very run has asked from the one that the answer was for.
    if run_id := get_config()["configurable"].get("run_id"):
        question["asked_in"] = str(run_id)
    while True:
        _drop_unaddressed_answer()
        answer = interrupt(question)
        try:
            return read_answer(answer, requests, allowed, lasting=lasting)
        except WrongAnswer as wrong:
            question = {**question, "error": str(wrong)}


def _drop_unaddressed_answer() -> None:
    """Inside a subagent, take an answer only when it is addressed to this very interrupt.

    LangGraph stores an answer sent without an interrupt id on the checkpoint of the outermost graph, and
    that checkpoint stays while a subagent works through several questions. A later resume that brings no
    answer, or one for another interrupt, would find the old one there and take it for an answer to the new
    question. `answer_by_id` addresses what people send, so only such leftovers are dropped here.
    """
    configurable = get_config()["configurable"]
    if NS_SEP in configurable["checkpoint_ns"]:
        configurable[CONFIG_KEY_SCRATCHPAD].get_null_resume(True)
