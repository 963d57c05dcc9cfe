"""Store the skills that a person has approved in a folder that no sandbox can write."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from libs.middleware.skills.skill_proposals import Proposal

__all__ = ["SkillOverlay"]

_NEW, _OLD = ".new-", ".old-"
_REFUSED = ".refused"
"""File with the digests of refused proposals, one in a line."""


class SkillOverlay:
    """The folder of approved skills. No sandbox may be able to write there.

    All methods block on the disk and raise OSError. A file lock lets several programs use the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> None:
        """Create the folder if missing, readable for the user of the sandbox."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o755)

    def adopt(self, proposal: Proposal) -> None:
        """Store a skill and replace an earlier one of its name. The change is complete or not made at all."""
        place, draft, old = (self._folder / f"{kind}{proposal.name}" for kind in ("", _NEW, _OLD))
        with self._alone():
            _write(draft, proposal)
            if place.exists():
                place.rename(old)
            draft.rename(place)
            shutil.rmtree(old, ignore_errors=True)

    def refuse(self, proposal: Proposal) -> None:
        """Record that a person has refused this proposal."""
        with self._alone():
            self._note(proposal)

    def forget(self, name: str) -> bool:
        """Remove a stored skill and return whether it existed. Its content counts as refused from then on."""
        with self._alone():
            if name not in self._names():
                return False
            self._note(_read(self._folder / name))
            shutil.rmtree(self._folder / name)
            return True

    def decided(self) -> set[str]:
        """Return the digests of all stored and all refused proposals."""
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
        """Lock the folder, and repair what a killed program has left."""
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
    """Read a stored skill. A person may have added files of any kind."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    texts = {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8", "surrogateescape")
        for path in files
    }
    return Proposal(folder.name, texts)


def _write(folder: Path, proposal: Proposal) -> None:
    # Set the modes whatever the umask is: the user of the sandbox is another user.
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
