"""Finds what keeps a server from starting: a server in this folder or of this database, a taken port.

`python -m agent.server.occupied PORT` prints one line and exits with status 1 if a server cannot start here.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import psutil

from agent.settings import LOCKS, Settings
from libs.persistence import CheckpointerUnavailable, ThreadInUse, thread_lock

__all__ = [
    "hold_folder",
    "refuse_another_port",
    "refuse_unusable_database",
    "server_of_this_folder",
    "taken_port",
    "watches",
]

_HOST = "127.0.0.1"
_HIGHEST_PORT = 65_535
_SERVERS = {"langgraph", "watchfiles"}
"""Programs that start a server as a child process, and may start another one if only the child is killed."""

_held = ExitStack()


def hold_folder() -> None:
    """Keep other servers out of the working directory until this process ends.

    Ends this process with an error message if another server works there.
    """
    try:
        _held.enter_context(_folder())
    except ThreadInUse as used:
        _end(_in_folder(used))


def server_of_this_folder() -> str | None:
    """Return an error message if a server works in the working directory, otherwise None."""
    try:
        with _folder():
            return None
    except ThreadInUse as used:
        return _in_folder(used)


def taken_port(port: int) -> str | None:
    """Return an error message if the port is taken, or not allowed to this user; otherwise None."""
    if (error := _refusal(port)) is None:
        return None
    who, ending = "a program of another user", "End that program"
    try:
        if found := _listens_at(port):
            who, ending = f"{_named(found)}, in {_cwd(found)}", f"End it with `kill {found.pid}`"
    except psutil.NoSuchProcess:  # the program has just ended, and the port may be free now
        return taken_port(port)
    others = (*range(port + 1, _HIGHEST_PORT + 1), *range(1024, port))
    other = next(each for each in others if _refusal(each) is None)
    choose = f"choose another port: `make dev PORT={other}`, or `langgraph dev --port {other}`."
    if error.errno != errno.EADDRINUSE:
        return f"Port {port} cannot be used: {error.strerror}. To start the server, {choose}"
    return f"Port {port} is taken by {who}. {ending}, or {choose}"


def refuse_unusable_database(settings: Settings) -> None:
    """End this process if its database cannot be used, for example because another server uses it."""
    try:
        with ThreadPoolExecutor(1) as other_loop:  # the server's loop runs already
            other_loop.submit(asyncio.run, _use_alone(settings)).result()
    except CheckpointerUnavailable as error:
        _end(f"{error} {error.hint}")


async def _use_alone(settings: Settings) -> None:
    from agent.threads import open_threads  # imports LangGraph, which `make dev` does not need for its check

    async with open_threads(settings) as saver, saver.alone():
        pass


def refuse_another_port(url: str) -> None:
    """End this process if its port is not the port that was asked for.

    `langgraph dev` chooses another port if the given port is taken. The error names the program at that port.

    Args:
        url: address of this server. The address of a tunnel has no port.
    """
    command = _dev_command()
    if command is None:
        return
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--port", type=int, default=2024)
    asked: int = options.parse_known_args(command)[0].port
    if urlsplit(url).port not in {asked, None} and (taken := taken_port(asked)):
        _end(taken)


def watches(folder: Path) -> bool:
    """Return whether this server restarts when a `.py` file in the folder changes."""
    # Only uvicorn's reloader starts the server in a process of its own.
    reloads = multiprocessing.parent_process() is not None
    return reloads and folder.resolve().is_relative_to(Path.cwd())


def _end(reason: str) -> NoReturn:
    if multiprocessing.parent_process() is not None:  # otherwise the reloader waits until a file changes
        os.kill(os.getppid(), signal.SIGTERM)
    sys.stdout.flush()
    print(reason, file=sys.stderr, flush=True)  # noqa: T201 for the person at the terminal
    os._exit(1)  # LangGraph's server would log a SystemExit, with the reason a second time


def _folder() -> ExitStack:
    stack = ExitStack()
    stack.enter_context(thread_lock(LOCKS, "the server of this folder"))
    return stack


def _in_folder(used: ThreadInUse) -> str:
    who, ending = "its process is starting or ending", "Wait a few seconds"
    with suppress(psutil.Error):
        if used.pid:
            process = _server_of(psutil.Process(used.pid))
            who, ending = _named(process), f"End it with `kill {process.pid}`"
    return f"Another server works in {Path.cwd()}: {who}. {ending}, or start this one in another folder."


def _server_of(process: psutil.Process) -> psutil.Process:
    """Return the process to kill to end a server: the outermost parent that would start the server again."""
    for parent in _parents(process):
        if not _SERVERS & set(_words(_command(parent))):
            break
        process = parent
    return process


def _parents(process: psutil.Process) -> Iterator[psutil.Process]:
    """Yield the parent, its parent and so on, up to one that has ended or that this user may not see."""
    with suppress(psutil.Error):
        while (parent := process.parent()) is not None:
            yield parent
            process = parent


def _named(process: psutil.Process) -> str:
    ports = sorted({port for each in [process, *process.children(recursive=True)] for port in _ports(each)})
    serves = f", port {', '.join(map(str, ports))}" if ports else ""
    return f"process {process.pid} ({process.name()}{serves})"


def _ports(process: psutil.Process) -> set[int]:
    try:
        connections = process.net_connections("tcp")
    except psutil.Error:
        return set()
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def _listens_at(port: int) -> psutil.Process | None:
    for process in psutil.process_iter():
        if port in _ports(process):
            return _server_of(process)
    return None


def _cwd(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return "an unknown folder"


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _words(command: Sequence[str]) -> list[str]:
    """Return the program's name and the first words of a command line, without their folders."""
    return [Path(word).name for word in command[:3]]


def _dev_command() -> list[str] | None:
    """Return the options of the `langgraph dev` that started this server."""
    process = psutil.Process()
    for each in [process, *_parents(process)]:
        command = _command(each)
        if "langgraph" in _words(command):
            return command
    return None


def _refusal(port: int) -> OSError | None:
    """Return the error with which the system refuses the port; None if the port can be used."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((_HOST, port))
        except OSError as error:
            return error
    return None


def _main() -> None:
    asked = sys.argv[1]
    port = int(asked) if asked.isascii() and asked.isdigit() else 0
    if not 1 <= port <= _HIGHEST_PORT:
        raise SystemExit(f"PORT={asked}: must be a number from 1 to {_HIGHEST_PORT}.")
    if reason := server_of_this_folder() or taken_port(port):
        raise SystemExit(reason)


if __name__ == "__main__":
    _main()
