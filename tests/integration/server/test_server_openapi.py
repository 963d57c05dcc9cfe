"""Tests with Schemathesis that our routes answer as /openapi.json says.

No 500, no undocumented answer, no body of another schema. LangGraph's routes get fewer requests, and the
schemas of their answers are not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.internal.conjecture.utils import many
from langgraph_api.validation import openapi as of_langgraph
from schemathesis import Case, GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi

from agent.settings.token_settings import new_token
from tests.servers.chat_server import serving
from tests.servers.served import Served, served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SCRIPT = "conversations: []"
"""The shared server only has to return its description."""
ANSWERS = "- text: That is done.\n" * 50
ALICE, ALICES = new_token("alice")
EXAMPLES = 6
FEW = 4
OURS = "Code Execution Agent"
"""The tag of this project's routes."""
STRICT = (
    checks.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_schema_conformance,
    openapi.negative_data_rejection,
)


@pytest.fixture(scope="module", autouse=True)
def hypothesis_as_it_was() -> Iterator[None]:
    """Restore a method of Hypothesis that hypothesis-jsonschema calls. Schemathesis 4.15 needs that package,
    and is the last version that fits langgraph-api's jsonschema-rs."""
    assert not hasattr(many, "more"), "this fixture is no longer needed"

    def more(self: Any) -> bool:
        if not hasattr(self, "turns"):
            self.turns = iter(self.__enter__())
        return next(self.turns, False) is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "more", more, raising=False)
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("described")
    final = {"type": "final", "content": "That is done."}
    settings = {"AUTH_TOKENS": str(ALICES), "HTTP_RATE": "10000000"}
    with serving(lambda _: final) as lite:
        settings["OPENAI_LITE_BASE_URL"] = lite.url
        with served(folder, ANSWERS, **settings) as server:
            yield server


@pytest.fixture(scope="module")
def http(server: Served) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture
def document(shared_server: Served) -> dict[str, Any]:
    return described(shared_server)


def described(server: Served) -> dict[str, Any]:
    with server.client(ALICE) as http:
        return dict(http.get("/openapi.json").raise_for_status().json())


def test_answers_of_the_guards_are_described(shared_server: Served, document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            said = set(operation["responses"])
            assert {"403"} <= said
            assert path in {"/ok", "/health"} or {"401", "429", "503"} <= said, path
            assert "requestBody" not in operation or {"408", "413", "415"} <= said, (method, path)
    assert httpx.get(f"{shared_server.url}/docs").is_success


def test_503_of_runs_is_not_only_the_guards(document: dict[str, Any]) -> None:
    for path in ("/run", "/run/{thread_id}/resume", "/run-lite"):
        meaning = document["paths"][path]["post"]["responses"]["503"]["description"]
        assert meaning.startswith("The server is busy or ending, or cannot write to its database"), path


def test_langgraphs_descriptions_are_kept(document: dict[str, Any]) -> None:
    left_out = {"/mcp/", "/threads/{thread_id}/storage"}
    for path, operations in of_langgraph["paths"].items():
        for method, operation in operations.items() if path not in left_out else ():
            served = document["paths"][path][method]
            assert served["responses"].keys() >= operation["responses"].keys(), (method, path)
            for part in ("requestBody", "parameters", "summary"):
                assert served.get(part) == operation.get(part), (method, path)


def thread_that_asks(http: httpx.Client) -> str:
    """Return the id of a thread of /run."""
    return str(http.post("/run", json={"input": "a task"}).raise_for_status().json()["thread_id"])


def fuzz(operation: Any, mode: GenerationMode, ask: Callable[[Case], None], examples: int = EXAMPLES) -> None:
    """Send requests that fit an operation's description (or do not), the same in every run."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def all_of_them(case: Case) -> None:
        ask(case)

    with suppress(Unsatisfiable):  # no request can be wrong for this operation
        all_of_them()


def arguments(case: Case, server: Served) -> dict[str, Any]:
    """Return the case as arguments of httpx."""
    request = case.as_transport_kwargs(base_url=server.url)
    headers = {name: value.encode("latin-1", "replace") for name, value in request["headers"].items()}
    headers.pop("Authorization", None)
    body = {name: request[key] for key, name in (("json", "json"), ("data", "content")) if key in request}
    return {
        "method": case.method,
        "url": request["url"],
        "params": request["params"],
        "headers": headers,
    } | body


@pytest.mark.timeout(900)
def test_no_500_and_no_undocumented_answer_of_our_routes(server: Served, http: httpx.Client) -> None:
    asked: Counter[str] = Counter()

    def ask(case: Case, thread: str | None) -> None:
        if thread and case.path_parameters:
            case.path_parameters = {**case.path_parameters, "thread_id": thread}
        try:
            answer = http.request(**arguments(case, server))
        except httpx.LocalProtocolError:  # what no client can send
            return
        asked[case.path] += 1
        case.validate_response(answer, checks=list(STRICT))

    for result in schemathesis.openapi.from_dict(described(server)).get_all_operations():
        operation = result.ok()
        if OURS in operation.definition.raw.get("tags", ()):
            for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
                for thread in (None, thread_that_asks(http)) if "{" in operation.path else (None,):
                    fuzz(operation, mode, partial(ask, thread=thread))
    files = {f"/files/{{thread_id}}/{part}" for part in ("list", "content", "table", "pdf")}
    grants = "/page/threads/{thread_id}/grants"
    ours = {"/health", "/run", "/run/{thread_id}/resume", "/run-lite", "/page/config"}
    assert asked.keys() >= {*ours, *files, grants, f"{grants}/{{grant_id}}"}
    assert asked.total() > 50


def things(http: httpx.Client) -> dict[str, str]:
    """Create objects; return path parameter -> id."""

    def made(path: str, body: Any) -> Any:
        return http.post(path, json=body).raise_for_status().json()

    run = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": "a task"}]}}
    cron = {**run, "schedule": "0 0 1 1 *", "on_run_completed": "keep"}
    thread = made("/threads", {})["thread_id"]
    made(f"/threads/{thread}/runs/wait", run)
    return {
        "thread_id": thread,
        "run_id": http.get(f"/threads/{thread}/runs").json()[0]["run_id"],
        "checkpoint_id": http.get(f"/threads/{thread}/state").json()["checkpoint"]["checkpoint_id"],
        "assistant_id": made("/assistants", {"graph_id": "deep_agent"})["assistant_id"],
        "cron_id": made("/runs/crons", cron)["cron_id"],
        "graph_id": "deep_agent",
    }


def test_no_500_and_no_undocumented_answer_of_langgraphs_routes(server: Served) -> None:
    there: dict[str, str] = {}
    faults: dict[str, str] = {}
    asked: Counter[str] = Counter()
    # A new connection for each request: the server closes it after a fault. A stream need not begin.
    no_reuse = httpx.Limits(max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {ALICE}"}

    def ask(case: Case, *, names: Mapping[str, str]) -> None:
        parts = case.path_parameters or {}
        case.path_parameters = {name: names.get(name, value) for name, value in parts.items()}
        operation = f"{case.method} {case.path}"
        asked[operation] += 1
        with (
            suppress(httpx.LocalProtocolError, httpx.ReadTimeout),
            client.stream(**arguments(case, server)) as answer,
        ):
            described = case.operation.definition.raw["responses"].keys()
            if answer.status_code >= 500 or not {str(answer.status_code), "default"} & described:
                faults.setdefault(operation, f"{answer.status_code} {answer.read()!r}: {case.body!r}"[:1000])

    with httpx.Client(base_url=server.url, headers=headers, limits=no_reuse, timeout=0.5) as client:
        with server.client(ALICE) as patient:
            there |= things(patient)
        for result in schemathesis.openapi.from_dict(described(server)).get_all_operations():
            operation = result.ok()
            if OURS in operation.definition.raw.get("tags", ()):
                continue
            named = "{" in operation.path
            if named and operation.method != "delete":
                fuzz(operation, GenerationMode.POSITIVE, partial(ask, names=there), FEW)
            fuzz(operation, GenerationMode.POSITIVE, partial(ask, names={}), FEW)
            # Hypothesis takes seconds to find invalid names, so "x" is used for all of them.
            if not named:
                fuzz(operation, GenerationMode.NEGATIVE, partial(ask, names={}), FEW)
            elif "requestBody" in operation.definition.raw:
                fuzz(operation, GenerationMode.NEGATIVE, partial(ask, names=there), FEW)
            else:
                fuzz(operation, GenerationMode.POSITIVE, partial(ask, names=dict.fromkeys(there, "x")), 1)
    assert faults == {}
    assert len(asked) > 50
    assert asked.total() > 300
    assert "Error in cron_scheduler" not in server.log()
