"""Where skills are in the sandbox, which of them are trusted, and which of their folders are on PATH."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

__all__ = ["LEARNED_MOUNT", "OWN_MOUNT", "command_places", "is_trusted"]

OWN_MOUNT = "/skills"
"""The project's own skills."""
LEARNED_MOUNT = "/skills.d/learned"
"""Skills that an agent proposed and a person approved."""


def is_trusted(place: PurePosixPath, trusted: Collection[str] | None) -> bool:
    """Return whether the skill at `place`, the path of its folder or module in the sandbox, may be used.

    Skills in `/skills` and `/skills.d/learned` are trusted. A skill from outside is trusted if `trusted`
    names it, as `<folder of skills>/<its folder or module>` or as `<its folder or module>`. `trusted=None`
    trusts all. The name in SKILL.md does not count, because its text is not trusted yet.
    """
    if trusted is None or str(place.parent) in (OWN_MOUNT, LEARNED_MOUNT):
        return True
    return place.name in trusted or f"{place.parent.name}/{place.name}" in trusted


def command_places(mounts: Iterable[str], trusted: Collection[str] | None) -> list[str]:
    """Return the places of skills whose `runtime/` folders are on PATH. Earlier places take precedence.

    A place is the folder of one skill, or `<mount>/*` for every skill of a mount. The skills that a person
    approved come first. A place with a colon is left out, because PATH cannot hold it.

    Args:
        mounts: folders of skills in the sandbox.
        trusted: see `is_trusted`.
    """
    places = []
    for mount in sorted(mounts, key=lambda mount: mount != LEARNED_MOUNT):
        every = PurePosixPath(mount, "*")
        if trusted is None or is_trusted(every, ()):
            places.append(str(every))
        else:
            names = sorted({name.rpartition("/")[2] for name in trusted})
            found = (PurePosixPath(mount, name) for name in names if name not in ("*", ".", "..", ""))
            places += [str(place) for place in found if is_trusted(place, trusted)]
    return [place for place in places if ":" not in place]
