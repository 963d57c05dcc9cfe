"""Say a JSON Schema as Python types: annotations, dataclasses for results, TypedDicts for arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from libs.servers.stubs.python_names import Names, camel
from libs.servers.stubs.schema_reading import DEEPEST, SchemaReader, items, mapping, types_of
from libs.servers.stubs.server_words import docstring, one_line, shown

__all__ = ["INDENT", "Said", "SchemaTypes"]

INDENT = "    "
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MOST_LITERALS = 50
_MOST_WORDS = 1_000
"""Characters of the description of an argument or field."""
_PLAIN = {"str", "int", "float", "bool", "None"}

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}",
    "format": "format {}",
    "contentEncoding": "encoded as {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}
"""Keyword -> the limit in words."""


@dataclass
class Said:
    """The type of a value, and what no type says."""

    members: dict[str, None] = field(default_factory=dict)
    """Members of the union, in order, each once."""
    literals: set[str] = field(default_factory=set)
    """Values of its `Literal` members, as Python writes them."""
    notes: list[str] = field(default_factory=list)

    @property
    def annotation(self) -> str:
        return "Any" if "Any" in self.members or not self.members else " | ".join(self.members)

    def admits(self, value: Any) -> bool:
        """Return whether mypy accepts a scalar as a value of this type."""
        name = "None" if value is None else type(value).__name__
        wider = name == "int" and "float" in self.members
        return self.annotation == "Any" or name in self.members or wider or shown(value) in self.literals

    def add(self, other: Said) -> None:
        self.members |= other.members or {"Any": None}
        self.literals |= other.literals
        self.notes += [note for note in other.notes if note not in self.notes]


class SchemaTypes:
    """Types of one schema, and the classes that they need.

    Args:
        kind: what the classes are. `Record`: dataclasses, which are read. `TypedDict`: objects to write.
    """

    def __init__(self, reader: SchemaReader, names: Names, kind: Literal["Record", "TypedDict"]) -> None:
        self._reader = reader
        self._names = names
        self._kind = kind
        self.classes: dict[str, list[str]] = {}
        """Name of each class -> its source."""
        self.fields: dict[str, list[str]] = {}
        """Name of each class -> its fields."""
        self._known: dict[int, tuple[Any, str]] = {}
        """Identity of a schema -> the schema, so that the identity stays its own, and its class."""
        self._open: set[int] = set()

    def said(self, schema: Any, name: str) -> Said:
        """Return the type of a schema. Classes in it get names that begin with `name`."""
        origin = self._reader.origin(schema)
        if origin is False:
            return Said({"Any": None}, notes=["the schema allows no value"])
        if known := self._known.get(id(origin)):
            return Said({known[1]: None})
        if id(origin) in self._open or len(self._open) > DEEPEST:
            return Said({"Any": None}, notes=["the schema is nested further"])
        self._open.add(id(origin))
        try:
            return self._union(origin, self._reader.flat(origin), name)
        finally:
            self._open.discard(id(origin))

    def entry(self, label: str, schema: Any, said: Said, key: str | None = None) -> str:
        """Return the line of a docstring for an argument or field: limits, then the server's words, if any.

        Args:
            key: the server's name, if it differs from the label.
        """
        flat = self._reader.flat(schema)
        notes = [f"key {one_line(repr(key), 200)}"] if key is not None else []
        for keyword, bound in _BOUNDS.items():
            limit = flat.get(keyword)
            if isinstance(limit, int | float | str) and not isinstance(limit, bool):
                notes.append(bound.format(one_line(shown(limit) or "a value that is too long", 200)))
        if flat.get("uniqueItems") is True:
            notes.append("each item once")
        words = flat.get("description")
        quote = [f"> {one_line(words, _MOST_WORDS)}"] if isinstance(words, str) and words.strip() else []
        told = " ".join(filter(None, ["; ".join([*notes, *said.notes]), *quote]))
        return f"{label}: {told}" if told else ""

    def _union(self, origin: Any, flat: dict[str, Any], name: str) -> Said:
        branches = items(flat.get("anyOf")) or items(flat.get("oneOf"))
        kinds = types_of(flat)
        said = Said()
        if "const" in flat or items(flat.get("enum")):
            said = _literal([flat["const"]] if "const" in flat else flat["enum"])
        elif branches and "properties" not in flat and kinds in ([], ["object"]):
            for number, branch in enumerate(branches, 1):
                said.add(self.said(branch, name if len(branches) == 1 else f"{name}{number}"))
        else:
            for kind in kinds:
                said.add(self._of_kind(kind, origin, flat, name))
        if flat.get("nullable") is True:
            said.add(Said({"None": None}))
        if "not" in flat or "if" in flat:
            said.notes.append("the schema has conditions that no type says")
        return said

    def _of_kind(self, kind: str, origin: Any, flat: dict[str, Any], name: str) -> Said:
        if kind == "array":
            firsts = flat.get("prefixItems", flat.get("items"))
            inner = Said()
            for number, each in enumerate(items(firsts), 1):
                inner.add(self.said(each, f"{name}{number}"))
            rest = flat.get("additionalItems" if isinstance(flat.get("items"), list) else "items")
            if isinstance(rest, dict) or not items(firsts):
                inner.add(self.said(True if rest is None else rest, name))
            by_place = ["the place of an item decides its type"] if items(firsts) else []
            return Said({f"list[{inner.annotation}]": None}, notes=by_place + inner.notes)
        if kind == "object":
            if mapping(flat.get("properties")):
                return Said({self._class(origin, flat, name): None})
            others = [flat.get("additionalProperties"), *mapping(flat.get("patternProperties")).values()]
            values = Said()
            for number, each in enumerate((other for other in others if isinstance(other, dict)), 1):
                values.add(self.said(each, f"{name}Value{number if number > 1 else ''}"))
            return Said({f"dict[str, {values.annotation}]": None}, notes=values.notes)
        return Said({_SCALARS.get(kind, "Any"): None})

    def _class(self, origin: Any, flat: dict[str, Any], wanted: str) -> str:
        name = self._names.take(wanted)
        self._known[id(origin)] = (origin, name)
        self.classes[name] = []  # before the classes of its fields
        properties, required = self._reader.properties(flat)
        labels = dict(zip(properties, Names().take_all(properties, "field"), strict=True))
        self.fields[name] = list(labels.values())
        types = {key: self.said(each, f"{wanted}{camel(labels[key])}") for key, each in properties.items()}
        if self._kind == "Record":
            described = [
                self.entry(label, properties[key], types[key], key if key != label else None)
                for key, label in labels.items()
            ]
            annotations = {labels[key]: _optional(said, key not in required) for key, said in types.items()}
            self.classes[name] = _record(
                name, annotations, described, {b: a for a, b in labels.items() if a != b}
            )
        else:
            described = [self.entry(key, properties[key], said) for key, said in types.items()]
            annotations = {
                key: said.annotation if key in required else f"NotRequired[{said.annotation}]"
                for key, said in types.items()
            }
            are_names = all(key == label for key, label in labels.items())
            self.classes[name] = _typed_dict(name, annotations, described, are_names)
        return name


def _record(name: str, annotations: dict[str, str], described: list[str], keys: dict[str, str]) -> list[str]:
    pairs = ", ".join(f"{label!r}: {key!a}" for label, key in keys.items())
    return [
        "@dataclass(eq=False)",
        f"class {name}(Record):",
        *_described("Fields:", described),
        *([f"{INDENT}_keys = {{{pairs}}}"] if keys else []),
        *(f"{INDENT}{label}: {said}" for label, said in annotations.items()),
    ]


def _typed_dict(name: str, annotations: dict[str, str], described: list[str], are_names: bool) -> list[str]:
    if not are_names:
        return [
            *(f"# {one_line(line, _MOST_WORDS)}" for line in described if line),
            f'{name} = TypedDict("{name}", {{',
            *(f"{INDENT}{key!a}: {said!a}," for key, said in annotations.items()),
            "})",
        ]
    return [
        f"class {name}(TypedDict):",
        *_described("Keys:", described),
        *(f"{INDENT}{key}: {said}" for key, said in annotations.items()),
    ]


def _described(title: str, described: list[str]) -> list[str]:
    lines = [f"{INDENT}{line}" for line in described if line]
    return [*docstring([title, *lines], INDENT), ""] if lines else []


def _optional(said: Said, may_be_absent: bool) -> str:
    parts = {**said.members, "None": None} if may_be_absent else said.members
    return said.annotation if said.annotation == "Any" else " | ".join(parts)


def _literal(values: list[Any]) -> Said:
    """Return the type of a list of values. Values that no `Literal` can hold are of their own type."""
    texts = [shown(value) for value in values[:_MOST_LITERALS]]
    if len(texts) == len(values) and all(texts) and not any(isinstance(value, float) for value in values):
        unique = dict.fromkeys(filter(None, texts))
        return Said({f"Literal[{', '.join(unique)}]": None}, set(unique))
    names = dict.fromkeys("None" if value is None else type(value).__name__ for value in values)
    members = dict.fromkeys(name if name in _PLAIN else "Any" for name in names)
    first = one_line(", ".join(filter(None, texts)), _MOST_WORDS)
    return Said(members, notes=[f"one of {len(values):,} values: {first}"])
