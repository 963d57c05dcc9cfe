"""Finds the paths that a task names, and checks which of them exist. The other words have no effect."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from libs.sandbox import Sandbox, SandboxError

__all__ = ["NamedPath", "absent", "is_input", "named_paths"]

_SECONDS = 10.0
"""Seconds that the check of the paths may take."""
_MOST = 20
"""Most paths of one task that are checked."""
_LONGEST_NAME = 255
_LONGEST_PATH = 4096

# Before a path there is no letter, digit or slash, so a part of a URL is not a path. A path ends at white
# space, a quotation mark or a separator.
_TOKEN = re.compile(
    r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/:\\-]))"
    r"(?P<root>(?P<known>/(?:data|results|scripts|workspace|skills|tmp)/)|~/|/[A-Za-z0-9_.-]+/"
    r"|(?:\./)?(?:data|results|scripts|workspace)/)"
    r"[^\s\x00-\x1f\"'`“”‘’„«»,;:|]+"
)
_CLOSING = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»"}
_AFTER_PATH = ".!?…)]}。，、；：！？）」』】》"
_PATTERN = re.compile(r"[*?<>\[\]{}$]")
# In text without blanks between words, the next word follows the extension directly.
_EXTENSION_END = re.compile(r"\.[A-Za-z0-9]{1,8}(?=[^\x00-\x7f])")
_EXTENSION = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,7}$")
_INPUT = re.compile(r"(?:/|\./)?(?:workspace/)?data/")

_LOOK = r"""
import json, os, re, sys

def there(path, text):
    path = os.path.expanduser(re.sub(r"^(\./)?workspace/", "/workspace/", path))
    try:
        os.stat(path)
        return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError):  # the path may exist: access is denied, or the path is invalid
        return True
    folder, last = os.path.split(path.rstrip("/"))
    try:
        names = set(os.listdir(folder)) - {last}
    except OSError:
        return False
    # A name may hold blanks or commas. Then the text alone does not show where the path ends.
    return any(text.startswith(name) and not re.match(r"[\w./-]", text[len(name):], re.A) for name in names)

print(json.dumps([n for n, named in enumerate(json.loads(sys.argv[1])) if not there(*named)]))
"""
"""Prints the positions of the absent paths. Long paths could be over the limit of the output."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path that a task names."""

    path: str
    text: str = ""
    """The text of the task from the last part of the path on. A name with blanks may go on after `path`."""


def named_paths(task: str, wanted: re.Pattern[str] | None = None) -> list[NamedPath]:
    """Return the first twenty paths that a task names and that match `wanted` as a whole, each once.

    A path begins with /data/, /results/, /scripts/, /workspace/, /skills/ or /tmp/. Other absolute paths, and
    paths that begin with ~/, data/, results/, scripts/ or workspace/, must end in an extension. Patterns such
    as `/data/*.csv` are not paths.
    """
    found: dict[str, NamedPath] = {}
    for token in _TOKEN.finditer(task):
        if len(found) == _MOST:
            break
        path = _quoted(task, token.start()) or _unquoted(token[0])
        if task.endswith("*", 0, token.start()):
            path = path.rstrip("*" + _AFTER_PATH)  # bold text in Markdown
        if len(path) <= len(token["root"]) or _PATTERN.search(path):
            continue
        if not token["known"] and not _EXTENSION.search(path):
            continue
        if wanted and not wanted.fullmatch(path):
            continue
        last = token.start() + path.rstrip("/").rfind("/") + 1
        found.setdefault(path, NamedPath(path, task[last : last + _LONGEST_NAME]))
    return list(found.values())


def is_input(path: str) -> bool:
    """Return whether a named path lies below /data. The agent may be asked to write any other path."""
    return bool(_INPUT.match(path))


def _quoted(task: str, start: int) -> str | None:
    """Return the path at `start` if quotation marks enclose exactly this path, which may hold blanks."""
    closing = _CLOSING.get(task[start - 1 : start])
    end = task.find(closing, start, start + _LONGEST_PATH) if closing else -1
    if end < 0:
        return None
    path = task[start:end]
    return None if "\n" in path or _TOKEN.search(path, 1) else path


def _unquoted(token: str) -> str:
    cut = _EXTENSION_END.search(token)
    return (token[: cut.end()] if cut else token).rstrip(_AFTER_PATH)


async def absent(sandbox: Sandbox, named: Sequence[NamedPath]) -> list[str]:
    """Return the paths that do not exist in the sandbox; an empty list if the sandbox fails."""
    if not named:
        return []
    given = json.dumps([(each.path, each.text) for each in named])
    command = shlex.join(["python3", "-I", "-S", "-c", _LOOK, given])
    try:
        result = await sandbox.arun(command, timeout=_SECONDS, merge_stderr=False)
    except SandboxError:
        return []
    if result.exit_code != 0:
        return []
    return [named[n].path for n in json.loads(result.output)]
