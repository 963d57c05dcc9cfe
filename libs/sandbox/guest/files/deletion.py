"""Deletes files and folders (standard library only)."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import Any, Final

from libs.sandbox.guest.files.disk import refuse_lost_parents
from libs.sandbox.guest.workers.memory_kills import memory_kills

__all__ = ["delete"]

_MOST_TOLD: Final = 500
"""Characters of a program's error message that are returned."""
_DELETE_SECONDS: Final = 25.0
"""Longest deletion of a folder. A request has 30 s."""


def delete(path: str, protected: list[str]) -> dict[str, Any]:
    """Delete a file or a folder with its content, but no protected path and no parent of one."""
    refuse_lost_parents(path)
    parent, name = os.path.split(path.rstrip("/"))
    place = os.path.normpath(
        os.path.join(os.path.realpath(parent or ("/" if path.startswith("/") else ".")), name)
    )
    for kept in (*protected, *map(os.path.realpath, protected)):
        if kept == place or kept.startswith(place.rstrip("/") + "/"):
            return {"error": "protected"}
    mode = os.lstat(place).st_mode
    if stat.S_ISLNK(mode) and path.endswith("/"):
        raise ValueError(
            "the path ends with a slash, and its name is a link to a folder: to delete the link, leave the "
            "slash out; to delete the folder, name the folder"
        )
    if stat.S_ISDIR(mode):
        kills = memory_kills()
        # Not `shutil.rmtree`, which recurses: folders can be nested deeper than Python's stack.
        try:
            done = subprocess.run(
                ["rm", "-rf", "--", place], capture_output=True, check=False, timeout=_DELETE_SECONDS
            )
        except BlockingIOError:
            detail = "nothing was deleted: the sandbox's processes are used up: end programs, then delete it"
            return {"error": "failed", "detail": detail}
        except subprocess.TimeoutExpired:
            if not os.path.lexists(place):
                return {}
            detail = f"not everything was deleted within {_DELETE_SECONDS:g} s: delete it again for the rest"
            return {"error": "timeout", "detail": detail}
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip()
            if done.returncode < 0:
                no_memory = "the sandbox's memory is used up: end programs that use it, then delete the rest"
                killed = "a program ended the deletion: delete it again for the rest"
                why = no_memory if memory_kills() > kills else killed
            told = f"not everything was deleted: {why}"
            cut = {"cut_after": "detail"} if len(told) > _MOST_TOLD else {}
            return {"error": "failed", "detail": told[:_MOST_TOLD], **cut}
    else:
        os.unlink(place)
    return {}
