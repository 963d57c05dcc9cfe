"""Install each set of packages once, in its own sandbox, into a cache that programs can only read."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from libs.sandbox import RunResult, Sandbox

__all__ = ["Dependencies", "NotInstalled", "Ready"]

logger = logging.getLogger(__name__)

MOUNT = "/deps"
"""The path of the cache inside the sandbox."""
_STAGING = ".staging-"
_LEFT_BEHIND = 3600.0
"""Seconds after which an unfinished installation is removed."""
_IN_USE = 3600.0
"""A set is not removed within these seconds after its last use, because a program may use it."""
_MOST_SET = 2 * 2**30
_MOST_ALL = 10 * 2**30
"""Bytes of all sets. The least recently used sets are removed first."""
_LAST_WORDS = 1_500
_FAILED_PAGE = re.compile(r'^WARNING: Skipping page .*? error="(.*?)"\. The only', re.MULTILINE)
"""What pip says of a page that the gateway could not get: see `PipIndex`."""
_NAMED_WRONG = ("No matching distribution", "conflict", "different Python")
"""Errors of pip about names and versions."""
_CHECK = "Check the name and the versions; only packages that come as wheels are installed."
_LATER = "The name may be right. Send the call again later, name fewer or other packages, or do without."

_INSTALL = """\
export PYTHONUSERBASE=/workspace/set TMPDIR=/workspace/tmp && mkdir -p "$TMPDIR" "$PYTHONUSERBASE" || exit
python3 -m pip install --user --only-binary=:all: --no-cache-dir --no-input --no-warn-script-location \
--disable-pip-version-check --quiet -- {packages} || exit
size=$(du -sb "$PYTHONUSERBASE") && size=${{size%%[!0-9]*}} && [ "$size" -le {most} ] || {{
  echo "the set has $size bytes, at most {most} are kept" >&2; exit 1
}}
"""


class NotInstalled(Exception):
    """A set of packages is missing and cannot be installed. `late`: the time was too short."""

    def __init__(self, message: str, hint: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.late = late


@dataclass(frozen=True, slots=True)
class Ready:
    """An installed set."""

    path: str
    """Its folder inside the sandbox, the value for PYTHONUSERBASE."""
    cache_hit: bool


class Dependencies:
    """The cache of sets. Thread-safe; several programs may use the same folder.

    Args:
        cache: the folder on the host, to be mounted read-only at `MOUNT`. Created if missing.
        installer: makes a sandbox with the given workspace that reaches package indexes only. None: nothing
            may be installed.
        basis: returns what a set depends on besides its packages, so the image. May block and raise
            SandboxError.
    """

    def __init__(
        self, cache: Path, installer: Callable[[Path], Sandbox] | None, *, basis: Callable[[], str] = str
    ) -> None:
        self.cache = cache.absolute()
        self._installer = installer
        self._basis = basis
        # A lock disappears with its last user.
        self._under_way: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def installs(self) -> bool:
        """Whether sets that are missing can be installed."""
        return self._installer is not None

    def make_folder(self) -> Path:
        """Create the folder if missing, and return it. Raises OSError."""
        self.cache.mkdir(parents=True, exist_ok=True)
        return self.cache

    async def ready(
        self, packages: Sequence[str], seconds: float, begins: Callable[[], None] = lambda: None
    ) -> Ready:
        """Install a set of packages if missing. Callers in one event loop share one installation.

        Cancelling ends the installation; another caller for the same set then installs the set itself.
        `packages` are in normal form (see `canonical`). Calls `begins` if the set is missing.

        Raises:
            NotInstalled: the set cannot be installed in `seconds`.
            SandboxError: the sandbox for the installation cannot start.
        """
        named = ", ".join(packages)
        name = await asyncio.to_thread(self._name, packages)
        if await asyncio.to_thread(self._found, name):
            return Ready(f"{MOUNT}/{name}", cache_hit=True)
        if self._installer is None:
            raise NotInstalled(
                f"{named}: not in the cache, and EGRESS_PACKAGES is 0: nothing may be installed.",
                "Ask the person to set EGRESS_PACKAGES=1, or do without the package.",
            )
        lock = self._under_way.setdefault((id(asyncio.get_running_loop()), name), asyncio.Lock())
        try:
            async with asyncio.timeout(seconds), lock:
                if await asyncio.to_thread(self._found, name):
                    return Ready(f"{MOUNT}/{name}", cache_hit=True)
                begins()
                await self._install(self._installer, name, packages, seconds)
        except TimeoutError:
            raise NotInstalled(
                f"{named}: not installed within {seconds:.0f} s.",
                "Ask the person to raise EXEC_SECONDS, or do with less.",
                late=True,
            ) from None
        except OSError as error:
            raise NotInstalled(
                f"{named}: cannot be kept: {error.strerror or error}.",
                f"Ask the person to make room in {self.cache}, and let it be written to.",
            ) from error
        return Ready(f"{MOUNT}/{name}", cache_hit=False)

    def _name(self, packages: Sequence[str]) -> str:
        whole = "\n".join([self._basis(), *sorted(packages)])
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    def _found(self, name: str) -> bool:
        try:
            os.utime(self.cache / name)
        except OSError:  # missing, or on a read-only disk
            return (self.cache / name).is_dir()
        return True

    async def _install(
        self, installer: Callable[[Path], Sandbox], name: str, packages: Sequence[str], seconds: float
    ) -> None:
        command = _INSTALL.format(packages=" ".join(map(shlex.quote, packages)), most=_MOST_SET)
        staging = self.cache / f"{_STAGING}{secrets.token_hex(4)}"
        try:
            await asyncio.to_thread(self.make_folder)
            sandbox = await asyncio.to_thread(installer, staging)
            try:
                done = await sandbox.arun(command, timeout=seconds)
            finally:
                await sandbox.aclose()
            if done.timed_out:
                raise TimeoutError
            if done.exit_code:
                reason, hint = _reason(done)
                raise NotInstalled(f"{', '.join(packages)}: cannot be installed. {reason}", hint)
            await asyncio.to_thread(self._keep, staging / "set", name)
        finally:
            await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
        try:
            await asyncio.to_thread(self._prune)
        except OSError as error:  # the new set can be used anyway
            logger.warning("sets of packages cannot be removed: %s", error)

    def _keep(self, installed: Path, name: str) -> None:
        """Move a complete set into the cache."""
        try:
            installed.rename(self.cache / name)
        except OSError:
            if not (self.cache / name).exists():  # otherwise another process was faster
                raise

    def _prune(self) -> None:
        """Remove unfinished installations, and the least recently used sets if the cache is too large."""
        now = time.time()
        sets: list[tuple[float, int, Path]] = []
        for folder in self.cache.iterdir():
            try:
                used = folder.stat().st_mtime
                if not folder.name.startswith("."):
                    sets.append((used, _size(folder), folder))
                elif folder.name.startswith(_STAGING) and used < now - _LEFT_BEHIND:
                    shutil.rmtree(folder, ignore_errors=True)
            except OSError:  # another process has removed it
                continue
        total = sum(size for _, size, _ in sets)
        for used, size, folder in sorted(sets):
            if total <= _MOST_ALL or used > now - _IN_USE:
                return
            logger.info("removing the least recently used set of packages: %s", folder.name)
            # Rename first, so that no process finds an incomplete set.
            gone = folder.with_name(f"{_STAGING}{secrets.token_hex(4)}")
            with suppress(FileNotFoundError):  # another process does the same
                folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            total -= size


def _size(folder: Path) -> int:
    return sum((Path(place) / name).lstat().st_size for place, _, names in os.walk(folder) for name in names)


def _reason(done: RunResult) -> tuple[str, str]:
    """Return the errors of pip, and what to do."""
    lines = [line for line in done.output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    # Without its page, pip takes a package for one that does not exist.
    failed = [f"An index failed: {why}." for why in dict.fromkeys(_FAILED_PAGE.findall(done.output))]
    is_name = not failed and any(known in line for line in errors for known in _NAMED_WRONG)
    return " ".join((errors or lines[-3:]) + failed)[-_LAST_WORDS:], _CHECK if is_name else _LATER
