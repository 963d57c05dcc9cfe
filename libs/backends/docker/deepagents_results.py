"""Converts answers of the sandbox to deepagents' results, one function for each operation."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import normalize_read_bounds

from libs.private_names import is_read_as_text
from libs.redaction import MARK
from libs.sandbox import FileFailed, RunResult, SandboxError
from libs.sandbox.host import MAX_PATH, encoded

Answer = tuple[dict[str, Any], bytes] | FileFailed | SandboxError
"""An answer of the sandbox, or its error."""

_MOST_SHOWN = 300
"""Characters of a path or a text of the caller that an error repeats."""
_MARK = " // "
"""Begins what is said after a path. No name looks like a mark: no listed path has two slashes in a row."""
_LINE_CUT = " [the line continues]"
_NOT_UTF_8 = " [bytes that are not UTF-8 are shown as \ufffd]"
_REPLACED = (
    "\n\n[Bytes that are not UTF-8 are shown as \ufffd: read them with a command that knows the encoding.]"
)
_NO_MATCH = (
    " No file that was searched has a match: folders named .git or .output, and linked folders, are left out."
)
_REDACTED = MARK.decode()
_SECRET = (
    f". {_REDACTED} stands for a known secret, unless the file holds this text itself: name only the text "
    "around it, or use a command."
)
_WRITABLE = "a folder that can be written, as /workspace and /tmp are unless a mode or owner was changed"
_WORDS = {"file_not_found": "path_not_found"}
_EXPLAINED = {"failed", "folder_removed", "too_many", "timeout", "invalid_path", "half_character"}
"""Errors whose message says more than their word."""
_PROTOCOL_ERRORS = {"file_not_found", "permission_denied", "is_directory", "invalid_path"}


def execute(result: RunResult) -> ExecuteResponse:
    output = result.output
    return ExecuteResponse(output=output, exit_code=result.exit_code, truncated=result.truncated)


def _told(error: FileFailed | SandboxError) -> str:
    return f"{error} {error.hint}" if isinstance(error, SandboxError) else str(error)


def _shown(path: str, hidden: Collection[str] = ()) -> str:
    """Return a printable path. A path gets a mark if file tools do not take it: not UTF-8, or too long.

    `hidden`: paths without a known secret that they held.
    """
    if path in hidden:
        return f"{_shown(path)}{_MARK}[the name holds a known secret: only a command reaches it, as with *]"
    raw = path.encode("utf-8", "surrogateescape")
    try:
        mark = f"{_MARK}[over {MAX_PATH:,} bytes: only a command that changes to its folder reaches it]"
        return raw.decode("utf-8") + mark * (len(raw) > MAX_PATH)
    except UnicodeDecodeError:
        name = raw.decode("utf-8", "backslashreplace")
        return f"{name}{_MARK}[not UTF-8: only a command reaches this name]"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _in_one_line(path: str, hidden: Collection[str] = ()) -> str:
    """Return a printable path for a listing of lines, in which a line end would begin another path."""
    if not {"\n", "\r"} & set(path):
        return _shown(path, hidden)
    line = _shown(path, hidden).replace("\n", "\\n").replace("\r", "\\r")
    return f"{line}{_MARK}[the name has a line end, shown here as \\n or \\r]"


def ls(path: str, answer: Answer) -> LsResult:
    if not isinstance(answer, tuple):
        return LsResult(error=f"Path '{_cut(path)}': {_reason(answer)}")
    hidden = _hidden(answer[0])
    entries = [_info(entry, hidden) for entry in answer[0]["entries"]]
    if answer[0]["cut"]:
        # deepagents shows no entries beside an error.
        mark = f"[only {len(entries):,} entries are listed: find the others with glob or a command]"
        entries.append(FileInfo(path=f"{path}{_MARK}{mark}", is_dir=False))
    return LsResult(entries=entries)


def _hidden(found: dict[str, Any]) -> Collection[str]:
    return set(found.get("hidden", ()))


def _info(entry: dict[str, Any], hidden: Collection[str]) -> FileInfo:
    info = FileInfo(path=_shown(entry["path"], hidden), is_dir=entry["is_dir"])
    if "size" in entry:
        info["size"] = entry["size"]
        with suppress(ValueError, OverflowError, OSError):  # a year that datetime does not have
            info["modified_at"] = datetime.fromtimestamp(entry["modified"], UTC).isoformat()
    return info


def _reason(error: FileFailed | SandboxError) -> str:
    """Return deepagents' word for an error, or the message."""
    if isinstance(error, FileFailed) and error.code not in _EXPLAINED:
        return _WORDS.get(error.code, error.code)
    return _told(error)


def page_request(path: str, offset: int, limit: int) -> dict[str, Any]:
    offset, limit = normalize_read_bounds(offset, limit)
    return {"path": path, "offset": offset, "limit": limit, "text": is_read_as_text(path)}


def read(path: str, answer: Answer) -> ReadResult:
    if not isinstance(answer, tuple):
        told = {"file_not_found": "file_not_found", "permission_denied": "permission_denied"}
        code = getattr(answer, "code", "")
        return ReadResult(error=f"File '{_cut(path)}': {told.get(code) or _told(answer)}")
    page, _ = answer
    if page.get("empty"):
        # deepagents adds that the file is empty.
        return ReadResult(file_data=FileData(content="", encoding="utf-8"))
    if page.get("none_asked"):
        return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
    if "base64" in page:
        return ReadResult(file_data=FileData(content=page["base64"], encoding="base64"))
    content = page["content"] + _REPLACED * page["replaced"] + _page_cut(path, page)
    return ReadResult(
        file_data=FileData(content=content, encoding="utf-8"),
        # If the total is known, deepagents says that a file of blank lines is empty.
        total_lines=page["total"] if content.strip() else None,
        start_line=page["start"],
        end_line=page["end"],
        next_offset=page["next"],
    )


def _page_cut(path: str, page: dict[str, Any]) -> str:
    """Return the note about a page that ends within a line."""
    if not page["cut"]:
        return ""
    if "rest" not in page:
        return f"\n\n[The page is full, and the last line is cut here: continue with offset {page['end']}.]"
    command = f"tail -c +{page['rest'] + 1} {shlex.quote(path)} | head -c 50000"
    return (
        "\n\n[The page is full, and this line is cut here. No offset shows the rest of the line. "
        f"A command does: {command}]"
    )


def write(path: str, answer: Answer) -> WriteResult:
    if isinstance(answer, tuple):
        return WriteResult(path=path)
    path = _cut(path)
    messages = {
        "exists": f"Error: '{path}' already exists. Change it with edit_file, or choose another name.",
        "permission_denied": f"Error: Failed to write file '{path}': {answer}. Choose {_WRITABLE}.",
    }
    code = getattr(answer, "code", "")
    return WriteResult(error=messages.get(code, f"Error: Failed to write file '{path}': {_told(answer)}"))


def edit(path: str, old: str, answer: Answer) -> EditResult:
    if isinstance(answer, tuple):
        return EditResult(path=path, occurrences=answer[0]["count"])
    path = _cut(path)
    messages = {
        "empty_old": "Error: old_string is empty: name the text that is to be replaced",
        "file_not_found": f"Error: File '{path}' not found",
        "permission_denied": f"Error: Failed to edit file '{path}': {answer}. "
        f"If it can be read, write a copy with `cat` to {_WRITABLE}, and edit the copy: `cp` also copies the "
        "mode.",
        "is_directory": f"Error: '{path}' is not a regular file",
        "not_text": f"Error: File '{path}' is not text in UTF-8. Change it with a command.",
        "not_found": f"Error: String not found in file: '{_cut(old)}'{_SECRET * (_REDACTED in old)}",
        "ambiguous": f"Error: String '{_cut(old)}' appears multiple times ({answer}). "
        "Use replace_all=True to replace all occurrences, or give more of the text around the one you mean.",
    }
    code = getattr(answer, "code", "")
    return EditResult(error=messages.get(code, f"Error editing file '{path}': {_told(answer)}"))


def delete(path: str, answer: Answer) -> DeleteResult:
    if isinstance(answer, tuple):
        return DeleteResult(path=path)
    path = _cut(path)
    messages = {
        "file_not_found": f"Error: '{path}' not found",
        "protected": f"Error: '{path}' is a folder that the sandbox needs, or holds one: it is never "
        "deleted. Delete what is in it by name.",
    }
    code = getattr(answer, "code", "")
    return DeleteResult(error=messages.get(code, f"Error deleting file '{path}': {_told(answer)}"))


def joined(first: Answer, second: Answer) -> Answer:
    """Return what two searches have found. If only the second has failed, the result says that it was cut."""
    if not isinstance(first, tuple):
        return second
    one = first[0]
    if not isinstance(second, tuple):
        return {**one, "cut": one["cut"] or "unreadable"}, b""
    two = second[0]
    return {name: one[name] + two[name] if name != "cut" else one[name] or two[name] for name in one}, b""


def glob(path: str | None, answer: Answer) -> GlobResult:
    if not isinstance(answer, tuple):
        return GlobResult(error=f"Path '{_cut(path or '/workspace')}': {_reason(answer)}")
    found, _ = answer
    hidden = _hidden(found)
    matches = [FileInfo(path=_shown(name, hidden), is_dir=False) for name in found["paths"]]
    return GlobResult(matches=matches, truncated=bool(found["cut"]), truncation_reason=found["cut"])


def grep(path: str | None, answer: Answer) -> GrepResult:
    if not isinstance(answer, tuple):
        return GrepResult(error=f"Path '{_cut(path or '/workspace')}': {_reason(answer)}")
    found, _ = answer
    hidden = _hidden(found)
    matches = [
        GrepMatch(
            path=_in_one_line(item["path"], hidden),
            line=item["line"],
            text=item["text"] + _LINE_CUT * ("cut_after" in item) + _NOT_UTF_8 * ("replaced" in item),
        )
        for item in found["matches"]
    ]
    return GrepResult(matches=matches, truncated=bool(found["cut"]), error=_unread(found))


def _unread(found: dict[str, Any]) -> str | None:
    """Return the message about files that a search could not read. deepagents shows the matches below it."""
    if not found["unread"]:
        return None
    hidden = _hidden(found)
    names = ", ".join(_cut(_in_one_line(name, hidden)) for name in found["unread_first"])
    more = ", …" if found["unread"] > len(found["unread_first"]) else ""
    cut = " The search was also cut: there may be more matches." if found["cut"] else ""
    rest = "" if found["matches"] or found["cut"] else _NO_MATCH
    why = "because they cannot be read, have lines of over 16 MB, or are binary and over 64 MB"
    return f"Not searched to the end, {why}: {found['unread']} ({names}{more}).{rest}{cut}"


def _protocol_error(answer: FileFailed | SandboxError) -> str:
    code = getattr(answer, "code", "")
    return code if code in _PROTOCOL_ERRORS else _told(answer)


def absolute(path: str) -> FileFailed | None:
    """Return an error for a relative path, because uploads and downloads have no working folder."""
    return None if path.startswith("/") else FileFailed("invalid_path", f"{path!r} is not absolute")


def not_text(content: str) -> FileFailed | None:
    """Return an error for content with half of a surrogate pair, which UTF-8 cannot encode."""
    try:
        encoded(content)
    except ValueError as error:
        return FileFailed("half_character", str(error))
    return None


def upload(path: str, answer: Answer) -> FileUploadResponse:
    return FileUploadResponse(path=path, error=None if isinstance(answer, tuple) else _protocol_error(answer))


def download(path: str, answer: Answer) -> FileDownloadResponse:
    if isinstance(answer, tuple):
        return FileDownloadResponse(path=path, content=answer[1])
    return FileDownloadResponse(path=path, error=_protocol_error(answer))
