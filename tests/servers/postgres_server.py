"""A PostgreSQL server in a temporary folder, from Debian's package, that listens only on a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

PASSWORD = "pg-5Hj8Kl2Mn7Bv"


class Postgres:
    """A server that tests can end and start again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def start(self) -> None:
        options = ["-c", "listen_addresses=", "-k", str(self._folder), "-c", "shared_buffers=16MB"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_not_root(), self._programs / "postgres", "-D", self._folder / "data", *options],
                stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                return

    def end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # SIGINT closes connections ("fast" shutdown)
            self._process.wait(30)
            self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://tester:{PASSWORD}@/{database}?host={self._folder}"

    def database(self) -> str:
        """Create a database and return its address."""
        self._databases += 1
        name = f"threads{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """Run a server in `folder`. Its path must be short: a socket has at most 107 characters."""
    programs = _programs()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "password").write_text(PASSWORD)
    subprocess.run(
        [
            *_not_root(), programs / "initdb", "-D", folder / "data", "--username=tester",
            "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync",
            "--encoding=UTF8", "--locale=C",
        ],
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    server = Postgres(programs, folder)
    server.start()
    try:
        yield server
    finally:
        server.end()


def _not_root() -> list[str]:
    """Return a prefix that gives root another uid in a user namespace: PostgreSQL refuses to run as root."""
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.getuid() == 0 else []


def _programs() -> Path:
    if found := _installed():
        return found
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        # A person may skip these tests; CI must not.
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("needs PostgreSQL: sudo apt-get install postgresql")
    # The package must not create and start a cluster.
    settings = Path("/etc/postgresql-common")
    settings.mkdir(exist_ok=True)
    (settings / "createcluster.conf").write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
        subprocess.run(["apt-get", *command], check=True, capture_output=True, env=environment)
    found = _installed()
    assert found, "apt-get installed no PostgreSQL"
    return found


def _installed() -> Path | None:
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
