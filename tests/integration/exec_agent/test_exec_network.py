"""Programs and the network: credentials stay on the host, and the prompt's good programs run."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from agent.prompts.exec_catalogue import load_catalogue
from libs.exec_tool.kv_service import HOST, KvService
from libs.exec_tool.program_runner import CodeRunner
from libs.gateway.credentials import CredentialRule, Credentials
from libs.gateway.gateway_thread import Gateway
from libs.gateway.proxy import Proxy
from libs.gateway.rules.addresses import Address
from libs.gateway.rules.allow_list import Rules
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from libs.redaction import SecretFilter
from tests.support.exec_tool.exec_runners import runner

pytestmark = pytest.mark.docker

KEY = "key-9KxQ2vB7nT4cW8zL1mR5"
API = "api.github.com"


class Site(http.server.BaseHTTPRequestHandler):
    """Answers every request with an empty object, and records the headers."""

    seen: list[dict[str, str]] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(context: ssl.SSLContext | None) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    """A runner whose hosts are local servers. The gateway adds the key."""
    folder = tmp_path_factory.mktemp("exec")
    public = trustme.CA()
    tls, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    public.issue_cert(API).configure_cert(tls)
    public.configure_trust(trusted)
    rule = CredentialRule(API, "Authorization", "KEY", "Bearer {}")
    credentials = Credentials([rule], {"KEY": KEY}, SecretFilter({"KEY": KEY}))
    database = SqliteDatabase(folder / "kv.sqlite")
    with serving(tls) as secure, serving(None) as plain:

        async def resolve(host: str, port: int) -> list[Address]:
            return [Address("127.0.0.1", secure if port == 443 else plain)]

        gateway = Gateway(
            lambda: Proxy(
                rules=Rules.parse([f"https://{API}", "http://shop.test"]),
                resolve=resolve,
                credentials=credentials,
                tls=trusted,
                services={HOST: KvService(ThreadStore(database))},
            ),
            credential_hosts=frozenset(credentials.hosts),
        )
        with runner(folder, egress=gateway.door) as made:
            yield made
        gateway.close()
    database.close()


def test_credential_is_added_and_never_visible(run: CodeRunner) -> None:
    code = """
import json, os, requests, subprocess
told = requests.get("https://api.github.com/repos/python/cpython/issues", timeout=15)
everything = subprocess.run("env; cat /proc/*/environ; grep -ra key- /tmp /workspace 2>/dev/null", shell=True,
                            capture_output=True, text=True, errors="replace").stdout
print(json.dumps({"status": told.status_code, "request": dict(told.request.headers), "seen": everything}))
"""
    result = run.run(code)
    assert result.error is None, result.stderr
    assert result.result["status"] == 200
    assert Site.seen[-1]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(result.as_json())


@pytest.mark.thorough
def test_good_programs_of_the_prompt_run(run: CodeRunner) -> None:
    sales = (Path(__file__).parents[3] / "workspace" / "data" / "sales.csv").read_text()
    for good in load_catalogue().good:
        if good.dependencies:
            continue  # `test_exec_dependencies.py` runs these
        given = {"files": {"data/sales.csv": sales}} if "sales" in good.code else good.inputs
        result = run.run(good.code, thread="good", **given)
        assert result.error is None, (good.task, result.stderr)
        assert result.result["ok"] is True
        assert result.result["answer"]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import requests\nrequests.get('https://other.test', timeout=15)"),
        ("python", "import urllib.request\nurllib.request.urlopen('http://other.test', timeout=15)"),
        ("bash", "curl -s https://other.test"),
    ],
)
def test_host_that_is_not_allowed_is_a_network_error(run: CodeRunner, language: str, code: str) -> None:
    error = run.run(code, language=language).error
    assert error is not None
    assert error.kind == "network", error
    assert "Not reached: other.test." in error.message
    assert "The sandbox reaches only the hosts that its person has allowed" in error.hint


@pytest.mark.parametrize("code", ["requests.get('http://127.0.0.1:9')", "requests.get('http://localhost:9')"])
def test_connection_to_the_sandbox_itself_is_no_network_error(run: CodeRunner, code: str) -> None:
    error = run.run(f"import requests\n{code}").error
    assert error is not None
    assert error.kind == "runtime", error


def test_secret_in_the_name_of_a_host_is_redacted(tmp_path: Path) -> None:
    known = SecretFilter({"KEY": KEY.lower()})
    gateway = Gateway(lambda: Proxy(rules=Rules.parse([])))
    with runner(tmp_path, egress=gateway.door, redact=known) as run:
        error = run.run(f"curl -s https://{KEY.lower()}.test", language="bash").error
    gateway.close()
    assert error is not None
    assert "Not reached: [REDACTED].test." in error.message
