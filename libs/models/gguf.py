"""What the head of a GGUF file says of its model (GGUF specification, versions 2 and 3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["GgufError", "ModelFile", "read_head"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_FIELDS = 10_000
_MOST_IN_LIST = 1_000_000


class GgufError(ValueError):
    """The file is no GGUF file that can be read; the message names it."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model in a GGUF file."""

    name: str
    architecture: str
    """Such as `qwen2` or `llama`."""
    context_tokens: int
    """Tokens the model was made for, question and answer together."""


def read_head(path: Path) -> ModelFile:
    """Read the head; the weights are not looked at.

    Raises:
        GgufError: it cannot be read, is no GGUF file, or does not say how much the model reads.
    """
    try:
        with path.open("rb") as file:
            return _model(_fields(file), path)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise GgufError(f"{path} cannot be read as a GGUF file: {error}") from error


def _model(fields: dict[str, object], path: Path) -> ModelFile:
    architecture = str(fields.get("general.architecture"))
    context = fields.get(f"{architecture}.context_length")
    if not isinstance(context, int):
        raise GgufError(f"{path} does not say how many tokens its model reads: it is no language model.")
    return ModelFile(str(fields.get("general.name", path.stem)), architecture, context)


def _fields(file: IO[bytes]) -> dict[str, object]:
    """The single values before the lists of the tokenizer, which come last; other lists are passed over."""
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
