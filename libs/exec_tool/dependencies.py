"""Packages of programs: each set installed once, by a sandbox that does nothing else, then read-only."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from libs.sandbox.protocol import RunResult, Sandbox

__all__ = ["Dependencies", "NotInstalled", "Ready", "Stop"]

logger = logging.getLogger(__name__)

MOUNT = "/deps"
"""Where the cache is inside."""
_STAGING = ".staging-"
_LEFT_BEHIND = 3600.0
"""Seconds after which an installation that did not end is taken for a leftover."""
_IN_USE = 3600.0
"""Seconds after its last use in which a set is not removed, as a program may be using it."""
_MOST_SET = 2 * 2**30
_MOST_ALL = 10 * 2**30
"""Bytes of all sets together; those used longest ago go first."""
_LAST_WORDS = 1_500
_SMALLEST = 1.0
"""Seconds without which an installation is not begun."""

_INSTALL = """\
export PYTHONUSERBASE=/workspace/set TMPDIR=/workspace/tmp && mkdir -p "$TMPDIR" "$PYTHONUSERBASE" || exit
python3 -m pip install --user --only-binary=:all: --no-cache-dir --no-input --no-warn-script-location \
--disable-pip-version-check --quiet -- {packages} || exit
size=$(du -sb "$PYTHONUSERBASE") && size=${{size%%[!0-9]*}} && [ "$size" -le {most} ] || {{
  echo "the set has $size bytes, at most {most} are kept" >&2; exit 1
}}
"""


class NotInstalled(Exception):
    """A set of packages is not there, and cannot be installed. `hint` says what would mend it.

    `late`: whether only the time was too short.
    """

    def __init__(self, message: str, hint: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.late = late


class Stop:
    """Breaks off an installation that nobody waits for any more, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._stopped = False

    def __call__(self) -> None:
        """Break it off; returns at once."""
        with self._lock:
            self._stopped = True
            end = self._end
        if end:
            threading.Thread(target=end, name="installation-end", daemon=True).start()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """What is called, for the length of the block, to break it off."""
        with self._lock:
            self._end = end
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._end = None

    def check(self) -> None:
        """Raise NotInstalled where it was broken off."""
        if self._stopped:
            raise NotInstalled("It was broken off.", "Send the call again.")


@dataclass(frozen=True, slots=True)
class Ready:
    """A set that is there."""

    path: str
    """Its folder inside, to be PYTHONUSERBASE."""
    cache_hit: bool
    """Whether it was there already."""


class Dependencies:
    """The cache of sets. Thread-safe; several programs may use the same folder.

    Args:
        cache: the folder on the host, to be mounted read-only at `MOUNT`; made where missing.
        installer: makes a sandbox whose workspace is a folder, and which reaches packages and nothing else;
            None where none may be installed.
        basis: gives what a set depends on besides its packages: the image, which may be built again. May
            block, and raise SandboxError.
        closed: what a person has to set where none may be installed.
    """

    def __init__(
        self,
        cache: Path,
        installer: Callable[[Path], Sandbox] | None,
        *,
        basis: Callable[[], str] = str,
        closed: str = "Ask the person to set EGRESS_PACKAGES=1, or do without the package.",
    ) -> None:
        self.cache = cache.absolute()
        self._installer = installer
        self._basis = basis
        self._closed = closed
        self._lock = threading.Lock()
        self._under_way: dict[str, threading.Lock] = {}

    def make_folder(self) -> Path:
        """The folder, made where it is missing. Raises OSError."""
        self.cache.mkdir(parents=True, exist_ok=True)
        return self.cache

    def ready(
        self,
        packages: Sequence[str],
        seconds: float,
        stop: Stop | None = None,
        begins: Callable[[], None] = lambda: None,
    ) -> Ready:
        """Have a set of packages there. Blocks; who waits for the same set waits together.

        Args:
            packages: in their canonical form, see `libs.exec_tool.call.canonical`.
            seconds: how long it may take.
            stop: breaks it off. Others that wait for the same set install it themselves then.
            begins: is called before it is installed, in this thread; not where it is there already.

        Raises:
            NotInstalled: it is not there, and cannot be installed in this time.
            SandboxError: the sandbox that would install it cannot be started.
        """
        name = self._name(packages)
        if self._found(name):
            return Ready(f"{MOUNT}/{name}", cache_hit=True)
        if self._installer is None:
            raise NotInstalled(
                f"{', '.join(packages)}: not in the cache, and EGRESS_PACKAGES is 0: nothing may be "
                f"installed.",
                self._closed,
            )
        stop = stop or Stop()
        deadline = time.monotonic() + seconds
        with self._lock:
            lock = self._under_way.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=max(0.0, seconds)):
            raise self._late(packages, seconds)
        try:
            if self._found(name):
                return Ready(f"{MOUNT}/{name}", cache_hit=True)
            stop.check()
            left = deadline - time.monotonic()
            if left < _SMALLEST:
                raise self._late(packages, seconds)
            begins()
            self._install(self._installer, name, packages, left, stop)
        except OSError as error:
            raise NotInstalled(
                f"{', '.join(packages)}: cannot be kept: {error.strerror or error}.",
                f"Ask the person to make room in {self.cache}, and let it be written to.",
            ) from error
        finally:
            lock.release()
        return Ready(f"{MOUNT}/{name}", cache_hit=False)

    def _name(self, packages: Sequence[str]) -> str:
        whole = "\n".join([self._basis(), *sorted(packages)])
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    def _found(self, name: str) -> bool:
        try:
            os.utime(self.cache / name)
        except OSError:  # it is not there, or nothing can be written there
            return (self.cache / name).is_dir()
        return True

    def _install(
        self,
        installer: Callable[[Path], Sandbox],
        name: str,
        packages: Sequence[str],
        seconds: float,
        stop: Stop,
    ) -> None:
        staging = self.make_folder() / f"{_STAGING}{secrets.token_hex(4)}"
        command = _INSTALL.format(packages=" ".join(map(shlex.quote, packages)), most=_MOST_SET)
        try:
            with installer(staging) as sandbox, stop.ends(sandbox.close):
                done = sandbox.run(command, timeout=seconds)
            if done.timed_out:
                raise self._late(packages, seconds)
            if done.exit_code:
                raise NotInstalled(
                    f"{', '.join(packages)}: cannot be installed. {_reason(done)}",
                    "Check the name and the versions; only packages that come as wheels are installed.",
                )
            self._keep(staging / "set", name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        try:
            self._prune()
        except OSError as error:  # the set is there all the same
            logger.warning("sets of packages cannot be removed: %s", error)

    def _keep(self, installed: Path, name: str) -> None:
        """Whole or not at all."""
        try:
            installed.rename(self.cache / name)
        except OSError:
            if not (self.cache / name).exists():  # else another program has been faster
                raise

    def _late(self, packages: Sequence[str], seconds: float) -> NotInstalled:
        return NotInstalled(
            f"{', '.join(packages)}: not installed within {seconds:.0f} s.",
            "Ask the person to raise EXEC_SECONDS, or do with less.",
            late=True,
        )

    def _prune(self) -> None:
        """Remove what installations have left behind, and the sets used longest ago where all are too
        large."""
        now = time.time()
        sets: list[tuple[float, int, Path]] = []
        for folder in self.cache.iterdir():
            try:
                used = folder.stat().st_mtime
                if not folder.name.startswith("."):
                    sets.append((used, _size(folder), folder))
                elif folder.name.startswith(_STAGING) and used < now - _LEFT_BEHIND:
                    shutil.rmtree(folder, ignore_errors=True)
            except OSError:  # another program has removed it
                continue
        total = sum(size for _, size, _ in sets)
        for used, size, folder in sorted(sets):
            if total <= _MOST_ALL or used > now - _IN_USE:
                return
            logger.info("removing a set of packages that was used longest ago: %s", folder.name)
            # Renamed first: half of a set must not be found.
            gone = folder.with_name(f"{_STAGING}{secrets.token_hex(4)}")
            with suppress(FileNotFoundError):  # another program does the same
                folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            total -= size


def _size(folder: Path) -> int:
    return sum((Path(place) / name).lstat().st_size for place, _, names in os.walk(folder) for name in names)


def _reason(done: RunResult) -> str:
    """What pip says, without where it looked."""
    lines = [line for line in done.output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return " ".join(errors or lines[-3:])[-_LAST_WORDS:]
