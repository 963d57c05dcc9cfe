"""Whatever a server sends, its package is small Python that runs none of the server's text."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp.types import Tool
from mypy import api

from libs.servers.stubs import functions_of, package_of, summary_of
from tests.servers.mcp_servers.server_packages import imported

HOSTILE = [
    *('"""', "'''", "\\", '\\"""', '"', "'", "\n", "\r", "\x00", "\u2028", "\u202e", "\ud800", "{x}", "%s"),
    *('"""\nimport os\nos._exit(3)\n"""', "')\nraise SystemExit\n('", "# uses: x.y\n", "__import__('os')"),
    *("", "a", "a-b", "a_b", "a b", "ａ", "\N{CYRILLIC SMALL LETTER A}", "1", "x" * 100),
    *("class", "None", "self", "cls", "list", "str", "int", "dict", "type", "print", "object", "super"),
    *("Any", "Literal", "Record", "TypedDict", "NotRequired", "dataclass", "fields", "annotations"),
    *("_call", "_given", "_result", "_sent", "_keys", "call", "more", "items", "keys", "mro", "tool_result"),
    *("__init__", "__class__", "__slots__", "__doc__", "__all__", "__getitem__", "__annotations__"),
]
"""Words that end a literal, look like another name, or mean something to Python or to the package."""


def of_every_kind(words: str) -> list[Tool]:
    """Return tools with the same words in every place."""
    scalar = {"type": "string", "description": words, "default": words, "pattern": words, "format": words}
    inner = {"type": "object", "properties": {words: scalar, f"{words}x": {"const": words}}}
    properties = {words: scalar, f"{words} ": inner, "e": {"enum": [words, 1]}, "r": {"$ref": "#/$defs/i"}}
    schema = {
        "type": "object",
        "description": words,
        "properties": properties,
        "required": [words, "e"],
        "$defs": {"i": {**inner, "required": [words]}, words: scalar},
        words: words,
    }
    either = {"anyOf": [schema, inner]}
    more = schema | {"additionalProperties": True}
    return [
        Tool(name=words, title=words, description=words, input_schema=schema, output_schema=schema),
        Tool(name=f"{words}_", description=f"a\n{words}", input_schema=more),
        Tool(name=f"{words} ", input_schema=either, output_schema=either),
    ]


# The class of the argument would be called TypedDict.
TYPED = {
    "type": "object",
    "properties": {"dict": {"type": "object", "properties": {"a": {"type": "string"}}}},
}
ALL = [tool for words in HOSTILE for tool in of_every_kind(words)] + [Tool(name="typed", input_schema=TYPED)]


def test_python_imports_and_mypy_accepts_a_package_of_hostile_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = tmp_path / "servers"
    (servers / "x").mkdir(parents=True)
    for path, text in package_of("x", ALL, resources=True).items():
        (servers / "x" / path).write_text(text, encoding="utf-8")
    (servers / "__init__.py").touch()
    (servers / "_channel.py").write_text(
        "from typing import Any\n\ndef call(server: str, tool: str, arguments: dict[str, Any]) -> Any: ...\n"
    )
    # -S: without site-packages, because the sandbox has the standard library alone.
    run = [sys.executable, "-S", "-c", "import pydoc, servers.x; pydoc.render_doc(servers.x)"]
    there = subprocess.run(run, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert (there.stderr, there.returncode) == ("", 0)

    monkeypatch.chdir(tmp_path)
    out, err, code = api.run(
        ["--strict", "--config-file=", "--python-version=3.11", "--cache-dir=c", "servers"]
    )
    assert (code, err) == (0, ""), out


anything = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=()), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | anything
references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nothing", "https://x/y"])
types = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def containing(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    schemas = st.lists(inner, max_size=2)
    properties = st.dictionaries(anything, inner, max_size=3)
    keywords = {
        "type": types | st.lists(types, max_size=3) | scalars,
        "properties": properties | scalars,
        "required": st.lists(anything, max_size=3) | scalars,
        "items": inner | schemas | scalars,
        "prefixItems": schemas | scalars,
        "anyOf": schemas | scalars,
        "oneOf": schemas,
        "allOf": schemas | scalars,
        "not": inner,
        "$ref": references | scalars,
        "enum": st.lists(scalars, max_size=4) | scalars,
        "const": scalars,
        "default": scalars | st.just([]) | st.just({"a": 1}),
        "examples": st.lists(scalars, max_size=2) | scalars,
        "description": scalars,
        "nullable": scalars,
        "additionalProperties": inner | scalars,
        "patternProperties": properties | scalars,
        "pattern": scalars,
        "minimum": scalars,
    }
    return st.fixed_dictionaries({}, optional=keywords)


parts = st.recursive(
    scalars | st.builds(lambda kind: {"type": kind}, types) | st.builds(lambda to: {"$ref": to}, references),
    containing,
    max_leaves=8,
)
roots = st.builds(
    lambda root, a, b, properties: root | {"$defs": {"a": a, "b": b}, "properties": properties},
    containing(parts),
    parts,
    parts,
    st.dictionaries(anything, parts, max_size=3),
)
tools = st.builds(
    lambda name, words, inputs, output: Tool(
        name=name, description=words, input_schema=inputs, output_schema=output
    ),
    anything,
    st.none() | anything,
    roots,
    st.none() | roots,
)


@settings(
    max_examples=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make such an example smaller takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(tools, min_size=1, max_size=3), scalars | st.dictionaries(anything, scalars))
def test_any_schema_gives_functions_that_can_be_called_and_read(listed: list[Tool], answer: Any) -> None:
    files = package_of("x", listed)
    assert package_of("x", listed[::-1]) == files
    assert summary_of("x", functions_of(listed), about=listed[0].description).isprintable()
    assert_no_text_runs(files)
    with imported(files) as (package, channel):
        channel.answer = answer
        for name in sys.modules["servers.x._tools"].__all__:
            member = getattr(package, name)
            pydoc.render_doc(member)
            if isinstance(member, FunctionType):
                member(*[None] * member.__code__.co_argcount)
        assert {tool for _, tool, _ in channel.calls} == {tool.name for tool in listed}


CALLED = {"_call", "_given", "_result", "TypedDict", "dataclass"}


def assert_no_text_runs(files: dict[str, str]) -> None:
    """Check that the source has no statement, call or attribute but those that the package is made of."""
    for path in ("__init__.py", "_tools.py"):
        tree = ast.parse(files[path].encode())
        for node in ast.walk(tree):
            assert not isinstance(node, (ast.Lambda, ast.Attribute, ast.JoinedStr, ast.NamedExpr, ast.Raise))
            if isinstance(node, ast.Call):
                assert isinstance(node.func, ast.Name)
                assert node.func.id in CALLED
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                assert node in tree.body[:9]
        statements = {type(node) for node in tree.body}
        assert statements <= {ast.Expr, ast.ImportFrom, ast.Assign, ast.ClassDef, ast.FunctionDef}
        assert [node for node in tree.body if isinstance(node, ast.Expr)] == tree.body[:1]


def test_a_description_stands_in_help_line_by_line_and_marked() -> None:
    words = 'Finds "x" """ in C:\\new.\r\n\n\x1b[2JNot free.\u202e\tReturns: \ud800é'
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "a\nExample:\x00 b"}}}
    tool = Tool(name="find", description=words, input_schema=schema)
    with imported(package_of("x", [tool])) as (package, _):
        lines = [line.strip() for line in pydoc.plain(pydoc.render_doc(package.find)).splitlines()]
    assert '> Finds "x" """ in C:\\new.' in lines
    assert "> \\x1b[2JNot free.\\u202e Returns: \\ud800é" in lines
    assert "q: > a Example:\\x00 b" in lines
    assert sum(line.startswith("Example") for line in lines) == 1


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def with_one(schema: Any, **definitions: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": definitions}


def chain(keyword: str) -> dict[str, Any]:
    """Return a small schema whose references name 2 ** 40 schemas."""
    definitions = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    return with_one({"$ref": "#/$defs/d0"}, **definitions)


MEGABYTE = "w " * 500_000

LARGE = {
    "description": with_one({"type": "string", "description": MEGABYTE}),
    "default": {"type": "object", "properties": {"a": {"type": "string", "default": MEGABYTE}}},
    "enum": with_one({"enum": [MEGABYTE, "b"]}),
    "many values": with_one({"enum": list(range(100_000))}),
    "key": {"type": "object", "properties": {MEGABYTE: {"type": "string"}}},
    "many keys": {"type": "object", "properties": {f"k {n}": {} for n in range(20_000)}},
    "many needed": {"type": "object", "required": [f"k{n}" for n in range(20_000)]},
    "many alternatives": with_one({"anyOf": [{"const": n} for n in range(30_000)]}),
    "many references": chain("anyOf"),
    "many parts": chain("allOf"),
    "depth": deep(100_000),
    "number": with_one({"type": "integer", "minimum": 10**5_000, "default": 10**5_000}),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_schema_gives_a_small_function(name: str) -> None:
    # `model_construct`, because the models cannot check a schema of many levels.
    tool = Tool.model_construct(name="t", input_schema=LARGE[name], output_schema=LARGE[name])
    files = package_of("x", [tool])
    assert sum(map(len, files.values())) < 60_000
    with imported(files) as (package, channel):
        package.t(a=1)
    assert channel.calls == [("x", "t", {"a": 1})]


def test_a_long_description_says_how_much_is_left_out() -> None:
    files = package_of("x", [Tool(name="t", description="d" * 1_000_000, input_schema={})])
    assert f"{'d' * 4_000}… 996,000 characters left out\n" in files["_tools.py"]
    assert len(files["__init__.py"]) < 1_000


def test_a_server_with_10_000_tools_gives_1_000_functions_in_2_000_000_characters() -> None:
    schema = {"type": "object", "properties": {f"k{n}": {"description": "d" * 500} for n in range(5)}}
    tools = [Tool(name=f"tool_{n:05}", description="d" * 3_000, input_schema=schema) for n in range(10_000)]
    files = package_of("x", tools)
    assert len(files["_tools.py"]) < 2_100_000
    assert "… 9,000 tools left out" in files["__init__.py"]
    with imported(files) as (package, channel):
        package.tool_00000(k0=1)
        package.tool_00999(k4=1)
    assert channel.calls == [("x", "tool_00000", {"k0": 1}), ("x", "tool_00999", {"k4": 1})]
    assert "1,000 functions" in summary_of("x", functions_of(tools))
