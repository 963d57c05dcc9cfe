"""Read JSON Schemas as servers send them: any value may stand anywhere, and nothing raises but `TooLarge`."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from libs.servers.stubs.server_words import shown

__all__ = ["DEEPEST", "SchemaReader", "TooLarge", "items", "mapping", "types_of"]

DEEPEST = 20
"""Levels of a schema that are read. What is deeper can be anything."""
_MOST_STEPS = 20_000
"""Schemas read for one tool. References can make a small text name millions of them."""
_MOST_PROPERTIES = 500
_MERGED = {"allOf", "anyOf", "const", "enum", "items", "oneOf", "properties", "type"}
"""Keywords that say something beside `$ref`."""
_TELLING = {
    "object": {"properties", "additionalProperties", "patternProperties"},
    "array": {"items", "prefixItems"},
}
"""Type -> keywords that tell it where no type is given."""


class TooLarge(Exception):
    """The schema of a tool is too large to be written out."""


def mapping(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one if the value is none."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return an array, or an empty one if the value is none."""
    return value if isinstance(value, list) else []


def types_of(schema: dict[str, Any]) -> list[str]:
    """Return the JSON types that a flat schema allows. No type: anything."""
    named = schema.get("type")
    found = [each for each in (named if isinstance(named, list) else [named]) if isinstance(each, str)]
    for kind, keywords in _TELLING.items():
        if not found and not keywords.isdisjoint(schema):
            return [kind]
    return found


class SchemaReader:
    """Reads one schema document. References lead into the document alone."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0

    def origin(self, schema: Any) -> Any:
        """Follow references to the schema itself."""
        for _ in range(DEEPEST):
            self._step()
            if not isinstance(schema, dict) or "$ref" not in schema or not _MERGED.isdisjoint(schema):
                return schema
            schema = self._target(schema["$ref"])
        return True

    def flat(self, schema: Any, level: int = 0) -> dict[str, Any]:
        """Return a schema without `$ref` and `allOf`: their keywords are its own."""
        self._step()
        if not isinstance(schema, dict) or level > DEEPEST:
            return {}
        merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        parts = [self._target(schema["$ref"])] if "$ref" in schema else []
        for part in parts + items(schema.get("allOf")):
            for key, value in self.flat(part, level + 1).items():
                if key == "properties":
                    merged[key] = mapping(value) | mapping(merged.get(key))
                elif key == "required":
                    merged[key] = items(merged.get(key)) + items(value)
                else:
                    merged.setdefault(key, value)
        if len(mapping(merged.get("properties"))) > _MOST_PROPERTIES:
            raise TooLarge
        return merged

    def properties(self, schema: Any, level: int = 0) -> tuple[dict[str, Any], set[str]]:
        """Return the properties of an object, and the keys that it must have.

        Of alternatives (`anyOf`, `oneOf`), a property may be in each, and must be there if all require it.
        """
        flat = self.flat(schema, level)
        found = mapping(flat.get("properties"))
        required = {key for key in items(flat.get("required")) if isinstance(key, str)}
        branches = items(flat.get("anyOf")) or items(flat.get("oneOf"))
        if branches and level <= DEEPEST:
            read = [self.properties(branch, level + 1) for branch in branches]
            required |= set.intersection(*(needed for _, needed in read))
            keys = {key: None for others, _ in read for key in others if key not in found}
            alternatives = {key: [others[key] for others, _ in read if key in others] for key in keys}
            found = found | {
                key: each[0] if len(each) == 1 else {"anyOf": each} for key, each in alternatives.items()
            }
        found = found | {key: True for key in sorted(required) if key not in found}
        if len(found) > _MOST_PROPERTIES:
            raise TooLarge
        return found, required

    def sample(self, schema: Any, level: int = 0) -> Any:
        """Return a value that fits the schema, for an example. `...` stands for a value that is not known."""
        flat = self.flat(schema, level)
        known = [flat["const"]] if "const" in flat else items(flat.get("enum"))
        known = [*known, *([flat["default"]] if "default" in flat else []), *items(flat.get("examples"))]
        for value in known[:3]:
            if value is not None and shown(value) is not None:
                return value
        if level > 3:
            return ...
        branches = items(flat.get("anyOf")) or items(flat.get("oneOf"))
        if branches and "properties" not in flat:
            return self.sample(branches[0], level + 1)
        match types_of(flat)[:1]:
            case ["string"]:
                return "..."
            case ["integer" | "number"]:
                least = flat.get("minimum")
                return least if isinstance(least, int | float) and shown(least) else 1
            case ["boolean"]:
                return True
            case ["array"]:
                return [self.sample(flat.get("items"), level + 1)]
            case ["object"]:
                found, required = self.properties(flat, level)
                return {key: self.sample(each, level + 1) for key, each in found.items() if key in required}
        return ...

    def _target(self, reference: Any) -> Any:
        """Return what a JSON pointer (RFC 6901) names. Another document, or nothing there: anything."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        place = self._root
        for part in unquote(reference[1:]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict) and key in place:
                place = place[key]
            elif isinstance(place, list) and key.isdecimal() and len(key) < 6 and int(key) < len(place):
                place = place[int(key)]
            else:
                return True
        return place

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TooLarge
