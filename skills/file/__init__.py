"""Read, write, edit, find and search files, in Python alone: no argument reaches a shell.

Paths are absolute, or relative to the working directory. Text is UTF-8.

    from skills.file import edit, glob, grep, ls, read, write

    print(ls("/data"))
    write("/results/notes.md", "# Notes\\n")
    edit("/results/notes.md", "# Notes", "# Findings")
    for match in grep(r"def \\w+", "/scripts", glob="**/*.py"):
        print(match.path, match.line, match.text)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Match", "edit", "glob", "grep", "ls", "read", "write"]

MAX_GREP_BYTES = 10_000_000
MAX_LINE_CHARS = 500


class Match(NamedTuple):
    """One line that `grep` found: absolute path, line number from 1, text of at most 500 characters."""

    path: str
    line: int
    text: str


def read(path: str, offset: int = 0, limit: int | None = None) -> str:
    """Return the text of a file: `limit` lines (all by default) after the first `offset` ones.

    Example:
        header = read("/data/sales.csv", limit=1)

    Raises:
        FileNotFoundError: there is no such file; the message names what the folder has.
        ValueError: the file is not text in UTF-8 or not a plain file, or `offset` or `limit` is negative.
    """
    if offset < 0 or (limit is not None and limit < 0):
        raise ValueError("offset and limit are numbers of lines, 0 or more")
    text = _text(_existing(path)).removeprefix("\ufeff")
    if offset == 0 and limit is None:
        return text
    # splitlines() would also split at form feeds and Unicode separators, unlike other programs.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    return "".join(lines[offset : None if limit is None else offset + limit])


def write(path: str, content: str) -> str:
    """Write `content` to a file, replacing what was there, and return its absolute path. Makes folders.

    Example:
        write("/results/report.md", "# Report\\n")
    """
    file = Path(path).absolute()
    if file.exists() and not file.is_file():
        raise ValueError(f"not a plain file: {file}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode())  # not write_text: line ends stay as they are
    return str(file)


def edit(path: str, old: str, new: str) -> str:
    """Replace the one place where a file has `old` by `new`, and return its absolute path.

    Example:
        edit("/scripts/report.py", "LIMIT = 10", "LIMIT = 20")

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: `old` is empty, or the file has it never or more than once; nothing is changed.
    """
    if not old:
        raise ValueError("old is empty: give the text that is to be replaced")
    file = _existing(path)
    text = _text(file)
    if "\r\n" in text and "\r" not in old:  # the file's line ends, not those of the caller
        old, new = old.replace("\n", "\r\n"), re.sub("\r?\n", "\r\n", new)
    # Overlapping places count too: "aa" is twice in "aaa".
    count = len(re.findall(f"(?={re.escape(old)})", text))
    if count != 1:
        hint = (
            "add lines around it until it is the only one" if count else "read the file and copy it exactly"
        )
        raise ValueError(f"{file} has this text {count:,} times, not once: {hint}")
    file.write_bytes(text.replace(old, new).encode())
    return str(file)


def glob(pattern: str, path: str = "/workspace") -> list[str]:
    """Return the absolute paths of the files below `path` that match, sorted; `**` is any depth of folders.

    A pattern that ends with `**` finds all files there. Names that begin with a dot are found only by a
    pattern with such a part. Linked folders below `path` are not entered.

    Example:
        tables = glob("**/*.csv", "/data")

    Raises:
        FileNotFoundError: there is no folder `path`.
        ValueError: the pattern is empty or absolute, or has `..` in it.
    """
    return [str(file) for file in _matching(pattern, _folder(path))]


def grep(pattern: str, path: str = "/workspace", glob: str = "**/*", limit: int = 200) -> list[Match]:
    """Return the lines that match a regular expression, at most `limit`, in a file or below a folder.

    In a folder: files whose path matches `glob`, but for binary ones and those over 10 MB; a file that is
    named is searched whatever it is. Patterns are Python's (`re`); `(?i)` at the start ignores case.

    Example:
        for match in grep(r"(?i)error", "/data", glob="**/*.log"):
            print(match.line, match.text)

    Raises:
        FileNotFoundError: there is nothing at `path`.
        re.error: the pattern is not a regular expression.
    """
    expression = re.compile(pattern)
    start = Path(path).absolute()
    found: list[Match] = []
    files = (
        [start] if start.is_file() else (file for file in _matching(glob, _folder(path)) if _is_text(file))
    )
    for file in files:
        # Only \n ends a line, so line numbers agree with other programs.
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if len(found) >= limit:
                    return found
                if expression.search(text := line.rstrip("\r\n")):
                    found.append(Match(str(file), number, text[:MAX_LINE_CHARS]))
    return found


def ls(path: str = "/workspace") -> list[str]:
    """Return the names in a folder, sorted; the names of folders end with `/`.

    Example:
        print(ls("/data"))

    Raises:
        FileNotFoundError: there is no such folder.
    """
    return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in _folder(path).iterdir())


def _matching(pattern: str, folder: Path) -> Iterator[Path]:
    parts = Path(pattern).parts
    if not parts or pattern.startswith("/") or ".." in parts:
        raise ValueError(f"the pattern is relative to the folder, without `..`: {pattern!r}")
    hidden = any(part.startswith(".") for part in parts)
    # A final `**` matches only folders in Python.
    for file in sorted(folder.glob(f"{pattern.rstrip('/')}/*" if parts[-1] == "**" else pattern)):
        inside = file.relative_to(folder).parts
        if file.is_file() and (hidden or not any(part.startswith(".") for part in inside)):
            yield file


def _is_text(file: Path) -> bool:
    """Return whether `grep` searches this file of a folder."""
    if file.stat().st_size > MAX_GREP_BYTES:
        return False
    try:
        with file.open("rb") as content:
            return b"\0" not in content.read(8192)
    except PermissionError:
        return False


def _text(file: Path) -> str:
    data = file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is not text in UTF-8: byte {error.start:,} is 0x{data[error.start]:02x}"
        ) from error


def _folder(path: str) -> Path:
    folder = Path(path).absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"no such folder: {folder}{_beside(folder)}")
    return folder


def _existing(path: str) -> Path:
    file = Path(path).absolute()
    if not file.exists():
        raise FileNotFoundError(f"no such file: {file}{_beside(file)}")
    if not file.is_file():  # opening a FIFO could block forever
        raise ValueError(f"not a plain file: {file}")
    return file


def _beside(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent} either"
    names = ls(str(path.parent))
    return f"; {path.parent} has: {', '.join(names[:20]) or 'nothing'}{', …' if len(names) > 20 else ''}"
