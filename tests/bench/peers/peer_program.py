"""Run a peer in its own process, and answer each request with the seconds that it took.

An interpreter that has the peer runs `python peer_program.py NAME IMAGE`, so the program imports nothing of
this project. A request is a line of JSON, `{"do": METHOD, "arguments": […]}`. The answer is `{"seconds": …}`
(null if the peer has no such method) or `{"error": "…"}`. At the end of input the program ends its container.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import stat
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any


class Peer:
    """The methods of a peer. `open` and `close` may be called repeatedly."""

    def __init__(self, image: str) -> None:
        self.image = image
        self._is_open = False

    def open(self) -> None:
        if not self._is_open:
            self._open()
            self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._close()

    def _open(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def run(self, command: str) -> None:
        raise NotImplementedError

    def cold(self) -> None:
        """From nothing to the first output."""
        self.open()
        self.run("echo hi")

    def crowd(self, callers: int, each: int, command: str) -> None:
        """Run `each` commands in each of `callers` threads."""

        def caller() -> None:
            for _ in range(each):
                self.run(command)

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class ExecRun(Peer):
    """docker-py's `exec_run` in a plain container."""

    def _open(self) -> None:
        import docker

        self.client = docker.from_env()
        self.container = self.client.containers.run(
            self.image, entrypoint=["sleep", "infinity"], detach=True, network_mode="none", init=True
        )

    def _close(self) -> None:
        self.container.remove(force=True)
        self.client.close()

    def run(self, command: str) -> None:
        _check(self.container.exec_run(["bash", "-c", command]).exit_code)

    def write(self, path: str, content: bytes) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(path.rpartition("/")[2])
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        assert self.container.put_archive(path.rpartition("/")[0], archive.getvalue())

    def read(self, path: str) -> bytes:
        pieces, _ = self.container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
            file = tar.extractfile(tar.getmembers()[0])
            assert file
            return file.read()


class DeepagentsDockerSandbox(Peer):
    """A deepagents backend over HTTP to a published port."""

    turn = ("one", "two")

    def _open(self) -> None:
        from deepagents_docker_sandbox import DockerSandbox

        self.backend = DockerSandbox.create(image=self.image)

    def _close(self) -> None:
        self.backend.close()

    def run(self, command: str) -> None:
        _check(self.backend.execute(command).exit_code)

    def write(self, path: str, content: bytes) -> None:
        assert self.backend.upload_files([(path, content)])[0].error is None

    def read(self, path: str) -> bytes:
        found: bytes | None = self.backend.download_files([path])[0].content
        assert found is not None
        return found

    def page(self, path: str) -> None:
        assert self.backend.read(path).error is None

    def edit(self, path: str) -> None:
        assert self.backend.edit(path, *self.turn).error is None
        self.turn = self.turn[::-1]

    def ls(self, path: str) -> None:
        assert self.backend.ls(path).entries

    def glob(self, pattern: str, path: str) -> None:
        assert self.backend.glob(pattern, path).matches

    def grep(self, pattern: str, path: str) -> None:
        assert self.backend.grep(pattern, path).matches


class SweRex(Peer):
    """A server in the container, installed there by a mount of this interpreter's packages."""

    def _open(self) -> None:
        from swerex.deployment.docker import DockerDeployment

        self.tools = tempfile.TemporaryDirectory()
        program = Path(self.tools.name, "swerex-remote")
        program.write_text("#!/usr/bin/env python3\nfrom swerex.server import main\nmain()\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        Path(self.tools.name).chmod(0o755)
        mounts = [f"{sysconfig.get_path('purelib')}:/peer/packages:ro", f"{self.tools.name}:/peer/bin:ro"]
        variables = ["PYTHONPATH=/peer/packages", "PATH=/peer/bin:/usr/local/bin:/usr/bin:/bin"]
        options = [f"--volume={mount}" for mount in mounts] + [f"--env={each}" for each in variables]
        self.deployment = DockerDeployment(
            image=self.image, pull="never", docker_args=["--entrypoint=", *options], startup_timeout=30
        )
        self.loop = asyncio.new_event_loop()
        self._wait(self.deployment.start())

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self._wait(self.deployment.stop())
        self.loop.close()
        self.tools.cleanup()

    def _wait(self, what: Any) -> Any:
        return self.loop.run_until_complete(what)

    async def _execute(self, command: str) -> None:
        from swerex.runtime.abstract import Command

        done = await self.deployment.runtime.execute(Command(command=command, shell=True, timeout=30))
        _check(done.exit_code)

    def run(self, command: str) -> None:
        self._wait(self._execute(command))

    def crowd(self, callers: int, each: int, command: str) -> None:
        async def caller() -> None:
            for _ in range(each):
                await self._execute(command)

        async def everybody() -> None:
            await asyncio.gather(*(caller() for _ in range(callers)))

        self._wait(everybody())

    def write(self, path: str, content: bytes) -> None:
        from swerex.runtime.abstract import WriteFileRequest

        self._wait(self.deployment.runtime.write_file(WriteFileRequest(path=path, content=content.decode())))

    def read(self, path: str) -> bytes:
        from swerex.runtime.abstract import ReadFileRequest

        found = self._wait(self.deployment.runtime.read_file(ReadFileRequest(path=path)))
        return str(found.content).encode()


class LlmSandbox(Peer):
    """A session over `exec_run`, without the environment that it would set up for a language."""

    def _open(self) -> None:
        from llm_sandbox import SandboxSession

        self.session = SandboxSession(
            lang="python",
            image=self.image,
            keep_template=True,
            skip_environment_setup=True,
            runtime_configs={"entrypoint": ["sleep", "infinity"], "user": "root", "init": True},
        )
        self.session.open()

    def _close(self) -> None:
        self.session.container.kill()  # close() would wait ten seconds for a process that ignores SIGTERM
        self.session.close()

    def run(self, command: str) -> None:
        _check(self.session.execute_command(command).exit_code)

    def write(self, path: str, content: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            self.session.copy_to_runtime(file.name, path)

    def read(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            self.session.copy_from_runtime(path, f"{folder}/found")
            return Path(folder, "found").read_bytes()


PEERS: dict[str, type[Peer]] = {
    "exec_run": ExecRun,
    "deepagents-docker-sandbox": DeepagentsDockerSandbox,
    "swe-rex": SweRex,
    "llm-sandbox": LlmSandbox,
}


def _check(exit_code: int | None) -> None:
    if exit_code:
        raise RuntimeError(f"exit code {exit_code}")


def _serve(peer: Peer) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the peer must not mix with answers
    for line in sys.stdin:
        request = json.loads(line)
        arguments = request.get("arguments", [])
        if request["do"] == "write":  # [path, size]
            arguments = [arguments[0], b"x" * arguments[1]]
        answer: dict[str, Any]
        try:
            method = getattr(peer, request["do"], None)
            begun = time.perf_counter()
            if method:
                method(*arguments)
            answer = {"seconds": time.perf_counter() - begun if method else None}
        except Exception as error:  # noqa: BLE001 - any error of a peer is its answer
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    logging.disable()
    served = PEERS[sys.argv[1]](sys.argv[2])
    try:
        _serve(served)
    finally:
        with contextlib.suppress(Exception):
            served.close()
