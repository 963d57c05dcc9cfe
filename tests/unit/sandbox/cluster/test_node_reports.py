"""What is listed of a node that has the sandboxes of several servers."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from libs.sandbox.cluster.actor import Listed, Refusal
from libs.sandbox.cluster.cluster_nodes import NodeReport, _with
from libs.sandbox.errors import ClusterUnavailable

ONE, TWO = Listed("one", "thread", 1), Listed("two", "", 2)


def answer(given: list[Listed] | Refusal | Exception | None) -> Future[list[Listed] | Refusal]:
    """Return an answer, an error, or an answer that has not come."""
    made = Future[list[Listed] | Refusal]()
    if isinstance(given, Exception):
        made.set_exception(given)
    elif given is not None:
        made.set_result(given)
    return made


def test_sandboxes_of_all_servers_are_listed() -> None:
    report = _with(_with(NodeReport("node"), answer([ONE])), answer([TWO]))
    assert report == NodeReport("node", [ONE, TWO])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "the node does not answer"),
        (Refusal("DockerUnavailable", "The Engine hangs.", "Restart it."), "The Engine hangs."),
        (ClusterUnavailable("The actor has died.", hint=""), "The actor has died."),
    ],
)
def test_problem_of_one_server_stays_whatever_the_next_one_answers(
    given: Refusal | Exception | None, problem: str
) -> None:
    report = _with(_with(NodeReport("node"), answer(given)), answer([ONE]))
    assert report == NodeReport("node", [ONE], problem)
