"""What taking secrets out relies on in other packages: who hears of a reply, and through which hands it goes.

As `test_contracts_upstream.py`: a failure here says where a secret may find a new way before it does.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any
from uuid import uuid4

import httpx
import pytest
import typer
from langchain_core.language_models import chat_models
from langchain_core.tracers import langchain as tracer
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langsmith import Client
from typing_extensions import TypedDict

# langchain


def test_a_failed_calls_answer_goes_to_tracers() -> None:
    """`libs.models.model_errors` takes the secrets out of it."""

    class Refused(Exception):
        response = httpx.Response(401, json={"echo": "key"}, headers={"h": "key"})

    [generation] = chat_models._generate_response_from_error(Refused())
    metadata = generation.message.response_metadata
    assert metadata["body"] == {"echo": "key"}
    assert metadata["headers"]["h"] == "key"


# langsmith


def test_the_tracer_sends_with_the_one_client_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from langsmith import run_trees

    made: list[dict[str, Any]] = []

    def make(**options: Any) -> str:
        made.append(options)
        return "client"

    monkeypatch.setattr(run_trees, "_CLIENT", None)
    monkeypatch.setattr(run_trees, "Client", make)
    run_trees.get_cached_client(anonymizer=str)
    assert tracer.get_client() == "client"
    assert made == [{"anonymizer": str}]


def test_its_anonymizer_sees_all_that_is_told_of_a_run() -> None:
    client = Client(
        api_url="http://localhost:1", api_key="k", auto_batch_tracing=False, anonymizer=lambda told: {"n": 0}
    )
    run = {
        "id": str(uuid4()),
        "name": "x",
        "run_type": "chain",
        "inputs": {"told": "a"},
        "outputs": {"told": "b"},
        "error": "c",
        "extra": {"metadata": {"told": "d"}},
    }
    sent = client._run_transform(dict(run), copy=True)
    assert (sent["inputs"], sent["outputs"], sent["extra"]["metadata"]) == ({"n": 0}, {"n": 0}, {"n": 0})
    client = Client(
        api_url="http://localhost:1",
        api_key="k",
        auto_batch_tracing=False,
        anonymizer=lambda told: dict.fromkeys(told, "-"),
    )
    assert client._run_transform(dict(run), copy=True)["error"] == "-"


# langgraph


def test_everything_people_send_comes_in_by_these() -> None:
    """`AddressedGraph` takes secrets out there; a new way in must be decided on."""
    for caller, callee in (
        (Pregel.invoke, "self.stream("),
        (Pregel.ainvoke, "self.astream("),
        (Pregel.update_state, "self.bulk_update_state("),
        (Pregel.aupdate_state, "self.abulk_update_state("),
    ):
        assert callee in inspect.getsource(caller)


async def test_input_that_a_graph_is_given_is_kept_before_any_node_runs() -> None:
    """Why it is cleaned in front of the graph and not in its first node."""
    from langgraph.checkpoint.memory import InMemorySaver

    class State(TypedDict):
        text: str

    builder = StateGraph(State)
    builder.add_node("clean", lambda state: {"text": "clean"})
    builder.add_edge(START, "clean")
    saver = InMemorySaver()
    await builder.compile(checkpointer=saver).ainvoke({"text": "raw"}, {"configurable": {"thread_id": "1"}})
    assert any("raw" in repr(saved.checkpoint) for saved in saver.list(None))


# langgraph dev


def test_an_apps_middleware_is_put_around_the_servers_own() -> None:
    """So `agent.http_app` sees a request before anything keeps or logs it."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("langgraph_api")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / "server.py").read_text()
    assert "custom_middleware + global_middleware" in source


# logging, typer


def test_extra_is_put_into_a_record_after_its_factory() -> None:
    source = inspect.getsource(logging.Logger.makeRecord)
    assert source.index("_logRecordFactory(") < source.index("rv.__dict__[key] = extra[key]")


def test_typer_sets_its_hook_before_a_command_runs() -> None:
    source = inspect.getsource(typer.Typer.__call__)
    assert source.index("sys.excepthook = except_hook") < source.index("get_command(self)(")
