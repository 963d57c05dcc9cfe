"""The parameters of `execute_code` and their checks, which run before any sandbox starts."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import tokenize
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from libs.exec_tool.outcome import DEEPEST, quoted_path, too_deep
from libs.sandbox.host import encoded

__all__ = [
    "MAX_PATH",
    "VALUES",
    "Binary",
    "Call",
    "Language",
    "canonical",
    "check_path",
    "explained",
    "in_another",
]

Language = Literal["python", "bash"]

VALUES = ".kv"
"""Folder that stands for the values of `kv` where files are listed. No file can lie in this folder."""
MAX_CODE = 1_000_000
"""Characters of a program."""
MAX_ARGS = 100_000
"""Bytes of `args` as JSON, which an environment variable holds."""
MAX_PATH = 500
MAX_FILES = 256
MAX_FILE_BYTES = 32 * 1024 * 1024
"""Bytes of all files of a call."""
MAX_DEPENDENCIES = 30
MAX_REQUIREMENT = 200
"""Characters of a package with its versions."""
_MAX_REASON = 300
_NO_CHARACTER = re.compile(r"[\0\ud800-\udfff]")
_CONTENT = 'text, or {"base64": "…"}'


class Binary(BaseModel):
    """The content of a binary file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    base64: str

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
        return value


def check_path(path: str) -> str:
    """Return a path below the workspace in its normal form.

    Raises:
        ValueError: the path is absolute, too long, or holds `..` or an invalid name.
    """
    if not path or len(path) > MAX_PATH:
        raise ValueError(f"a path has 1 to {MAX_PATH} characters")
    shown = quoted_path(path)
    if path.startswith("/"):
        raise ValueError(f"the path {shown} is absolute: give one relative to the working directory")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError(
            f"the path {shown} holds '..': nothing outside of the working directory can be written"
        )
    if not names or path.endswith("/"):
        raise ValueError(f"the path {shown} names no file")
    if _NO_CHARACTER.search(path) or max(len(name.encode(errors="replace")) for name in names) > 255:
        raise ValueError(
            f"the path {shown} holds a name of more than 255 bytes, or a character no name can have"
        )
    if names[0] == ".output":
        raise ValueError("the folder .output is the sandbox's own")
    if names[0] == VALUES:
        raise ValueError(f"the folder {VALUES} stands for the values of `kv`")
    return "/".join(names)


def canonical(requirement: str) -> str:
    """Return a package and its versions in normal form: `Pandas >=2, <3` gives `pandas<3,>=2`.

    Raises:
        ValueError: the text is not a name with extras and versions, but for example a URL or a pip option.
    """
    shown = ascii(requirement[:80])
    wrong = ValueError(
        f"{shown} is not a package: only names and versions are installed, such as 'pandas>=2,<3', no URLs, "
        "paths, options or markers"
    )
    if len(requirement) > MAX_REQUIREMENT:
        raise wrong
    try:
        parsed = Requirement(requirement)
    except (InvalidRequirement, RecursionError):  # a marker may have many brackets
        raise wrong from None
    if parsed.url or parsed.marker or "===" in str(parsed.specifier):
        raise wrong
    extras = f"[{','.join(sorted(map(canonicalize_name, parsed.extras)))}]" if parsed.extras else ""
    return f"{canonicalize_name(parsed.name)}{extras}{parsed.specifier}"


def in_another(paths: Collection[str]) -> list[str]:
    """Return the paths that lie in another of the paths."""
    return [path for path in paths if any(path[: slash.start()] in paths for slash in re.finditer("/", path))]


def _content(given: str | Binary) -> bytes:
    return base64.b64decode(given.base64) if isinstance(given, Binary) else given.encode()


def _files(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(value) > MAX_FILES:
        raise ValueError(f"{len(value)} files: at most {MAX_FILES} are taken at once")
    for name, given in value.items():
        if isinstance(given, str):
            try:
                encoded(given)
            except ValueError as error:
                raise ValueError(f"the file {quoted_path(name)}: {error}") from None
    found = {check_path(path): content for path, content in value.items()}
    if len(found) < len(value):
        raise ValueError("two of the paths name the same file")
    if inner := in_another(found):
        raise ValueError(f"{quoted_path(inner[0])} lies in a folder that has the name of another file")
    size = sum(map(len, map(_content, found.values())))
    if size > MAX_FILE_BYTES:
        raise ValueError(f"the files have {size:,} bytes: at most {MAX_FILE_BYTES:,} are taken at once")
    return found


def _dependencies(value: list[str]) -> list[str]:
    if len(value) > MAX_DEPENDENCIES:
        raise ValueError(f"{len(value)} dependencies: at most {MAX_DEPENDENCIES} are taken")
    return sorted({canonical(each) for each in value})


def _args(value: Any) -> Any:
    if too_deep(value):
        raise ValueError(f"are nested too deeply: at most {DEEPEST} objects and arrays may be in one another")
    try:
        if fits := _fits(value):
            encoded(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot be sent as JSON: {error}") from None
    if not fits:
        raise ValueError(f"has over {MAX_ARGS:,} bytes as JSON: put it into a file of `files`")
    if key := _other_key(value):
        raise ValueError(
            f"has the key {key[:80]}, which is no text: JSON would change the key, so write a text"
        )
    return value


def _fits(value: Any) -> bool:
    """Return whether JSON has at most MAX_ARGS bytes. It repeats an object for each place that holds it."""
    size = 0
    for piece in json.JSONEncoder(allow_nan=False).iterencode(value):
        size += len(piece)
        if size > MAX_ARGS:
            return False
    return True


def _other_key(value: Any) -> str | None:
    """Return the repr of a key that is no text, or None."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if other := [key for key in each if not isinstance(key, str)]:
                return repr(other[0])
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
    return None


def _code(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty: send the whole program")
    encoded(value)
    if "\0" in value:  # Python would end the line there, and bash would leave it out
        raise ValueError(f"has a NUL as character {value.index(chr(0)) + 1}: write it as an escape sequence")
    if len(value) > MAX_CODE:
        raise ValueError(
            f"has {len(value):,} characters, at most {MAX_CODE:,} are taken: put data into `files`, and "
            "compute the rest"
        )
    return value


class Call(BaseModel):
    """One program with its inputs."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    code: Annotated[str, AfterValidator(_code)] = Field(
        description="The whole program: imports, helper functions and the work, without Markdown around it."
    )
    dependencies: Annotated[list[str], AfterValidator(_dependencies)] = Field(
        default=[],
        description="Packages besides those that are there, each a name with versions where needed: "
        '["polars>=1,<2"].',
    )
    files: Annotated[dict[str, str | Binary], AfterValidator(_files)] = Field(
        default={},
        description='Files written before the program starts: relative path -> text, or {"base64": …}.',
    )
    args: Annotated[Any, AfterValidator(_args)] = Field(
        default=None,
        description="Any JSON value; the program reads it, as JSON, from the environment variable ARGS_JSON.",
    )
    language: Language = Field(default="python", description="python or bash.")

    @model_validator(mode="after")
    def _is_read_as_written(self) -> Self:
        """Refuse a program that its language would read as another text."""
        if self.language == "bash" and self.code.startswith("\ufeff"):
            raise ValueError("code: begins with a byte order mark, which bash takes for text")
        if self.language == "python":
            source = self.code.encode()
            lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as Python reads a file
            # Python itself reports an encoding that it does not know, or that does not fit.
            with suppress(SyntaxError, LookupError, UnicodeError):
                encoding, _ = tokenize.detect_encoding(io.BytesIO(lines).readline)
                if not encoding.startswith("utf-8") and source.decode(encoding) != self.code:
                    raise ValueError(f"code: is UTF-8, and a comment says {encoding}: leave the comment out")
        return self

    @property
    def text(self) -> str:
        """The text by which the command log compares calls."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """Path -> content of the files."""
        return {path: _content(given) for path, given in self.files.items()}


def explained(error: ValidationError) -> str:
    """Return what is wrong with a call, without repeating the whole call."""
    lines: dict[tuple[str | int, ...], str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        where = each["loc"]
        message = each["msg"].removeprefix("Value error, ")[:_MAX_REASON]
        if where[:1] == ("files",) and len(where) > 1:
            # pydantic reports a content once for each of its two forms. One line for each file is enough.
            lines[where[:2]] = _wrong_file(where, message if each["type"] == "value_error" else "")
        elif each["type"] == "extra_forbidden":
            name = ".".join(map(str, where))[:80]
            lines[where] = (
                f"There is no parameter {name!a}: the parameters are {', '.join(Call.model_fields)}."
            )
        elif each["type"] == "model_type":
            lines[where] = (
                f'The input must be an object, such as {{"code": "print(1)"}}: the parameters are '
                f"{', '.join(Call.model_fields)}."
            )
        elif each["type"] == "missing":
            lines[where] = f"The parameter {'.'.join(map(str, where))} is missing."
        elif where == ("files",) and each["type"] == "dict_type":
            lines[where] = f"files: must be an object: path -> {_CONTENT}."
        else:
            lines[where] = ": ".join(filter(None, (".".join(map(str, where))[:80], f"{message}.")))
    return " ".join(list(dict.fromkeys(lines.values()))[:5])


def _wrong_file(where: tuple[str | int, ...], reason: str) -> str:
    name = quoted_path(str(where[1]))
    if where[-1] == "[key]":
        return f"files: the path {name} is not text."
    return f"The content of the file {name} {reason or f'must be {_CONTENT}: send JSON as text'}."
