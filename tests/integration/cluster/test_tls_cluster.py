"""A cluster with TLS: threads run, and nobody without a certificate is let in."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import trustme

from tests.clients.cli_program import Program, execute
from tests.support.cluster.ray_cluster import Cluster, empty_cluster
from tests.support.cluster.tls_files import tls_files
from tests.support.sandboxes import IMAGE

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of Ray begins."""


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head and a node. Only their programs use TLS, not this process."""
    with empty_cluster(IMAGE) as made:
        node = made.new_node()
        node.start()
        head, _, _ = made.address.rpartition(":")
        for address, start in ((head, made.start_head), (node.ip, node.start_raylet)):
            with monkeypatch.context() as environment:
                for variable, value in tls_files(tmp_path, authority, address).items():
                    environment.setenv(variable, value)
                start()
        yield made


def answers(address: str, port: int, context: ssl.SSLContext) -> bool:
    """Return whether the port sends anything to a client that begins as one of Ray."""
    with suppress(ssl.SSLError, ConnectionError):
        connection = socket.create_connection((address, port), 60)
        with closing(connection), context.wrap_socket(connection, server_hostname=address) as greeting:
            greeting.sendall(GREETING)
            return bool(greeting.recv(1))
    return False


def run(program: Program, *arguments: str) -> subprocess.Popen[str]:
    """Start a run, and wait until its command has printed."""
    started = program.start("run", "--json", "--approve", "auto", *arguments)
    assert started.stdout
    for line in started.stdout:
        if '"up\\n"' in line:
            return started
    raise AssertionError(f"the run ended with {started.wait()}")


def test_threads_run_over_tls_and_nobody_without_a_certificate_is_let_in(
    secure: Cluster, tmp_path: Path, authority: trustme.CA
) -> None:
    [node] = secure.nodes
    head, _, port = secure.address.rpartition(":")
    folder = tmp_path / "server"
    folder.mkdir()
    environment = {
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "SANDBOX_CLUSTER": secure.address,
        "SANDBOX_SCOPE": "thread",
        "SANDBOX_WARM": "0",
    }
    program = Program(folder, environment | tls_files(tmp_path, authority, head))
    program.conversations(
        Keep=[execute("echo kept"), "Done."],
        Stay=[execute("echo up; sleep 600"), "Done."],
    )
    assert program.lines("--thread", "t", "--approve", "auto", "Keep")[-1]["status"] == "completed"

    stranger = ssl.create_default_context()
    authority.configure_trust(stranger)
    stranger.set_alpn_protocols(["h2"])
    member = ssl.create_default_context()
    authority.configure_trust(member)
    authority.issue_cert(head).configure_cert(member)
    member.set_alpn_protocols(["h2"])
    with run(program, "--thread", "u", "Stay") as running:
        assert answers(head, int(port), member)
        assert not answers(head, int(port), stranger)
        listening = node.machine.run(["ss", "-Hltn"]).splitlines()
        ports = {int(line.split()[3].rpartition(":")[2]) for line in listening if "127.0.0" not in line}
        assert len(ports) > 2, "those of Ray, and one for the frames"
        assert not any(answers(node.ip, each, stranger) for each in ports)
        running.kill()

        for variables in ({}, tls_files(tmp_path, trustme.CA(), head)):
            other = Program(folder, environment | variables)
            refused = other.run("sandbox", "ls")
            assert refused.returncode != 0
            assert f"No Ray cluster answers at '{secure.address}'" in refused.stderr
            assert "RAY_USE_TLS" in refused.stderr
