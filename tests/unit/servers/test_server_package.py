"""The package of a server calls the server's tools, and gives their results as Python values."""

from __future__ import annotations

import json
import pydoc
import random
from dataclasses import asdict
from typing import Any

import pytest
from mcp.types import Prompt, PromptArgument, Tool, ToolAnnotations
from syrupy.assertion import SnapshotAssertion

from libs.servers.stubs import METHODS, functions_of, is_free, package_of, summary_of
from tests.servers.mcp_servers.server_packages import imported

READS = ToolAnnotations(read_only_hint=True)
READS_HERE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
TEXT = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
EDIT = {
    "type": "object",
    "properties": {
        "oldText": {"type": "string", "description": "Text to search for - must match exactly"},
        "newText": {"type": "string", "description": "Text to replace with"},
    },
    "required": ["oldText", "newText"],
}

FILESYSTEM = [
    Tool(
        name="read_text_file",
        title="Read Text File",
        description=(
            "Read the complete contents of a file from the file system as text. Handles various text "
            "encodings and provides detailed error messages if the file cannot be read. Only works within "
            "allowed directories."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "tail": {
                    "type": "number",
                    "description": "If provided, returns only the last N lines of the file",
                },
                "head": {
                    "type": "number",
                    "description": "If provided, returns only the first N lines of the file",
                },
            },
            "required": ["path"],
            "$schema": "http://json-schema.org/draft-07/schema#",
        },
        output_schema=TEXT,
        annotations=READS,
    ),
    Tool(
        name="edit_file",
        title="Edit File",
        description=(
            "Make line-based edits to a text file. Each edit replaces exact line sequences with new content. "
            "Returns a git-style diff showing the changes made. Only works within allowed directories."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "edits": {"type": "array", "items": EDIT},
                "dryRun": {
                    "type": "boolean",
                    "default": False,
                    "description": "Preview changes using git-style diff format",
                },
            },
            "required": ["path", "edits"],
        },
        output_schema=TEXT,
        annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False, destructive_hint=True),
    ),
    Tool(
        name="list_directory_with_sizes",
        title="List Directory with Sizes",
        description="Get a detailed listing of all files and directories in a specified path.",
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "sortBy": {
                    "type": "string",
                    "enum": ["name", "size"],
                    "default": "name",
                    "description": "Sort entries by name or size",
                },
            },
            "required": ["path"],
        },
        output_schema=TEXT,
        annotations=READS,
    ),
    Tool(
        name="list_allowed_directories",
        title="List Allowed Directories",
        description="Returns the list of directories that this server is allowed to access.",
        input_schema={"type": "object", "properties": {}},
        annotations=READS_HERE,
    ),
]
"""Some tools of the reference server `filesystem`, with what it says about them."""

ENTITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the entity"},
        "entityType": {"type": "string"},
        "observations": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "related-to": {"$ref": "#/$defs/entity"},
    },
    "required": ["name", "entityType"],
}
GRAPH = {
    "type": "object",
    "properties": {
        "entities": {"type": "array", "items": {"$ref": "#/$defs/entity"}},
        "total": {"type": "integer"},
    },
    "required": ["entities"],
    "$defs": {"entity": ENTITY},
}


def test_package_of_the_filesystem_server(snapshot: SnapshotAssertion) -> None:
    files = package_of("filesystem", FILESYSTEM, free=["read_text_file"])
    assert files["__init__.py"] == snapshot(name="__init__.py")
    assert files["_tools.py"] == snapshot(name="_tools.py")


def test_texts_do_not_depend_on_the_order_of_the_lists() -> None:
    tools = [*FILESYSTEM, Tool(name="edit-file", input_schema={}), Tool(name="edit_file", input_schema=TEXT)]
    prompts = [Prompt(name="a"), Prompt(name="b", description="B"), Prompt(name="b")]
    first = package_of("x", tools, prompts=prompts, resources=True)
    for seed in range(5):
        random.Random(seed).shuffle(tools)
        random.Random(seed).shuffle(prompts)
        assert package_of("x", tools, prompts=prompts, resources=True) == first


def test_arguments_are_sent_by_the_names_of_the_server() -> None:
    schema = {
        "type": "object",
        "properties": {
            "from": {"type": "string"},
            "per-page": {"type": "integer", "default": 30},
            "draft": {"type": "boolean", "default": False},
            "assignee": {"type": ["string", "null"]},
            "labels": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["from"],
        "additionalProperties": {"type": "string"},
    }
    with imported(package_of("git-hub", [Tool(name="list issues", input_schema=schema)])) as (
        package,
        channel,
    ):
        package.list_issues("a")
        package.list_issues("a", per_page=30, draft=0, labels=None)
        package.list_issues(from_="a", per_page=5, draft=True, assignee=None, labels=[], other="o")
        with pytest.raises(TypeError):
            package.list_issues("a", 5)
        with pytest.raises(TypeError):
            package.list_issues()
    assert {call[:2] for call in channel.calls} == {("git-hub", "list issues")}
    assert [arguments for *_, arguments in channel.calls] == [
        {"from": "a"},
        {"from": "a", "draft": 0},
        {"from": "a", "per-page": 5, "draft": True, "assignee": None, "labels": [], "other": "o"},
    ]


def test_a_result_is_read_by_attribute_and_by_key() -> None:
    a = {
        "name": "A",
        "entityType": "t",
        "observations": ["o"],
        "related-to": {"name": "B", "entityType": "t"},
    }
    sent = {"entities": [a], "unknown": 1}
    tool = Tool(name="read_graph", input_schema={}, output_schema=GRAPH)
    with imported(package_of("memory", [tool])) as (package, channel):
        channel.answer = sent
        graph = package.read_graph()
        (entity,) = graph.entities
    assert (graph.total, graph["unknown"]) == (None, 1)
    assert (entity.name, entity.observations, entity.related_to.name) == ("A", ["o"], "B")
    assert (entity["entityType"], entity["related-to"]["name"], entity.related_to.observations) == (
        "t",
        "B",
        None,
    )
    assert json.loads(json.dumps(asdict(graph)))["entities"][0]["related_to"]["name"] == "B"
    assert "related_to=ReadGraphResultEntities(name='B'" in repr(graph)


@pytest.mark.parametrize(
    "sent",
    [None, 5, "text", [1], {}, {"entities": None}, {"entities": [5, {"name": 1}]}, {"entities": {"a": 1}}],
)
def test_a_result_that_does_not_fit_its_schema_stays_as_it_was_sent(sent: Any) -> None:
    tool = Tool(name="read_graph", input_schema={}, output_schema=GRAPH)
    with imported(package_of("memory", [tool])) as (package, channel):
        channel.answer = sent
        got = package.read_graph()
    if isinstance(sent, dict):
        assert got._sent is sent
        assert type(got.entities) is type(sent.get("entities"))
    else:
        assert got is sent


def test_an_object_becomes_the_alternative_that_it_fits() -> None:
    def shape(kind: str, field: str) -> dict[str, Any]:
        properties = {"kind": {"const": kind}, field: {"type": "number"}, "tags": {"type": "array"}}
        return {"type": "object", "properties": properties, "required": ["kind", field]}

    shapes = {"anyOf": [shape("circle", "radius"), shape("square", "side"), {"type": "null"}]}
    output = {
        "type": "object",
        "properties": {"shapes": {"type": "array", "items": shapes}},
        "required": ["shapes"],
    }
    with imported(package_of("x", [Tool(name="draw", input_schema={}, output_schema=output)])) as (
        package,
        channel,
    ):
        channel.answer = {"shapes": [{"kind": "square", "side": 2}, None, {"kind": "circle", "radius": 1}]}
        square, nothing, circle = package.draw().shapes
    assert (square.side, nothing, circle.radius) == (2, None, 1)


def test_prompts_and_resources_are_functions() -> None:
    language = PromptArgument(name="language", required=True, description="Of the code.")
    prompt = Prompt(name="code-review", arguments=[language, PromptArgument(name="focus")])
    tools = [Tool(name="resources", input_schema={}), *(Tool(name=name, input_schema={}) for name in METHODS)]
    with imported(package_of("x", tools, prompts=[prompt], resources=True)) as (package, channel):
        package.prompt_code_review("python")
        package.prompt_code_review("python", focus="speed")
        package.resources()
        package.read_resource("file:///a")
        package.resources_2()
        index = package.__doc__
    assert channel.calls == [
        ("x", "prompts/get", {"name": "code-review", "arguments": {"language": "python"}}),
        ("x", "prompts/get", {"name": "code-review", "arguments": {"language": "python", "focus": "speed"}}),
        ("x", "resources", {}),
        ("x", "resources/read", {"uri": "file:///a"}),
        ("x", "resources/list", {}),
    ]
    assert f"… {len(METHODS)} tools left out" in index


@pytest.mark.parametrize(
    ("hints", "free"),
    [
        (None, False),
        (READS, False),
        (ToolAnnotations(read_only_hint=True, open_world_hint=True), False),
        (ToolAnnotations(open_world_hint=False), False),
        (ToolAnnotations(read_only_hint=False, open_world_hint=False), False),
        (READS_HERE, True),
    ],
)
def test_free_is_what_only_reads_in_a_closed_world_or_is_listed(
    hints: ToolAnnotations | None, free: bool
) -> None:
    tool = Tool(name="fetch", input_schema={}, annotations=hints)
    assert is_free(tool) == free
    assert is_free(tool, ["fetch"])
    twice = [tool, Tool(name="fetch", input_schema={})]
    for tools, expected in (([tool], free), (twice, False)):
        with imported(package_of("web", tools)) as (package, _):
            assert ("# uses: web.fetch\n" in pydoc.render_doc(package.fetch)) is not expected
            assert ("\n* fetch(" in package.__doc__) is not expected


def test_line_in_the_prompt() -> None:
    line = summary_of("file-system", functions_of(FILESYSTEM), about="Reads\nand writes files. " + "x" * 100)
    assert line == (
        "- `servers.file_system`: 4 functions, 1 free (`/servers/file_system/__init__.py`) "
        f"> Reads and writes files. {'x' * 56}…"
    )
    assert (
        summary_of("x", functions_of(FILESYSTEM[:1], free=["read_text_file"]))
        == "- `servers.x`: 1 function, 1 free (`/servers/x/__init__.py`)"
    )
