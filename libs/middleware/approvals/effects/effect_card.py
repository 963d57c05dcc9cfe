"""Describe what a call has done, for the person who decides whether that stays."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.middleware.approvals.effects.effect_pictures import pictures_of
from libs.middleware.approvals.visible_text import on_one_line, visible
from libs.workspace import Entry, Manifest
from libs.workspace.history import Effect, EffectRuns

__all__ = ["effect_card"]

_MOST_PATHS: Final = 100
"""Paths of one kind in the question."""
_MOST_LISTED: Final = 20
"""Paths of one kind in the text."""
_MOST_OUTPUT: Final = 4_000
"""Characters of the output in the question: the last ones."""
_OUTPUT_LINES: Final = 12
_DIFF_LINES: Final = 40
_MOST_WIDTH: Final = 200
_MOST_READ: Final = 64 * 1024
"""Bytes of the largest file that is compared."""
_MOST_COMPARED: Final = 10
_INTERRUPTED: Final = {
    "stopped": "This was stopped while it ran",
    "ended": "The program or the sandbox ended while this ran",
}
_SINCE: Final = "so nobody knows whether it ran to its end. Below is what has changed since it began."


@dataclass(frozen=True, slots=True)
class _Side:
    """The files before or after the call."""

    capture: str
    files: Manifest

    def size(self, path: str, earlier: Manifest) -> str:
        entry, was = self.files.entries.get(path), earlier.entries.get(path)
        if entry is None:
            return ""
        if entry.kind == "link":
            return f" (link to {entry.target})"
        told = entry.mode & 0o7000 or (was and was.mode != entry.mode)
        mode = f", mode {entry.mode:o}" if told else ""
        return f" (folder{mode})" if entry.kind == "dir" else f" ({entry.size:,} bytes{mode})"


async def effect_card(
    runs: EffectRuns, effect: Effect, key: str, redact: Callable[[str], str]
) -> tuple[Mapping[str, Any], str]:
    """Return the effect of a call as JSON for the question, and as text.

    Args:
        key: the key of the call.
        redact: removes known secrets.
    """

    def clean(text: str) -> str:
        return on_one_line(redact(text))

    made, before_files = {}, await runs.manifests(effect)
    before, after = _Side(effect.before, before_files[0]), _Side(effect.after, before_files[1])
    parts = dict(zip(("created", "changed", "deleted"), effect.difference.parts, strict=True))
    special = tuple(path for path in effect.unread if path not in after.files.entries)
    parts["created"] += tuple(path for path in special if path not in parts["created"])
    for kind, paths in parts.items():
        made[kind] = [clean(path) for path in paths[:_MOST_PATHS]]
    more = {kind: len(paths) - _MOST_PATHS for kind, paths in parts.items() if len(paths) > _MOST_PATHS}
    pictures, others = await pictures_of(runs, effect, before_files, clean)
    if others:
        more["pictures"] = others
    result = effect.result
    value = {
        **made,
        **({"more": more} if more else {}),
        **({"pictures": pictures, "key": key} if pictures else {}),
        "exit_code": result.exit_code,
        "output": _last(visible(result.output)),
        "seconds": round(result.seconds, 3),
    }
    how = f"It has run: exit code {result.exit_code}."
    if result.interrupted:
        how = f"{_INTERRUPTED[result.interrupted]}, {_SINCE}"
    said = [f"{how} Approve keeps what it did, reject undoes it."]
    for kind, side in (("deleted", before), ("changed", after), ("created", after)):
        if paths := parts[kind]:
            said.append("\n".join(map(clean, _listed(kind, paths, side, before.files))))
    back = {path: why for path, why in effect.unread.items() if _comes_back(path, *before_files)}
    lost = {path: why for path, why in effect.unread.items() if path not in back}
    for unread, what in (
        (back, "Not in the snapshot; reject brings back what was there before:"),
        (lost, "Not in the snapshot, so not undone:"),
    ):
        if unread:
            said.append("\n".join(map(clean, [what, *_unread(unread)])))
    if sizes := [line for picture in pictures if (line := _sizes(picture))]:
        said.append("\n".join(["Pictures, in pixels:", *sizes]))
    if lines := [line async for line in _diff(runs, effect, before, after)]:
        said.append("```diff\n" + visible(redact("\n".join(lines))) + "\n```")
    if output := visible(result.output).rstrip():
        said.append(_folded(output.split("\n"), whole=not result.truncated))
    return value, "\n\n".join(said)


def _listed(kind: str, paths: Sequence[str], side: _Side, earlier: Manifest) -> list[str]:
    lines = [f"  {path}{side.size(path, earlier)}" for path in paths[:_MOST_LISTED]]
    rest = len(paths) - len(lines)
    return [f"{kind.capitalize()} ({len(paths)}):", *lines, *([f"  and {rest:,} more"] if rest else [])]


def _unread(paths: Mapping[str, str]) -> list[str]:
    lines = [f"  {path}: {why}" for path, why in list(paths.items())[:_MOST_LISTED]]
    return [*lines, *([f"  and {len(paths) - len(lines):,} more"] if len(paths) > len(lines) else [])]


def _comes_back(path: str, before: Manifest, after: Manifest) -> bool:
    """Return whether an undo brings a path back, although the snapshot after the call does not hold it."""
    return path in before.entries and (before.is_folder(path) or not after.is_folder(path))


def _sizes(picture: Mapping[str, Any]) -> str:
    """Return a line with the size of a picture before and after the call. Empty: it is an SVG."""
    both = [(when, picture[when]["pixels"]) for when in ("before", "after") if picture[when]]
    sizes = [f"{when} {size[0]:,} by {size[1]:,}" for when, size in both if size]
    return f"  {picture['path']}: {', '.join(sizes)}" if sizes else ""


def _last(output: str) -> str:
    more = len(output) - _MOST_OUTPUT
    return output if more <= 0 else f"[what it printed before is left out]\n{output[-_MOST_OUTPUT:]}"


def _folded(lines: Sequence[str], *, whole: bool) -> str:
    # Indented, so that no output looks like a part of the question.
    last = [f"    {_cut(line)}" for line in lines[-_OUTPUT_LINES:]]
    rest = len(lines) - len(last)
    of = f" of {len(lines):,}" if whole else ""
    return "\n".join([f"Output, its last {len(last)}{of} lines:" if rest or not whole else "Output:", *last])


def _cut(line: str) -> str:
    more = len(line) - _MOST_WIDTH
    return line if more <= 0 else f"{line[:_MOST_WIDTH]} … {more:,} more characters"


async def _diff(runs: EffectRuns, effect: Effect, before: _Side, after: _Side) -> AsyncIterator[str]:
    """Yield the lines of the differences of texts, at most a screen."""
    created, changed, deleted = effect.difference.parts
    left = _DIFF_LINES
    texts = [path for path in (*changed, *deleted, *created) if _is_short(before, path, after)]
    for path in texts[:_MOST_COMPARED]:
        old, new = await _text(runs, before, path), await _text(runs, after, path)
        if old is None or new is None or old == new:
            continue
        name = on_one_line(path)
        lines = list(difflib.unified_diff(old, new, f"{name} before", name, lineterm=""))
        for line in lines[:left]:
            yield _cut(line)
        if len(lines) > left:
            yield f" … {len(lines) - left:,} more lines"
            return
        left -= len(lines)


def _is_short(before: _Side, path: str, after: _Side) -> bool:
    entries = [side.files.entries.get(path) for side in (before, after)]
    return any(entries) and all(_is_text_size(entry) for entry in entries if entry)


def _is_text_size(entry: Entry) -> bool:
    return entry.kind == "file" and entry.size <= _MOST_READ


async def _text(runs: EffectRuns, side: _Side, path: str) -> list[str] | None:
    """Return the lines of a file, none if there is no file. None: it is no text."""
    if path not in side.files.entries:
        return []
    content = await runs.read(side.capture, path)
    if content is None or b"\0" in content:
        return None
    try:
        # Only at line feeds, so that other line ends are seen.
        return content.decode().removesuffix("\n").split("\n") if content else []
    except UnicodeDecodeError:
        return None
