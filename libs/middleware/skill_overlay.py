"""Skills that a person has approved, kept in a folder of their own before those of the project."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .skill_proposals import Proposal

__all__ = ["SkillOverlay"]

_NEW, _OLD = ".new-", ".old-"
_REFUSED = ".refused"
"""Digests of what a person has refused, one a line."""


class SkillOverlay:
    """Such a folder; made where missing. No sandbox may be able to write there.

    All methods block on the disk, and raise OSError where it cannot be read or written. Several programs may
    use the same folder: one at a time changes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> None:
        """Make the folder where it is missing: for all to read, as the user of a sandbox is another one."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o755)

    def adopt(self, proposal: Proposal) -> None:
        """Keep a skill, in the place of an earlier one of its name: whole, or not at all."""
        place, draft, old = (self._folder / f"{kind}{proposal.name}" for kind in ("", _NEW, _OLD))
        with self._alone():
            _write(draft, proposal)
            if place.exists():
                place.rename(old)
            draft.rename(place)
            shutil.rmtree(old, ignore_errors=True)

    def refuse(self, proposal: Proposal) -> None:
        """Remember that a person does not want this very proposal."""
        with self._alone():
            self._note(proposal)

    def forget(self, name: str) -> bool:
        """Remove a skill that was kept; whether there was one. As it was, nobody is asked about it again."""
        with self._alone():
            if name not in self._names():
                return False
            self._note(_read(self._folder / name))
            shutil.rmtree(self._folder / name)
            return True

    def decided(self) -> set[str]:
        """Digests of all that is kept as it was proposed, or was refused."""
        if not self._folder.is_dir():
            return set()
        with self._alone():
            refused = self._folder / _REFUSED
            have = {_read(self._folder / name).digest for name in self._names()}
            return have | set(refused.read_text().split() if refused.exists() else ())

    def _note(self, refused: Proposal) -> None:
        with (self._folder / _REFUSED).open("a") as file:
            file.write(f"{refused.digest}\n")

    def _names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir() if path.is_dir() and path.name[0] != "."]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep every other program from changing the folder, and mend what one has left that was killed."""
        self.make()
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            self._mend()
            yield
        finally:
            os.close(folder)

    def _mend(self) -> None:
        for left in [*self._folder.glob(f"{_NEW}*"), *self._folder.glob(f"{_OLD}*")]:
            place = self._folder / left.name.removeprefix(_OLD)
            if left.name.startswith(_OLD) and not place.exists():
                left.rename(place)
            else:
                shutil.rmtree(left)


def _read(folder: Path) -> Proposal:
    """A kept skill; what a person has put there since may be anything."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    texts = {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8", "surrogateescape")
        for path in files
    }
    return Proposal(folder.name, texts)


def _write(folder: Path, proposal: Proposal) -> None:
    # Modes are set, whatever the umask: the user of the sandbox is another one.
    _make(folder)
    for path, text in proposal.files.items():
        file = folder / path
        for parent in reversed(file.relative_to(folder).parents[:-1]):
            _make(folder / parent)
        file.write_text(text, encoding="utf-8", newline="")
        file.chmod(0o755 if text.startswith("#!") else 0o644)


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
