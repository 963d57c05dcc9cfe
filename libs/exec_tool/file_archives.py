"""Move files into and out of a sandbox, as one tar archive each way, in memory.

The archive from the sandbox may be forged, because the program's user writes it. Nothing is unpacked on the
host. Members that are not regular files or have invalid names are left out, and named.
"""

from __future__ import annotations

import io
import re
import shlex
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files as package_files

from libs.exec_tool.execute_code_call import Language, check_path, in_another
from libs.redaction import Redact
from libs.sandbox import FOLDERS, FileFailed, Sandbox, SandboxError
from libs.sandbox.host import redacted_content

__all__ = ["Collected", "collected", "furnish", "packed", "program_path", "unread_paths"]

PLACE = "/tmp/run"  # noqa: S108 - inside
"""The folder of the program and of `MODULES`, first in the path of imports."""
MODULES = {"kv": "inside_kv.py"}
"""Module that programs can import -> its file in this package."""
IN, OUT = f"{PLACE}/in.tar", f"{PLACE}/out.tar"
UNPACK = f"tar -xmf {IN} -C /workspace && : > {IN}"

_FURNISH = """\
{folders}
python3 -I -c 'import json'
tar -cf /dev/null scripts
"""
"""Makes the folders, and runs Python and tar once, because their first start is slow."""

MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of the archive that comes back."""
_BLOCK = tarfile.BLOCKSIZE
_END_OF_ARCHIVE = bytes(_BLOCK)

END = """\
for _ in {1..20}; do
  left=()
  for at in /proc/[0-9]*/stat; do
    line=
    read -rd '' line 2>/dev/null < "$at"
    pid=${line%% *}
    fields=(${line##*) })
    # Workers are children of PID 1, and nothing else is. A thread may go on where the first has ended.
    [[ pid -gt 1 && pid -ne $$ && fields[1] -gt 1 ]] || continue
    [[ ${fields[0]} != [ZX] || fields[17] -gt 1 ]] && left+=("$pid")
  done
  [ ${#left[@]} -eq 0 ] && break
  kill -KILL "${left[@]}" 2>/dev/null
done
"""
"""Kills processes that the program left running, so that no file changes. Starts no process."""

COLLECT = f"""\
chmod u+rwx /workspace
mkdir -p {PLACE}
said() {{{{
  local name=$1 file line; shift
  for file; do
    [ -r "/sys/fs/cgroup/$file" ] || continue
    while read -r line || [ -n "$line" ]; do echo "$name $line"; done < "/sys/fs/cgroup/$file"
    return
  done
}}}}
said peak memory/memory.max_usage_in_bytes memory.peak
said oom memory/memory.oom_control memory.events
said pids pids/pids.events pids.events
said cpu cpuacct/cpuacct.usage cpu.stat
shopt -s dotglob nullglob
there=(* scripts/* results/*)
[ -L data ] || there+=(data/*)
for name in "${{{{there[@]}}}}"; do
  case $name in {"|".join((*FOLDERS, ".output"))}) [ -d "$name" ] && continue;; esac
  (
    ulimit -f {{most}}
    {{paths}} |
      tar --format=gnu --hard-dereference --ignore-failed-read --no-recursion --null -T - -cf {OUT}
    echo "packed $?"
  ) 2>&1 |
    while read -r line; do
      case $line in
        "packed "*) echo "packed ${{{{broken:-${{{{line#packed }}}}}}}}";;
        *"not recoverable"*) broken=9;;&
        *) ((++lines <= {{lines}})) && echo "unread $line";;
      esac
    done
  exit
done
echo "empty 1"
"""
"""Prints the kernel's counters (cgroup v1 or v2), one name and value in a line, and packs the files of a
workspace that is not empty into an archive of at most `most` KB. Folders are not packed, because the names of
a thousand nested folders are very long. Prints at most `lines` lines of `find` and `tar` about files and
folders that they cannot read. The sandbox is fresh, so the counters are the program's.

`paths`: ALL or SMALLEST.
"""

ALL = r"find . -xdev -path ./.output -prune -o ! -type d -print0"
"""Prints the path of each file."""

SMALLEST = r"""
    find . -xdev -path ./.output -prune -o ! -type d -printf '%s %p\0' | sort -zn | {
      room=$((MOST - 65536))
      while IFS= read -rd '' line; do
        size=${line%% *} name=${line#* }
        if (((room -= size + ${#name} + 2048) > 0)); then
          printf '%s\0' "$name"
        else
          name=${name//\\/\\\\}
          why="all files together are too large, and it has $size bytes"
          echo "tar: ${name//$'\n'/\\n}: Cannot return: $why" >&2
        fi
      done
    }""".replace("MOST", str(MOST_BYTES))
"""Prints the paths of the smallest files, as many as fit into the archive with their headers. For each of the
others, prints a line in the form of `tar`."""

LEFT = """\
echo "disk $(stat -f -c %a .)"
size=$(du -sxb --exclude=./.output . 2>/dev/null)
echo "size ${size%%[!0-9]*}"
"""
"""Prints the free and the used space."""

ROOM = f"rm -f {OUT}; find /tmp -mindepth 1 -maxdepth 1 ! -name run -exec rm -rf {{}} +\n"
"""Frees space in /tmp to repeat the packing."""


def program_path(language: Language) -> str:
    """Return the path of the program inside the sandbox."""
    return f"{PLACE}/program.{'py' if language == 'python' else 'sh'}"


def furnish(sandbox: Sandbox, links: Mapping[str, str] = {}) -> None:
    """Prepare a fresh sandbox for any program: make the folders and write `MODULES`.

    `links`: folder of the workspace -> its target inside the sandbox, for folders that are links.
    Raises SandboxError.
    """
    made = [
        f"ln -s {shlex.quote(links[name])} {name}" if name in links else f"mkdir {name}" for name in FOLDERS
    ]
    try:
        for name, file in MODULES.items():
            sandbox.write_file(f"{PLACE}/{name}.py", (package_files("libs.exec_tool") / file).read_bytes())
    except OSError as error:
        raise SandboxError(f"A fresh sandbox cannot be written to: {error}.", hint="Try again.") from error
    sandbox.run(_FURNISH.format(folders="\n".join(made)), timeout=20)


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of the files that the program finds."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o644
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


@dataclass(frozen=True, slots=True)
class Collected:
    """The changes of a workspace by a program."""

    changed: dict[str, bytes]
    """Path -> content of new and changed files."""
    removed: tuple[str, ...]
    """Paths of removed files."""
    left_out: tuple[str, ...]
    """Files and folders that are not returned, each with the reason."""
    stale: tuple[str, ...] = ()
    """Paths of earlier files whose content after the program is not known."""


MOST_UNREAD = 100
"""Lines about files that could not be read. If there are more, no file counts as removed."""
_UNREAD = re.compile(
    r"^unread (?:tar: (?:\./)?(?P<file>.+?): (?:Warning: )?(?P<why>Cannot [^:]+: .+|socket ignored)"
    r"|find: .(?:\./)?(?P<folder>.+).: (?P<reason>.+))$",
    re.MULTILINE,
)


def unread_paths(said: str) -> dict[str, str]:
    """Return path -> reason for files and folders that could not be read, from the output of COLLECT.

    Newlines and backslashes in paths are escaped.
    """
    return {
        match["file"] or match["folder"]: match["why"] or f"Cannot open: {match['reason']}"
        for match in _UNREAD.finditer(said)
    }


def collected(
    archive: bytes,
    before: Mapping[str, bytes],
    *,
    most: int,
    unread: Mapping[str, str] = {},
    redact: Redact | None = None,
) -> Collected:
    """Read the archive of a workspace that held `before`. At most `most` files are kept, with `before`.

    Args:
        unread: see `unread_paths`. A file that is in it, or below a folder in it, does not count as removed.

    Raises:
        tarfile.TarError: the archive is not from GNU tar, incomplete, or over MOST_BYTES.
    """
    if len(archive) > MOST_BYTES:
        raise tarfile.ReadError(f"an archive of {len(archive):,} bytes")
    changed: dict[str, bytes] = {}
    left_out: list[str] = []
    found: set[str] = set()
    read: set[str] = set()
    new = 0
    for written, content in _members(archive):
        name = redact(written) if redact else written
        try:
            path = check_path(name)
        except ValueError:
            left_out.append(f"{_shown(name)} (a name that cannot be kept)")
            continue
        if content is None:
            if path not in FOLDERS:
                left_out.append(f"{_shown(path)} (a link, FIFO or device)")
            continue
        if path not in before and path not in found:
            if new + len(before) >= most:
                left_out.append(f"{_shown(path)} (there are over {most})")
                continue
            new += 1
        found.add(path)
        try:
            data = redacted_content(redact, bytes(content)) if redact else bytes(content)
        except FileFailed as error:
            left_out.append(f"{_shown(path)} ({error})")
            continue
        read.add(path)
        if before.get(path) != data:
            changed[path] = data
    if path_within := in_another(found):
        raise tarfile.ReadError(f"{path_within[:80]!a} lies in what is a file")
    known = len(unread) < MOST_UNREAD
    removed = [path for path in sorted(before.keys() - found) if known and not _within(path, unread)]
    left_out += [f"{_shown(name)} ({why})" for name, why in unread.items()]
    stale = sorted(before.keys() - read - set(removed))
    return Collected(changed, tuple(removed), tuple(left_out), tuple(stale))


def _shown(path: str) -> str:
    return ascii(path)[1:-1][:120]


def _within(path: str, places: Collection[str]) -> bool:
    """Return whether a path, escaped as tar escapes names, is one of the places or below one."""
    parts = path.replace("\\", "\\\\").replace("\n", "\\n").split("/")
    return any("/".join(parts[:end]) in places for end in range(1, len(parts) + 1))


def _members(archive: bytes) -> Iterator[tuple[str, memoryview | None]]:
    """Yield name and content of each member, after checking the size in each header.

    The content is None if the member is not a regular file.

    `tarfile.open` is not safe here: it follows sparse files and nested headers, with sizes that a program can
    choose freely.
    """
    whole = memoryview(archive)
    at = 0
    long_name: str | None = None
    while True:
        block = archive[at : at + _BLOCK]
        if block == _END_OF_ARCHIVE:
            return
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        begin = at + _BLOCK
        end = begin + header.size
        if not begin <= end <= len(archive):
            raise tarfile.ReadError("a member that is not in the archive")
        content = whole[begin:end]
        if header.type == tarfile.GNUTYPE_LONGNAME:
            long_name = bytes(content).split(b"\0")[0].decode("utf-8", "surrogateescape")
        elif header.type != tarfile.GNUTYPE_LONGLINK:  # a long link target belongs to the same member
            is_file = header.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
            yield long_name or header.name, content if is_file else None
            long_name = None
        at = begin + -(-header.size // _BLOCK) * _BLOCK
