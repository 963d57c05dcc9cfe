"""Programs in a container reach named servers on loopback through the whole gateway."""

from __future__ import annotations

import http.server
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from libs.backends.docker import DockerExecutionBackend
from libs.gateway.gateway_limits import EgressLimits
from libs.gateway.gateway_thread import Gateway
from libs.gateway.proxy import Proxy
from libs.gateway.request_log import RequestLog
from libs.gateway.rules.addresses import Address
from libs.gateway.rules.allow_list import Rules
from tests.bench.bench_sandboxes import in_thread
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker

HOST = "site.test"


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(f"{self.path} of {self.headers['Host']}\n".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(f"{len(body)} bytes\n".encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ports(authority: trustme.CA) -> Iterator[dict[str, int]]:
    """Start a server for each scheme."""
    servers = {
        scheme: http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) for scheme in ("http", "https")
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    servers["https"].socket = context.wrap_socket(servers["https"].socket, server_side=True)
    threads = [threading.Thread(target=server.serve_forever) for server in servers.values()]
    for thread in threads:
        thread.start()
    yield {scheme: server.server_port for scheme, server in servers.items()}
    for server in servers.values():
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


async def here(host: str, port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def make_gateway(ports: dict[str, int], *, log: RequestLog | None = None, rate: int = 10_000) -> Gateway:
    rules = Rules.parse([f"{scheme}://{HOST}:{port}" for scheme, port in ports.items()])
    return Gateway(lambda: Proxy(rules=rules, resolve=here, log=log), limits=EgressLimits(rate=rate))


@pytest.fixture(scope="module")
def computer(
    ports: dict[str, int], authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerExecutionBackend]:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "site.crt").write_bytes(authority.cert_pem.bytes())
    gateway = make_gateway(ports)
    with DockerExecutionBackend(workspace, name="test-gateway", image=IMAGE, egress=gateway.door) as backend:
        yield backend
    gateway.close()


def output(computer: DockerExecutionBackend, command: str, status: int = 0) -> str:
    done = computer.execute(command, timeout=60)
    assert done.exit_code == status, done.output
    return done.output


def test_programs_use_the_proxy_by_default(computer: DockerExecutionBackend, ports: dict[str, int]) -> None:
    plain, secret = f"http://{HOST}:{ports['http']}", f"https://{HOST}:{ports['https']}"
    assert output(computer, f"curl -sS '{plain}/a?b=c'") == f"/a?b=c of {HOST}:{ports['http']}\n"
    assert output(computer, f"curl -sS --cacert site.crt {secret}/d") == f"/d of {HOST}:{ports['https']}\n"
    # The program sees the real certificate and does not trust its authority.
    assert "certificate" in output(computer, f"curl -sS {secret}/d", 60)
    code = f"""
import requests, urllib.request
print(requests.get("{plain}/").text, requests.get("{secret}/", verify="/workspace/site.crt").text, end="")
print(requests.post("{secret}/", data=b"x" * 3_000_000, verify="/workspace/site.crt").text, end="")
print(urllib.request.urlopen("{plain}/").status)
"""
    lines = output(computer, f"python3 - <<'END'\n{code}\nEND").splitlines()
    assert lines == [f"/ of {HOST}:{ports['http']}", f" / of {HOST}:{ports['https']}", "3000000 bytes", "200"]


def test_nothing_else_leads_out(computer: DockerExecutionBackend, ports: dict[str, int]) -> None:
    """No route, name service, UDP, raw socket or VSOCK."""
    code = f"""
import socket
def attempt(what, *arguments):
    try:
        print("reached", what(*arguments))
    except OSError as error:
        print(type(error).__name__, error.errno)
attempt(socket.create_connection, ("127.0.0.1", {ports["http"]}), 2)
attempt(socket.create_connection, ("192.0.2.1", 80), 2)
attempt(socket.getaddrinfo, "site.test", 80)
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
attempt(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 22)))
attempt(socket.create_connection, ("2001:db8::1", 80), 2)
attempt(socket.create_connection, ("169.254.169.254", 80), 2)
"""
    said = output(computer, f"python3 - <<'END'\n{code}\nEND").splitlines()
    assert len(said) == 9
    assert not [line for line in said if line.startswith("reached")], said


def test_closed_gateway_lets_nothing_out(ports: dict[str, int], tmp_path: Path) -> None:
    gateway = make_gateway(ports)
    with DockerExecutionBackend(tmp_path, name="test-gateway", image=IMAGE, egress=gateway.door) as computer:
        url = f"http://{HOST}:{ports['http']}/"
        assert "of site.test" in output(computer, f"curl -sS {url}")
        gateway.close()
        assert computer.execute(f"curl -sS {url}").exit_code != 0
        assert output(computer, "echo still here") == "still here\n"


def test_gateway_that_fails_to_start_lets_nothing_out(
    ports: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> Proxy:
        raise ValueError("a policy that cannot be")

    gateway = Gateway(fails)
    with DockerExecutionBackend(tmp_path, name="test-gateway", image=IMAGE, egress=gateway.door) as computer:
        said = output(computer, f"curl -sS http://{HOST}:{ports['http']}/")
        assert said == "the gateway did not start and lets nothing out: the log of the application says why\n"
        assert computer.execute(f"curl -sS https://{HOST}/").exit_code == 56
    gateway.close()
    assert "a policy that cannot be" in caplog.text


def test_each_sandbox_has_limits_and_a_log_of_its_own(ports: dict[str, int], tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "egress.jsonl")
    gateway = make_gateway(ports, log=log, rate=2)
    url = f"http://{HOST}:{ports['http']}/page?secret=1"
    with DockerExecutionBackend(
        tmp_path / "w", name="test-gateway", image=IMAGE, egress=gateway.door, scope="thread", warm=1
    ) as computer:

        def asked(thread: str, name: str) -> str:
            forged = f"-H 'X-Sandbox: other' -H 'X-Thread: {name}'"
            return in_thread(thread, lambda: output(computer, f"curl -sS {forged} '{url}'"))

        first = [asked("one", "two") for _ in range(3)]
        assert [line.startswith("/page") for line in first] == [True, True, False]
        assert "EGRESS_RATE" in first[2]
        assert asked("two", "one").startswith("/page")
    gateway.close()
    lines = [json.loads(line) for line in (tmp_path / "egress.jsonl").read_text().splitlines()]
    assert [line["thread"] for line in lines] == ["one", "one", "one", "two"]
    assert len({line["sandbox"] for line in lines}) == 2
    assert {line["path"] for line in lines if line["decision"] == "allowed"} == {"/page"}


def test_port_of_the_proxy_cannot_be_taken(computer: DockerExecutionBackend) -> None:
    code = "import socket; socket.create_server(('127.0.0.1', 3128))"
    assert "Address already in use" in output(computer, f'python3 -c "{code}" 2>&1', 1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 3128), 1)
