"""A sandbox contains placeholders of EGRESS_CREDENTIALS and no secret."""

from __future__ import annotations

import http.server
import json
import shlex
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from agent.config import load_settings
from agent.parts.egress_gateway import REQUESTS, build_gateway
from libs.gateway.credentials import placeholder
from libs.sandbox import RunResult
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.engine import shared_client
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker

HOST = "127.0.0.2"
"""An address of this machine. In the sandbox, only the gateway reaches the address."""
TOKEN = "ghp_9KxQ2vB7nT4cW8zL1mR5"


class Site(http.server.BaseHTTPRequestHandler):
    """Answers with the Authorization header of the request."""

    shown: list[str]

    def do_GET(self) -> None:
        type(self).shown.append(self.headers["Authorization"] or "nothing")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"you are {self.shown[-1]}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Start a site with a certificate that this machine trusts, and yield its port."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    Site.shown = []
    server = http.server.ThreadingHTTPServer((HOST, 0), Site)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


SEARCH = """
import os, sys
wanted = [word[::-1].encode() for word in sys.argv[1:]]  # reversed, so that this command line does not match
def look(path):
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return
    print("read")
    for word in wanted:
        if word in data:
            print("FOUND", path)
for folder in "/workspace /tmp /run /dev/shm /etc /home /root /var /usr/lib/code-agent".split():
    for parent, _, names in os.walk(folder):
        for name in names:
            if os.path.isfile(os.path.join(parent, name)):
                look(os.path.join(parent, name))
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        look(f"/proc/{process}/{name}")
"""


def test_sandbox_contains_only_the_placeholder(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of this sandbox is not redacted, so a secret would be visible."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITE_TOKEN", TOKEN)
    settings = load_settings(
        None,
        egress_allow=f"https://{HOST}:{port}",
        egress_private=f"{HOST}/32",
        egress_credentials=json.dumps({HOST: {"header": "Authorization", "secret": "SITE_TOKEN"}}),
        workspace_dir=tmp_path / "workspace",
    )
    gateway = build_gateway(settings)
    url = f"https://{HOST}:{port}/"
    try:
        with DockerSandbox(
            tmp_path / "workspace", image=IMAGE, name="placeholder", egress=gateway.door
        ) as sandbox:
            curl = f"curl -sS -H 'Authorization: Bearer mine' {url}"
            assert ok(sandbox.run(curl)) == "you are Bearer [REDACTED]\n"
            requests = f"import requests; print(requests.get({url!r}).text, end='')"
            assert ok(sandbox.run(f"python3 -c {shlex.quote(requests)}")) == "you are Bearer [REDACTED]\n"
            assert Site.shown == [f"Bearer {TOKEN}"] * 2
            assert ok(sandbox.run("echo $SITE_TOKEN")) == f"{placeholder('SITE_TOKEN')}\n"

            (tmp_path / "workspace" / "search.py").write_text(SEARCH)
            ok(sandbox.run("curl -sSv $HTTPS_PROXY > /tmp/said 2>&1; env > /tmp/env; sleep 30 > /dev/null &"))
            search = f"python3 search.py {TOKEN[::-1]} {TOKEN.encode().hex()[::-1]}"
            found = ok(sandbox.run(search, timeout=60))
            assert found.count("read") > 100
            assert "FOUND" not in found
            # The search does find the placeholder.
            known = placeholder("SITE_TOKEN")[::-1]
            assert "FOUND /proc/" in ok(sandbox.run(f"python3 search.py {known}", timeout=60))

            described = json.dumps(shared_client().api.inspect_container(sandbox.container_name))
            assert placeholder("SITE_TOKEN") in described
            assert TOKEN not in described
    finally:
        gateway.close()
    assert TOKEN not in (tmp_path / REQUESTS).read_text()


def ok(done: RunResult) -> str:
    assert done.exit_code == 0, done.output
    return done.output
