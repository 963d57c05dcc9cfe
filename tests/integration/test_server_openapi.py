"""What /openapi.json says of this project's routes holds, whatever Schemathesis asks from it.

No 500, no undocumented answer, no body of another schema. LangGraph's own routes are not asked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest
import schemathesis
from chat_server import serving
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.internal.conjecture.utils import many
from langgraph_api.validation import openapi as of_langgraph
from langgraph_server import Server, langgraph_dev
from schemathesis import Case, GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi

from agent.tokens import new_token

pytestmark = pytest.mark.docker

SCRIPT = "- text: That is done.\n" * 50
ALICE, ALICES = new_token("alice")
EXAMPLES = 15
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
    """Schemathesis 4.15, the last for langgraph-api's jsonschema-rs, uses hypothesis-jsonschema; that asks
    for the next element by a method which Hypothesis has made an iterator of."""
    assert not hasattr(many, "more"), "this fixture is no longer needed"

    def more(self: Any) -> bool:
        if not hasattr(self, "turns"):
            self.turns = iter(self.__enter__())
        return next(self.turns, False) is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "more", more, raising=False)
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("described")
    final = {"type": "final", "content": "That is done."}
    settings = {"AUTH_TOKENS": str(ALICES), "HTTP_RATE": "10000000"}
    with serving(lambda _: final) as lite:
        settings["OPENAI_LITE_BASE_URL"] = lite.url
        with langgraph_dev(folder, SCRIPT, **settings) as server:
            yield server


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture(scope="module")
def document(http: httpx.Client) -> dict[str, Any]:
    return dict(http.get("/openapi.json").raise_for_status().json())


def test_every_answer_around_the_server_is_described(http: httpx.Client, document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            said = set(operation["responses"])
            assert {"403"} <= said
            assert path in {"/ok", "/health"} or {"401", "429", "503"} <= said, path
            assert "requestBody" not in operation or {"408", "413", "415"} <= said, (method, path)
    assert http.get("/docs").is_success


def test_what_langgraph_says_of_its_routes_is_still_said(document: dict[str, Any]) -> None:
    left_out = {"/mcp/", "/threads/{thread_id}/storage"}
    for path, operations in of_langgraph["paths"].items():
        for method, operation in operations.items() if path not in left_out else ():
            served = document["paths"][path][method]
            assert served["responses"].keys() >= operation["responses"].keys(), (method, path)
            for part in ("requestBody", "parameters", "summary"):
                assert served.get(part) == operation.get(part), (method, path)


def thread_that_asks(http: httpx.Client) -> str:
    """The id of a thread of /run."""
    return str(http.post("/run", json={"input": "a task"}).raise_for_status().json()["thread_id"])


def fuzz(operation: Any, mode: GenerationMode, ask: Callable[[Case], None]) -> None:
    """Ask what an operation describes (or what it does not), always the same."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def all_of_them(case: Case) -> None:
        ask(case)

    with suppress(Unsatisfiable):  # there is nothing that such an operation could be asked wrongly
        all_of_them()


def test_no_500_and_no_undocumented_answer_of_our_routes(
    server: Server, http: httpx.Client, document: dict[str, Any]
) -> None:
    asked: Counter[str] = Counter()

    def ask(case: Case, thread: str | None) -> None:
        if thread and case.path_parameters:
            case.path_parameters = {"thread_id": thread}
        request = case.as_transport_kwargs(base_url=server.url)
        headers = {name: value.encode("latin-1", "replace") for name, value in request["headers"].items()}
        headers.pop("Authorization", None)
        body = {name: request[key] for key, name in (("json", "json"), ("data", "content")) if key in request}
        try:
            answer = http.request(
                case.method, request["url"], params=request["params"], headers=headers, **body
            )
        except httpx.LocalProtocolError:  # what no client can send
            return
        asked[case.path] += 1
        case.validate_response(answer, checks=list(STRICT))

    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        if OURS in operation.definition.raw.get("tags", ()):
            for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
                for thread in (None, thread_that_asks(http)) if "{" in operation.path else (None,):
                    fuzz(operation, mode, partial(ask, thread=thread))
    assert asked.keys() >= {"/health", "/run", "/run/{thread_id}/resume", "/run-lite"}
    assert asked.total() > 50
