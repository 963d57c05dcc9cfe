"""Ask a person about calls, and ask again after a wrong answer.

`addressed_graph` checks each answer where the answer enters the graph. The gate checks only that the answer
is about the waiting calls. After a wrong answer the question is asked again, with the reason under
`"error"`. On a server, `"asked_in"` is the id of the run that asked.

In the mode `per_call` each call has an interrupt with an id of its own. But LangGraph resumes a whole node
under one id. This id is under `"group"` in each question, and `addressed_graph` collects the answers of a
group. In a graph that is a node of another graph, one interrupt asks about all calls of a reply (see
`nested_answers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt

from libs.middleware.approvals.decisions import Decision, WrongAnswer, decided, decision_schema
from libs.middleware.approvals.gate_rules import GateRules
from libs.middleware.approvals.grants import Granted, Held
from libs.middleware.approvals.nested_answers import ANSWER_READER, AnswerReader
from libs.middleware.approvals.question import DecisionType, Request, question_about, question_key
from libs.private_names import CONFIG_KEY_CHECKPOINTER

__all__ = ["CheckpointerRequired", "ask", "ask_alone", "require_checkpointer"]


_ADVICE = """\
Approvals are on (APPROVALS=ask), but this run has no checkpointer, so nobody could answer a question.

In Python, build the graph with a checkpointer, and run it in a thread, {"configurable": {"thread_id": "1"}}:

    from langgraph.checkpoint.memory import InMemorySaver
    graph = build_graph(checkpointer=InMemorySaver())

Inside a graph of your own, compile the outer graph with the checkpointer:

    outer = builder.compile(checkpointer=InMemorySaver())

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
    rules: GateRules,
    held: Held | None = None,
    *,
    state: Any = None,
    ruled: Collection[str] = (),
) -> list[Decision | Granted | None]:
    """Interrupt the run with the questions about `requests` and return a decision for each, in order.

    Requests that a grant covers, and requests that the rules let pass, are not asked about. The function
    returns only when all decisions are made, so no call runs while another call of its reply waits. The graph
    must come from `addressed_graph.answer_by_id`, which checks the answers. Call this function at most once
    in a node, before any `ask_alone`: LangGraph repeats the node from its start for every answer, wrong
    answers included.

    Args:
        requests: the calls to decide on, at least one.
        rules: which calls are asked about, and which decisions are offered.
        held: the grants of the thread. None: grants cannot be saved, so only this call can be approved.
        state: the state of the graph, for the functions of `rules`.
        ruled: digests of calls that the rules file asks about, or that declare tools of MCP servers. Only a
            grant of this exact call covers them.

    Returns the decisions; None for a call that `rules` let pass.

    Raises:
        CheckpointerRequired: the run has no checkpointer.
        GraphInterrupt: a question has no answer yet.
    """
    require_checkpointer()
    settled: dict[str, Decision | Granted | None] = {}
    waiting: list[Request] = []
    for request in requests:
        grant = held.covering(request) if held else None
        must_ask = request.digest in ruled
        if grant and not (must_ask and grant.scope == "tool"):
            settled[request.digest] = grant
        elif not must_ask and not rules.asks_about(request, state):
            settled[request.digest] = None
        else:
            waiting.append(request)
    reader = get_config()["configurable"].get(ANSWER_READER)
    settled |= _asked(waiting, rules, reader, lasting=held is not None and reader is None, state=state)
    return [settled[request.digest] for request in requests]


def ask_alone(request: Request, rules: GateRules, held: Held | None, *, state: Any = None) -> Decision:
    """Interrupt the run with a question about one call, and return the decision.

    The question has an id of its own, so no answer to another question decides on the call. Call this
    function after `ask`, any number of times, always in the same order. If the call has run already, only
    approve and reject are offered, and no grant.

    Raises:
        GraphInterrupt: the question has no answer yet.
    """
    reader = get_config()["configurable"].get(ANSWER_READER)
    lasting = held is not None and reader is None and request.effect is None
    made = _asked([request], rules, reader, lasting=lasting, state=state, alone=True)
    decision = made[request.digest]
    assert not isinstance(decision, Granted)  # noqa: S101 - a person has decided
    return decision


def _asked(
    requests: Sequence[Request],
    rules: GateRules,
    reader: AnswerReader | None,
    *,
    lasting: bool,
    state: Any,
    alone: bool = False,
) -> dict[str, Decision | Granted]:
    """Return digest -> decision for each request."""
    # Only `addressed_graph` puts the answers to several questions of a node together.
    per_call = (alone or rules.per_call) and reader is None
    noted = [
        replace(request, note="\n\n".join(filter(None, (rules.note(request, state), request.note))))
        for request in requests
    ]
    groups = [[request] for request in noted] if per_call else [noted] if noted else []
    questions = {}
    for group in groups:
        question = question_about(
            group, rules.offered if group[0].effect is None else _keep_or_undo, lasting=lasting
        )
        # A server repeats a killed run together with its answer. `answer_by_id` uses this id to keep that
        # answer away from a question that the same run asked later.
        if run_id := get_config()["configurable"].get("run_id"):
            question["asked_in"] = str(run_id)
        questions[question_key(question)] = group, question
    made: dict[str, Decision | Granted] = {}
    given: dict[str, Any] = {}
    while questions:
        asked = [question for _, question in questions.values()]
        answers = _interrupt(asked, reader, per_call=per_call)
        about = answers.keys() & questions.keys()
        given |= _by_digest(answers)
        for key, (group, question) in list(questions.items()):
            # The question that was answered may have had other calls: the mode changes with a restart.
            if given.keys() >= set(digests := [request.digest for request in group]):
                answer: Any = {"decisions": [given[digest] for digest in digests]}
            elif about and key not in about:
                continue  # this answer is about other questions
            else:
                answer = answers.get(key)
            try:
                decisions = decided(answer, group)
            except WrongAnswer as wrong:
                questions[key] = group, {**question, "error": str(wrong)}
            else:
                made |= {request.digest: decision for request, decision in zip(group, decisions, strict=True)}
                del questions[key]
    return made


def _keep_or_undo(_: str) -> Sequence[DecisionType]:
    return ["approve", "reject"]


def _by_digest(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return digest of a call -> its decision."""
    return {
        decision["digest"]: decision
        for answer in answers.values()
        if isinstance(answer, dict)
        for decision in answer.get("decisions", ())
        if "digest" in decision
    }


def _interrupt(
    questions: Sequence[Mapping[str, Any]], reader: AnswerReader | None, *, per_call: bool
) -> Mapping[str, Any]:
    """Return the answers: key of a question -> the checked answer.

    Args:
        questions: the questions without an answer.
        reader: checks the answer, if the outermost graph does not.
        per_call: whether each question has an interrupt of its own. Otherwise there is one question.

    Raises:
        GraphInterrupt: there is no answer yet.
    """
    try:
        answers = interrupt(questions[0])
    except GraphInterrupt as raised:
        if not per_call:
            raise
        [own] = raised.args[0]
        raise GraphInterrupt([_of_one_call(question, own.id) for question in questions]) from None
    if reader:
        return {question_key(questions[0]): reader(answers, questions[0])}
    return answers if isinstance(answers, dict) else {}


def _of_one_call(question: Mapping[str, Any], group: str) -> Interrupt:
    """Return an interrupt whose id stays the same while other calls of the reply are decided."""
    node = get_config()["configurable"]["checkpoint_ns"]
    # LangGraph reads 32 hex digits as the id of an interrupt.
    own = hashlib.sha256(f"{node}/{question_key(question)}".encode()).hexdigest()[:32]
    [offered] = question["review_configs"]
    schema = decision_schema(tuple(offered["allowed_decisions"]))
    return Interrupt({**question, "group": group}, own, response_schema=schema)
