"""Furnish the folder of a program with its modules and files."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import time
from collections.abc import AsyncIterator, Mapping
from importlib.resources import files as package_files
from typing import Any

from libs.exec_tool.execute_code_call import Language
from libs.persistence import mode_of
from libs.sandbox import FOLDERS, Sandbox, SandboxError
from libs.workspace import Entry, Manifest, bring_to, inside, shown, steps_to

__all__ = ["IMPORTS", "MODULES", "PLACE", "furnish", "program_path", "put_in"]

PLACE = "/tmp/run"  # noqa: S108 - inside
"""The folder of the program, first in the path of imports. It holds nothing that can be imported."""
IMPORTS = f"{PLACE}/modules"
"""The folder of `MODULES`, in the path of imports behind the workspace, which may have its own `kv.py`."""
MODULES = {"kv": "kv_module.py"}
"""Module that programs can import -> its file in `libs.exec_tool.inside`."""


def program_path(language: Language) -> str:
    """Return the path of the program inside the sandbox.

    Its name cannot be imported: `import program` finds a file of the workspace, never the program itself.
    """
    return f"{PLACE}/{'whole-program.py' if language == 'python' else 'program.sh'}"


def furnish(sandbox: Sandbox, links: Mapping[str, str] = {}) -> None:
    """Prepare a fresh sandbox for any program: make the folders, and write `MODULES`.

    Runs Python once, because its first start is slow.

    `links`: folder of the workspace -> its target inside the sandbox, for folders that are links.
    Raises SandboxError.
    """
    made = [
        f"ln -s {shlex.quote(links[name])} {name}" if name in links else f"mkdir {name}" for name in FOLDERS
    ]
    try:
        for name, file in MODULES.items():
            sandbox.write_file(
                f"{IMPORTS}/{name}.py", (package_files("libs.exec_tool.inside") / file).read_bytes()
            )
    except OSError as error:
        raise SandboxError(f"A fresh sandbox cannot be written to: {error}.", hint="Try again.") from error
    sandbox.run("\n".join((*made, "python3 -I -c 'import json'")), timeout=20)


async def put_in(sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
    """Write files into a furnished workspace, with their folders.

    Raises:
        OSError: a file cannot be written.
        SandboxError: see `Sandbox`.
    """
    steps, contents = await asyncio.to_thread(_steps, files)

    async def content(digest: str) -> AsyncIterator[bytes]:
        yield contents[digest]

    for path, why in (await bring_to(sandbox, steps, content)).items():
        raise OSError(f"{inside(path)}: {why}")


def _steps(files: Mapping[str, bytes]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Return the steps that write files, and the contents by SHA-256."""
    folder = Entry("dir", 0o755, 0, 0, None, None)
    there = Manifest({shown(name): folder for name in FOLDERS})
    folders = {shown(path.rsplit("/", depth)[0]) for path in files for depth in range(1, path.count("/") + 1)}
    made = dict.fromkeys(folders - there.entries.keys(), folder)
    contents = {}
    now = time.time_ns()
    for path, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        contents[digest] = content
        made[shown(path)] = Entry("file", mode_of(content), now, len(content), digest, None)
    return steps_to(there, Manifest(made), made), contents
