"""What agent/server relies on in langgraph-api 0.16, where no test over HTTP would say which part changed."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path

from langgraph_sdk import Auth
from starlette.middleware.cors import CORSMiddleware


def source(module: str, file: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / file).read_text()


def test_calls_of_the_server_to_itself_have_this_root_path() -> None:
    assert 'root_path == "/noauth" or root_path.startswith("/noauth/")' in source(
        "langgraph_api", "auth/middleware.py"
    )
    assert 'get_asgi_transport()(app, root_path="/noauth")' in source("langgraph_sdk", "_async/client.py")


def test_routes_of_the_development_server_that_are_closed() -> None:
    routes = source("langgraph_runtime_inmem", "routes.py")
    for path in (
        "/deploy",
        "/deploy/{operation_id}/stream",
        "/internal/debug/thread/{thread_id}",
        "/internal/truncate",
    ):
        assert f'"{path}"' in routes
    assert routes.count('ApiRoute(\n            "') + routes.count('ApiRoute("') == 5, "no other"


def test_no_handler_but_the_most_specific_is_asked() -> None:
    assert "keys = [\n        (ctx.resource, ctx.action),  # most specific" in source(
        "langgraph_api", "auth/custom.py"
    )


def test_only_these_are_asked_of_handlers() -> None:
    """Runs are asked about as threads. What a later version adds is for nobody, until it is looked at."""
    assert set(type(Auth().on).__slots__) - {"_auth", "value"} == {
        "assistants",
        "crons",
        "runs",
        "store",
        "threads",
    }


def test_what_handlers_change_is_what_is_kept() -> None:
    """The server hands over the metadata that it goes on to keep."""
    operations = source("langgraph_runtime_inmem", "ops.py")
    assert operations.count("metadata=metadata") > 5
    assert '"metadata": copy.deepcopy(metadata),' in operations


def test_the_servers_own_answers_to_other_origins_can_be_turned_off() -> None:
    assert "CORS_CONFIG is None" in source("langgraph_api", "server.py")
    assert "allow_private_network" in inspect.signature(CORSMiddleware).parameters
