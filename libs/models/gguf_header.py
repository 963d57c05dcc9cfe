"""Reads the context length from the header of a GGUF file (versions 2 and 3)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

__all__ = ["GgufError", "context_tokens"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_FIELDS = 10_000
_MOST_IN_LIST = 1_000_000


class GgufError(ValueError):
    """The file is not a readable GGUF file; the message names the file."""


def context_tokens(path: Path) -> int:
    """Return the limit for prompt and answer together, in tokens; the weights are not read.

    Raises:
        GgufError: the file cannot be read, is not a GGUF file, or has no context length.
    """
    try:
        with path.open("rb") as file:
            fields = _fields(file)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise GgufError(f"{path} cannot be read as a GGUF file: {error}") from error
    context = fields.get(f"{fields.get('general.architecture')}.context_length")
    if not isinstance(context, int):
        raise GgufError(f"{path} does not say how many tokens its model reads: it is not a language model")
    return context


def _fields(file: IO[bytes]) -> dict[str, object]:
    """Return the single values before the lists of the tokenizer, which come last; skip other lists."""
    if file.read(4) != b"GGUF":
        raise EOFError("it does not begin with GGUF")
    version, _tensors, count = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in {2, 3} or count > _MOST_FIELDS:
        raise EOFError(f"version {version} with {count} fields is not known")
    fields: dict[str, object] = {}
    for _ in range(count):
        key = _string(file)
        kind = struct.unpack("<I", _exactly(file, 4))[0]
        if kind == _ARRAY:
            if key.startswith("tokenizer."):
                break
            _skip_list(file, key)
        elif kind == _STRING:
            fields[key] = _string(file)
        elif kind in _NUMBERS:
            form = "<" + _NUMBERS[kind]
            fields[key] = struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]
        else:
            raise EOFError(f"type {kind} of {key} is not known")
    return fields


def _skip_list(file: IO[bytes], key: str) -> None:
    kind, count = struct.unpack("<IQ", _exactly(file, 12))
    if kind not in {_STRING, *_NUMBERS} or count > _MOST_IN_LIST:
        raise EOFError(f"{key} is a list of {count} values of type {kind}")
    for _ in range(count):
        if kind == _STRING:
            _string(file)
        else:
            _exactly(file, struct.calcsize("<" + _NUMBERS[kind]))


def _string(file: IO[bytes]) -> str:
    length = struct.unpack("<Q", _exactly(file, 8))[0]
    if length > 1 << 20:
        raise EOFError(f"a string of {length} bytes")
    return _exactly(file, length).decode()


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError("it ends too early")
    return data
