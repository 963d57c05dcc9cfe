"""What goes into a sandbox and comes out of it: files as one archive each way, made and read in memory.

What every program finds is put there before it is known. Nothing of what comes out is unpacked on the host.
Members of an archive that are no regular files, or whose names a call could not have, are left where they
are. The archive may be a forgery: the user that packs it is the program's.
"""

from __future__ import annotations

import io
import shlex
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files as package_files

from libs.exec_tool.call import Language, check_path, in_another
from libs.sandbox.errors import SandboxError
from libs.sandbox.protocol import Sandbox
from libs.sandbox.redact import Redact
from libs.sandbox.workspace import FOLDERS

__all__ = [
    "COLLECT",
    "END",
    "IN",
    "LEFT",
    "MOST_BYTES",
    "OUT",
    "PLACE",
    "ROOM",
    "UNPACK",
    "Collected",
    "collected",
    "furnish",
    "packed",
    "program_path",
]

PLACE = "/tmp/run"  # noqa: S108 - inside
"""Where the program is, beside the module `kv`: the first place that its imports are looked for."""
IN, OUT = f"{PLACE}/in.tar", f"{PLACE}/out.tar"
UNPACK = f"tar -xmf {IN} -C /workspace && : > {IN}"

_FURNISH = """\
{folders}
python3 -I -c 'import json'
tar -cf /dev/null scripts
"""
"""Makes the folders. What runs here first is slower than ever after: not the program is to wait for that."""

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of files that come back, as an archive."""
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
"""Ends what a program has left running, so that what is packed stays as it is. Starts no process."""

COLLECT = f"""\
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
  (ulimit -f {{most}}; exec tar --format=gnu --one-file-system --exclude=./.output -cf {OUT} . 2>/dev/null)
  echo "packed $?"
  exit
done
echo "empty 1"
"""
"""Prints what the kernel has counted, a name and a value a line, for either version of control groups, and
packs the workspace where anything is in it, in an archive of `most` KB at most. The sandbox is fresh: what
was counted is the program's, but for the little that `furnish` took."""

LEFT = """\
echo "disk $(stat -f -c %a .)"
size=$(du -sxb --exclude=./.output . 2>/dev/null)
echo "size ${size%%[!0-9]*}"
"""
"""Prints how much room there is, and how much is taken."""

ROOM = f"rm -f {OUT}; find /tmp -mindepth 1 -maxdepth 1 ! -name run -exec rm -rf {{}} +\n"
"""Makes room to pack it after all."""


def program_path(language: Language) -> str:
    """Where the program lies inside."""
    return f"{PLACE}/program.{'py' if language == 'python' else 'sh'}"


def furnish(sandbox: Sandbox, links: Mapping[str, str] = {}) -> None:
    """Put into a sandbox what every program finds there: folders, the module `kv`.

    Args:
        links: folder in the workspace -> where it is inside, for those that lie elsewhere.

    Raises:
        SandboxError: it cannot be done.
    """
    made = [
        f"ln -s {shlex.quote(links[name])} {name}" if name in links else f"mkdir {name}" for name in FOLDERS
    ]
    try:
        sandbox.write_file(f"{PLACE}/kv.py", (package_files("libs.exec_tool") / "inside_kv.py").read_bytes())
    except OSError as error:
        raise SandboxError(f"A fresh sandbox cannot be written to: {error}.", hint="Try again.") from error
    sandbox.run(_FURNISH.format(folders="\n".join(made)), timeout=20)


def packed(files: Mapping[str, bytes]) -> bytes:
    """The archive of what is in the workspace before the program starts."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o644
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


@dataclass(frozen=True, slots=True)
class Collected:
    """What is in a workspace after a program."""

    changed: dict[str, bytes]
    """New files, and those whose content is another one."""
    removed: tuple[str, ...]
    """Files that were there before."""
    left_out: tuple[str, ...]
    """Files that cannot be kept, because of their number or their name."""


def collected(
    archive: bytes, before: Mapping[str, bytes], *, most: int, redact: Redact | None = None
) -> Collected:
    """Read the archive of a workspace.

    Args:
        before: what was in the workspace before the program.
        most: files that are kept, those of before included.
        redact: takes secrets out of names and contents.

    Raises:
        tarfile.TarError: it is no archive that GNU tar makes, not a whole one, or over MOST_BYTES.
    """
    if len(archive) > MOST_BYTES:
        raise tarfile.ReadError(f"an archive of {len(archive):,} bytes")
    changed: dict[str, bytes] = {}
    left_out: list[str] = []
    found: set[str] = set()
    new = 0
    for written, content in _members(archive):
        name = redact(written) if redact else written
        try:
            path = check_path(name)
        except ValueError:
            left_out.append(name)
            continue
        if path not in before and path not in found:
            if new + len(before) >= most:
                left_out.append(path)
                continue
            new += 1
        found.add(path)
        data = redact(bytes(content)) if redact else bytes(content)
        if before.get(path) != data:
            changed[path] = data
    if path_within := in_another(found):
        raise tarfile.ReadError(f"{path_within[:80]!a} lies in what is a file")
    removed = tuple(sorted(before.keys() - found))
    return Collected(changed, removed, tuple(left_out))


def _members(archive: bytes) -> Iterator[tuple[str, memoryview]]:
    """Name and content of the regular files. What a header says is believed only where it is so.

    Not read by `tarfile.open`: its walk follows extensions that tar does not write here, sparse files and
    headers within headers, whose sizes are the program's to choose.
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
        elif header.type != tarfile.GNUTYPE_LONGLINK:  # else of the same member
            # A hard link has no content of its own here; the name it has first does.
            if header.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                yield long_name or header.name, content
            long_name = None
        at = begin + -(-header.size // _BLOCK) * _BLOCK
