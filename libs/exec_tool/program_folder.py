"""Furnish the folder of a program with files, and collect the files that the program has made or changed.

The answers of the sandbox may be forged, because the program's user gives them. Nothing is written on the
host. Files that are not regular or have invalid names are left out, and named.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files as package_files
from typing import Any

from libs.exec_tool.execute_code_call import MAX_PATH, Language, check_path, in_another
from libs.exec_tool.outcome import quoted_path
from libs.persistence import FileContent, mode_of
from libs.redaction import Redact
from libs.sandbox import FOLDERS, FileFailed, Sandbox, SandboxError
from libs.sandbox.host import redacted_content
from libs.sandbox.pool import Fresh
from libs.workspace import Entry, Manifest, batches, bring_to, inside, read_parts, shown, steps_to, walked

__all__ = [
    "END",
    "IMPORTS",
    "MODULES",
    "PLACE",
    "Collected",
    "collected",
    "furnish",
    "program_path",
    "put_in",
]

PLACE = "/tmp/run"  # noqa: S108 - inside
"""The folder of the program, first in the path of imports. It holds nothing that can be imported."""
IMPORTS = f"{PLACE}/modules"
"""The folder of `MODULES`, in the path of imports behind the workspace, which may have its own `kv.py`."""
MODULES = {"kv": "kv_module.py"}
"""Module that programs can import -> its file in `libs.exec_tool.inside`."""
MOST_FILES = 256
"""Most files of a workspace: those before the program that are still there, and new ones."""
MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of all files of a workspace: those before the program that are still there, and new ones."""
_READ_SECONDS = 8.0
"""Time in which files are read for their SHA-256, the smallest first. Without it, large files with nothing in
them would take all the time in which files are collected."""
_MOST_OF_DISK = 0.75
"""Largest part of the disk that comes back, because the next program of the thread needs some room."""

END = """\
ended=0
for turn in {1..40}; do
  left=()
  running=()
  of_program=0
  for at in /proc/[0-9]*/stat; do
    line=
    read -rd '' line 2>/dev/null < "$at"
    pid=${line%% *}
    fields=(${line##*) })
    # Workers are children of PID 1, and nothing else is. A thread may go on where the first has ended.
    [[ pid -gt 1 && pid -ne $$ && fields[1] -gt 1 ]] || continue
    [[ ${fields[0]} != [ZX] || fields[17] -gt 1 ]] || continue
    left+=("$pid")
    [[ ${fields[0]} = [TZ] ]] || running+=("$pid")
    words=()
    mapfile -d '' words 2>/dev/null < "${at%stat}cmdline"
    # Do not count a process that has just ended, a shell that waits for the next command, or a helper that
    # Python ends by itself. The environment tells nothing: a program may give a process any environment. The
    # environment of a forked worker cannot be read.
    words=${words[*]}
    [[ ! $words || $words = *BASH_EXECUTION_STRING* ]] && continue
    [[ $words = *"from multiprocessing."@(resource_tracker|forkserver)" import main"* ]] && continue
    { : < "${at%stat}environ"; } 2>/dev/null && ((++of_program))
  done
  ((ended)) || ended=$of_program
  [ ${#left[@]} -eq 0 ] && break
  # A stopped process cannot fork. Otherwise new ones would take the place of those that are killed.
  if ((${#running[@]} && turn < 20)); then
    kill -STOP "${running[@]}" 2>/dev/null
  else
    kill -KILL "${left[@]}" 2>/dev/null
  fi
done
echo "left $ended"
[[ -r /workspace && -x /workspace ]] || chmod u+rwx /workspace
"""
"""Kills processes that the program left running, so that no file changes, and prints their number. Makes the
workspace readable. Starts no process, except for a workspace that is not readable."""


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
        digest = _digest(content)
        contents[digest] = content
        made[shown(path)] = Entry("file", mode_of(content), now, len(content), digest, None)
    return steps_to(there, Manifest(made), made), contents


@dataclass(frozen=True, slots=True)
class Collected:
    """The changes of a workspace by a program."""

    changed: dict[str, bytes]
    """Path -> content of new and changed files, with the mode: see `mode_of`."""
    removed: tuple[str, ...]
    """Paths of removed files."""
    left_out: tuple[tuple[str, str], ...]
    """Name and reason of files and folders that are not returned."""
    stale: tuple[str, ...] = ()
    """Paths of earlier files whose content after the program is not known."""
    redacted: tuple[str, ...] = ()
    """Paths of files in whose content or name known secrets were replaced."""


async def collected(sandbox: Fresh, before: Mapping[str, bytes], links: Collection[str] = ()) -> Collected:
    """Return the changes of a workspace that held `before`. No process may run in the sandbox.

    `links`: folders of the workspace that were links before the program.

    Raises:
        OSError: the files cannot be read, or an answer of the sandbox is not valid.
        SandboxError: see `Sandbox`.
    """
    found = await walked(sandbox, Manifest({}), most=MOST_BYTES, again=(), seconds=_READ_SECONDS)
    room = min(MOST_BYTES, int(sandbox.disk * _MOST_OF_DISK))
    look = await asyncio.to_thread(_Look, found.manifest, before, room, sandbox.redact, links)
    for batch in batches(look.wanted):
        contents = await read_parts(sandbox, batch)
        look.contents |= zip((path for path, _, _ in batch), contents, strict=True)
    if await _has_own_folder(sandbox):
        look.leave(".output", "the sandbox's own folder")
    return await asyncio.to_thread(look.changes)


async def _has_own_folder(sandbox: Sandbox) -> bool:
    """Return whether the program has put something into the folder that the walk leaves out."""
    try:
        answer, _ = await sandbox.afile("ls", path=".output")
    except FileFailed as error:
        return error.code != "file_not_found"
    return bool(answer.get("entries"))


class _Look:
    """The workspace after a program, compared with the files before."""

    def __init__(
        self,
        now: Manifest,
        before: Mapping[str, bytes],
        room: int,
        redact: Redact | None,
        links: Collection[str],
    ) -> None:
        self._now = now
        self._links = links
        self._before = before
        self._redact = redact
        self._left_out: list[tuple[str, str]] = []
        self._found: dict[str, tuple[str, Entry]] = {}
        """Path of each file -> its path inside, without redaction, and its entry."""
        self.contents: dict[str, bytes] = {}
        """Path inside -> content. At first, of the files that have not changed."""
        self.wanted: dict[str, Entry] = {}
        """Path inside -> entry of the files whose content has to come out of the sandbox."""
        staying = [least for path in before if (least := self._least(path)) is not None]
        held = len(staying)
        most, room = room, room - sum(staying)
        for at, path, entry in self._regular():
            if path in self._found:  # the removal of secrets has made two names alike
                self.leave(path, "another file has the same name without secrets")
                continue
            new = path not in before
            if new and entry.sha256 is not None and held >= MOST_FILES:
                self.leave(path, f"there are over {MOST_FILES}")
                continue
            self._found[path] = at, entry
            old = before.get(path)
            grown = max(0, entry.size - len(old or b""))
            if old is not None and len(old) == entry.size and _digest(old) == entry.sha256:
                self.contents[at] = old
            elif grown > max(0, room):
                self.leave(path, f"all files together may have {most:,} bytes", entry.size)
            elif entry.sha256 is None:
                self.leave(path, _not_opened(now.skipped.get(shown(at), "")))
            else:
                held += new
                room -= grown
                self.wanted[at] = entry
        for path in in_another(self._found):
            at, _ = self._found[path]
            self.contents.pop(at, None)
            self.wanted.pop(at, None)
            self.leave(path, "its folder has the name of a file without secrets")

    def _regular(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield path inside, path and entry of the regular files with valid names, the smallest first."""
        now = self._now
        entries = {**dict.fromkeys(now.skipped), **now.entries}
        sizes = {place: entry.size if entry else 0 for place, entry in entries.items()}
        for place in sorted(entries, key=lambda place: (sizes[place], place)):
            entry = entries[place]
            at = inside(place)
            name = self._redact(at) if self._redact else at
            if not at or (entry and entry.kind == "dir"):
                if why := now.skipped.get(place):
                    self.leave(name or ".", _not_opened(why))
                continue
            try:
                path = check_path(name)
            except ValueError:
                long = len(name) > MAX_PATH
                why = f"its path has over {MAX_PATH} characters" if long else "a name that cannot be kept"
                self.leave(name, why)
                continue
            if entry and entry.kind == "file":
                yield at, path, entry
            elif path not in self._links:
                self.leave(path, "a link, FIFO or device")

    def _least(self, path: str) -> int | None:
        """Return the bytes that an earlier file takes at least. None: the program has removed it."""
        size, entry = len(self._before[path]), self._now.entries.get(shown(path))
        if entry and entry.kind == "file":
            return min(size, entry.size) if entry.sha256 else size
        return size if self._now.unread(shown(path)) else None

    def changes(self) -> Collected:
        """Return the changes, when `contents` holds the wanted files, too."""
        changed: dict[str, bytes] = {}
        read: set[str] = set()
        redacted: list[str] = []
        for path, (at, entry) in self._found.items():
            content = self.contents.get(at)
            if content is None:
                continue
            if len(content) != entry.size:
                self.leave(path, "it changes while it is read")
                continue
            try:
                data = redacted_content(self._redact, content) if self._redact else content
            except FileFailed as error:
                self.leave(path, str(error))
                continue
            read.add(path)
            if data != content or path != at:
                redacted.append(path)
            old, new = self._before.get(path), FileContent(data, entry.mode)
            if old is None or old != new or mode_of(old) != new.mode:
                changed[path] = new
        for path in self._empty():
            self.leave(path, "an empty folder")
        gone = self._before.keys() - self._found.keys()
        removed = sorted(path for path in gone if not self._now.unread(shown(path)))
        stale = sorted(self._before.keys() - read - set(removed))
        return Collected(changed, tuple(removed), tuple(self._left_out), tuple(stale), tuple(redacted))

    def _empty(self) -> Iterator[str]:
        """Yield the empty folders. There was none before the program."""
        now = self._now
        filled = {place.rpartition("/")[0] for place in (*now.entries, *now.skipped)} | now.skipped.keys()
        for place, entry in now.entries.items():
            at = inside(place)
            if entry.kind == "dir" and place not in filled and at not in ("", *FOLDERS):
                yield self._redact(at) if self._redact else at

    def leave(self, path: str, why: str, size: int | None = None) -> None:
        """Name what is not returned."""
        told = quoted_path(path)[1:-1] if size is None else f"{quoted_path(path)[1:-1]}, {size:,} bytes"
        self._left_out.append((told, why))


def _not_opened(why: str) -> str:
    return f"Cannot open: {why.capitalize()}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
