"""Each form of JSON Schema becomes the Python type that says the same, or `Any`."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from mcp.types import Tool

from libs.servers.stubs import package_of

ISSUE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def written(inputs: dict[str, Any], output: dict[str, Any] | None = None) -> ast.Module:
    tool = Tool(name="t", input_schema=inputs, output_schema=output)
    return ast.parse(package_of("x", [tool])["_tools.py"])


def function(inputs: dict[str, Any], output: dict[str, Any] | None = None) -> ast.FunctionDef:
    return next(node for node in written(inputs, output).body if isinstance(node, ast.FunctionDef))


def classes(tree: ast.Module) -> dict[str, dict[str, str]]:
    """Return class -> field -> annotation."""
    return {
        node.name: {
            field.target.id: ast.unparse(field.annotation)
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        (True, "Any"),
        (False, "Any"),
        ({}, "Any"),
        ({"type": "string", "x-unknown": [1]}, "str"),
        ({"type": "number"}, "float"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": "teapot"}, "Any"),
        ({"type": 5}, "Any"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "integer"}]}, "int | str"),
        ({"oneOf": [{"type": "integer"}, {}]}, "Any"),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "x"}]}, "str"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "str"),
        ({"enum": ["a", "b'", 1, True, None]}, """Literal['a', "b'", 1, True, None]"""),
        ({"enum": [1.5, "a"]}, "float | str"),
        ({"enum": list(range(51))}, "int"),
        ({"enum": ["\ud800"]}, "str"),
        ({"enum": []}, "Any"),
        ({"const": "fixed"}, "Literal['fixed']"),
        ({"const": {"a": 1}}, "Any"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"items": {"type": ["string", "null"]}}, "list[str | None]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list[str | int]"),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": False}, "list[str]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "patternProperties": {"^a": {"type": "string"}}}, "dict[str, str]"),
        (ISSUE, "TX"),
        ({"anyOf": [ISSUE, {"type": "null"}]}, "TX1 | None"),
        ({"type": "array", "items": ISSUE}, "list[TX]"),
        ({"$ref": "#/$defs/issue"}, "TX"),
        ({"$ref": "#/$defs/issue", "description": "An issue."}, "TX"),
        ({"allOf": [{"$ref": "#/$defs/issue"}]}, "TX"),
        ({"$ref": "#/$defs/names/items/0"}, "bool"),
        ({"$ref": "#/$defs/a~1b%25"}, "int"),
        ({"$ref": "#/$defs/nothing"}, "Any"),
        ({"$ref": "https://example.org/schema"}, "Any"),
        ({"$ref": "#/$defs/itself"}, "Any"),
        ({"$ref": "#/$defs/json"}, "str | list[Any]"),
    ],
)
def test_type_of_an_argument(schema: Any, annotation: str) -> None:
    definitions = {
        "issue": ISSUE,
        "names": {"items": [{"type": "boolean"}]},
        "a/b%": {"type": "integer"},
        "itself": {"$ref": "#/$defs/itself"},
        "json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/json"}}]},
    }
    inputs = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": definitions}
    argument = function(inputs).args.args[0]
    assert argument.annotation is not None
    assert ast.unparse(argument.annotation) == annotation


@pytest.mark.parametrize(
    ("schema", "parameter"),
    [
        ({"type": "integer", "default": 30}, "x: int=30"),
        ({"type": "number", "default": 1}, "x: float=1"),
        ({"type": "boolean", "default": False}, "x: bool=False"),
        ({"enum": ["a", "b"], "default": "a"}, "x: Literal['a', 'b']='a'"),
        ({"enum": ["a", "b"], "default": "c"}, "x: Literal['a', 'b'] | None=None"),
        ({"type": "string", "default": 3}, "x: str | None=None"),
        ({"type": "string", "default": None}, "x: str | None=None"),
        ({"type": "array", "items": {"type": "string"}, "default": ["a"]}, "x: list[str] | None=None"),
        ({"type": "string"}, "x: str | None=None"),
        ({"type": ["string", "null"]}, "x: str | None=_OMIT"),
        ({"type": ["string", "null"], "default": None}, "x: str | None=None"),
        ({}, "x: Any=_OMIT"),
        ({"type": "number", "default": float("inf")}, "x: float | None=None"),
    ],
)
def test_default_of_an_optional_argument(schema: Any, parameter: str) -> None:
    arguments = function({"type": "object", "properties": {"x": schema}}).args
    assert (arguments.args, ast.unparse(arguments)) == ([], f"*, {parameter}")


def test_limits_stand_before_the_words_of_the_server() -> None:
    properties = {
        "page": {"type": "integer", "minimum": 1, "exclusiveMaximum": 1e3, "description": "Page\n of it."},
        "e-mail": {"type": "string", "maxLength": 5, "pattern": "^[^@]+$", "format": "email"},
        "tags": {"type": "array", "minItems": 1, "uniqueItems": True, "default": ["a"]},
        "free": {"type": "string", "minimum": None, "maxLength": True, "description": 5},
        "zone": {"enum": [f"z{n}" for n in range(51)]},
    }
    text = ast.get_docstring(function({"type": "object", "properties": properties}))
    assert text is not None
    assert text.partition("Args:\n")[2].partition("\nReturns")[0].splitlines() == [
        "    page: at least 1; less than 1000.0 > Page of it.",
        "    e_mail: key 'e-mail'; at most 5 characters; matches '^[^@]+$'; format 'email'",
        "    tags: at least 1 items; each item once (the server has a default)",
        f"    zone: one of 51 values: {', '.join(repr(f'z{n}') for n in range(50))}",
    ]


def test_arguments_of_alternatives_are_optional_unless_all_need_them() -> None:
    by_name = {
        "properties": {"kind": {"const": "name"}, "name": {"type": "string"}},
        "required": ["kind", "name"],
    }
    by_id = {"properties": {"kind": {"const": "id"}, "id": {"type": "integer"}}, "required": ["kind", "id"]}
    arguments = function({"type": "object", "oneOf": [by_name, by_id]}).args
    assert ast.unparse(arguments) == (
        "kind: Literal['name'] | Literal['id'], *, name: str | None=None, id: int | None=None"
    )


def test_an_open_schema_takes_more_arguments() -> None:
    closed = {"type": "object", "properties": {"more": {"type": "string"}}, "required": ["more"]}
    assert ast.unparse(function(closed).args) == "more: str"
    assert ast.unparse(function({**closed, "additionalProperties": True}).args) == "more: str, **more_2: Any"
    tool = Tool(name="more", input_schema={"additionalProperties": True})
    assert "def more(**more_2: Any)" in package_of("x", [tool])["_tools.py"]


def test_a_result_has_classes_that_may_hold_themselves() -> None:
    node = {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "list": {"type": "string"},
        },
        "required": ["value"],
    }
    output = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    assert classes(written({"type": "object"}, output)) == {
        "TResult": {"root": "TResultRoot | None"},
        "TResultRoot": {"value": "int", "children": "list[TResultRoot] | None", "list_": "str | None"},
    }


def test_an_object_argument_keeps_the_keys_of_the_server() -> None:
    issue = {"type": "object", "properties": {"id": {"type": "integer"}, "label": {"type": "string"}}}
    odd = {"type": "object", "properties": {"a-b": {"type": "integer"}}, "required": ["a-b"]}
    tree = written({"type": "object", "properties": {"issue": issue, "odd": odd}})
    assert classes(tree) == {"TIssue": {"id": "NotRequired[int]", "label": "NotRequired[str]"}}
    assert "TOdd = TypedDict('TOdd', {'a-b': 'int'})" in ast.unparse(tree)
