"""Write one function, with the classes of its arguments and of its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.servers.stubs.python_names import Names, camel, declaration
from libs.servers.stubs.schema_reading import SchemaReader, TooLarge, mapping
from libs.servers.stubs.schema_types import INDENT, Said, SchemaTypes
from libs.servers.stubs.server_functions import Function
from libs.servers.stubs.server_words import docstring, headline, quoted, shown

__all__ = ["FunctionSource", "Place", "typed_source", "untyped_source"]

_MOST_WORDS = 4_000
"""Characters of the description of a tool."""
_FEW_WORDS = 1_000
"""The same for a tool whose schema is not shown, so that a thousand of them stay small."""
_MOST_CHARS = 50_000
"""Characters of a function with its classes. A larger function takes any arguments."""
_MOST_INDEX = 100
"""Characters of the description in the list of functions."""
_LONGEST_EXAMPLE = 500
_LINE = 100


@dataclass(frozen=True)
class FunctionSource:
    """A function as source. `names` are the function's and those of its classes."""

    names: list[str]
    index: str
    """The function in one line."""
    text: str


@dataclass(frozen=True)
class Place:
    """Where a function stands: the server as it is called, its module, and the function's name there."""

    server: str
    module: str
    name: str


def typed_source(function: Function, place: Place, names: Names) -> FunctionSource:
    """Return the source of a function. A schema that is too large gives the untyped source.

    Args:
        names: the names of the package. The classes of the function take theirs there.
    """
    try:
        source = _typed(function, place, names)
    except TooLarge:
        return untyped_source(function, place)
    return source if len(source.text) <= _MOST_CHARS else untyped_source(function, place)


def untyped_source(function: Function, place: Place) -> FunctionSource:
    """Return a function that takes any arguments, for a schema that is too large to be written out."""
    note = "Args: those of the server's schema, by its own names. The schema is too large to be shown."
    lines = [
        f"def {place.name}(**arguments: Any) -> Any:",
        *_docstring(function, place, [note], f"{place.name}()", _FEW_WORDS),
        f"{INDENT}return {_call(function, place, 'arguments')}",
    ]
    return FunctionSource([place.name], _index(function, f"{place.name}(**arguments)"), _joined(lines))


def _typed(function: Function, place: Place, names: Names) -> FunctionSource:
    reader = SchemaReader(function.inputs)
    types = SchemaTypes(reader, names, "TypedDict")
    properties, required = reader.properties(function.inputs)
    labels = dict(zip(properties, Names({place.name}).take_all(properties, "argument"), strict=True))
    rest = _rest(reader, function.inputs, {place.name, *labels.values()})
    needed, chosen, described, sent, optional = [], [], [], [], []
    for key, schema in properties.items():
        label = labels[key]
        said = types.said(schema, camel(f"{place.name}_{label}"))
        entry = types.entry(label, schema, said, key if label != key else None)
        if key in required:
            needed.append(f"{label}: {said.annotation}")
            sent.append(f"{key!a}: {label}")
        else:
            annotation, default, note = _default(reader.flat(schema), said)
            chosen.append(f"{label}: {annotation} = {default}")
            optional.append(f"{key!a}: ({label}, {default})")
            entry = f"{entry or f'{label}:'} ({note})" if note else entry
        described += [f"{INDENT}{entry}"] if entry else []

    results = SchemaTypes(SchemaReader(function.output), names, "Record")
    wanted = camel(f"{place.name}_result")
    returned = "Any" if function.output is None else results.said(function.output, wanted).annotation

    sent += [f"**{rest}"] if rest else []
    arguments = f"{{{', '.join(sent)}}}"
    called = _call(function, place, "_sent" if optional else arguments)
    sample = {labels[key]: reader.sample(each) for key, each in properties.items() if key in required}
    example = ", ".join(f"{label}={_example(value)}" for label, value in sample.items())
    about = ["Args:", *described] if described else []
    fields = ", ".join(results.fields.get(returned, []))
    what = "what the server sends: it gives no schema" if returned == "Any" else returned
    lines = [
        *_signature(place.name, needed, chosen, rest, returned),
        *_docstring(
            function,
            place,
            [*about, f"Returns: {what}{f' ({fields})' if fields else ''}"],
            f"{place.name}({example if len(example) <= _LONGEST_EXAMPLE else '...'})",
        ),
        *([f"{INDENT}_sent = _given({arguments}, {{{', '.join(optional)}}})"] if optional else []),
        f"{INDENT}return {called if returned == 'Any' else f'_result({place.name}, {called})'}",
    ]
    classes = types.classes | results.classes
    index = f"{place.name}({', '.join(labels[key] for key in properties if key in required)})"
    texts = [_joined(each) for each in [*classes.values(), lines]]
    return FunctionSource([place.name, *classes], _index(function, index), "\n\n".join(texts))


def _signature(name: str, needed: list[str], chosen: list[str], rest: str, returned: str) -> list[str]:
    parameters = [*needed, *(["*", *chosen] if chosen else []), *([f"**{rest}: Any"] if rest else [])]
    line = f"def {name}({', '.join(parameters)}) -> {returned}:"
    if len(line) <= _LINE or not parameters:
        return [line]
    return [f"def {name}(", *(f"{INDENT}{each}," for each in parameters), f") -> {returned}:"]


def _docstring(
    function: Function, place: Place, about: list[str], example: str, most: int = _MOST_WORDS
) -> list[str]:
    declared = [] if function.free else [declaration(place.server, function.tool)]
    return docstring(
        [
            *(quoted(function.words, most) if function.words.strip() else [function.does]),
            "",
            *about,
            "Example (not free: the line `# uses:` comes first):" if declared else "Example:",
            *(f"{INDENT}{line}" for line in declared),
            f"{INDENT}from servers.{place.module} import {place.name}",
            f"{INDENT}print({example})",
        ],
        INDENT,
    )


def _call(function: Function, place: Place, arguments: str) -> str:
    if function.prompt is not None:
        arguments = f'{{"name": {function.prompt!a}, "arguments": {arguments}}}'
    return f"_call({place.server!a}, {function.tool!a}, {arguments})"


def _index(function: Function, call: str) -> str:
    return f"{'' if function.free else '* '}{call} {headline(function.words, _MOST_INDEX)}".rstrip()


def _rest(reader: SchemaReader, inputs: Any, taken: set[str]) -> str:
    """Return the name of the parameter for keys that the schema allows but does not name."""
    others = reader.flat(inputs).get("additionalProperties")
    return Names(taken).take("more") if others is True or mapping(others) else ""


def _default(flat: dict[str, Any], said: Said) -> tuple[str, str, str]:
    """Return the annotation of an optional argument, its default, and what to say about the default.

    An argument that equals its default is not sent, so the server's own default counts. None is the default
    of an argument without one, unless None is a value that the server can be sent.
    """
    value = flat.get("default")
    text = shown(value)
    if value is not None and text is not None and said.admits(value):
        return said.annotation, text, ""
    if "default" not in flat and said.admits(None):
        return said.annotation, "_OMIT", ""
    note = ""
    if value is not None:
        note = f"default {text or value}" if text or value in ([], {}) else "the server has a default"
    return said.annotation if said.admits(None) else f"{said.annotation} | None", "None", note


def _example(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!a}: {_example(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_example, value))}]"
    return "..." if value is ... else shown(value) or "..."


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
