"""Check the floor plan of docs/architecture.md: file names, folder sizes and imports."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

from tests.floors import PAGE, with_drawing
from tests.lines import Graph, circles, python_imports, source_files

ROOT = Path(__file__).parents[3]

MOST_FILES = 16

APART = {
    "libs.gateway.gateway_thread": "starts a thread and imports asyncio's TLS; settings need the rules alone",
    "libs.gateway.program_stream": "imports HTTP, which only connections need",
    "libs.gateway.proxy": "imports the proxy's HTTP; settings need the rules alone",
    "libs.models.local_model": "imports the engine of local models",
    "libs.models.openvino_engine": "imports OpenVINO",
    "libs.models.weights": "used by commands that need no LangChain",
    "libs.persistence.lineage": "imports LangGraph",
    "libs.persistence.postgres_saver": "imports LangGraph's saver for Postgres",
    "libs.persistence.served_saver": "imports LangGraph",
    "libs.persistence.sqlite_saver": "imports LangGraph's saver for SQLite",
    "libs.redaction.unknown_secrets": "imports detect-secrets",
    "libs.exec_tool.execution_spans": "a namespace, of which tracing sets one name",
    "agent.prompts.code_prompt": "a namespace of texts",
    "agent.prompts.exec_prompt": "a namespace of texts",
    "libs.persistence.thread_database": "imports the databases",
    "libs.persistence.thread_memory": "imports the databases",
    "libs.persistence.thread_store": "imports the databases",
    "agent.parts.deep_file_tools": "imports deepagents",
    "agent.parts.deep_summaries": "imports deepagents",
    "agent.parts.exec_effects": "imports all of the one-tool agent",
    "agent.parts.exec_parts": "imports all of the one-tool agent",
    "agent.terminal.terminal_plots": "imports Pillow",
    "agent.terminal.typed_answers": "imports prompt_toolkit",
    "agent.threads.memory_store": "imports the databases",
    "agent.threads.snapshot_store": "imports the databases",
}
"""Modules that other parts import directly, each with the reason why its package does not export them."""

DOORS = {
    *(
        "agent",
        "agent.acp",
        "agent.chat",
        "agent.commands",
        "agent.commands.machine",
        "libs",
        "libs.middleware",
    ),
    *(
        "agent.server",
        "agent.server.durable",
        "agent.server.guards",
        "agent.server.mcp",
        "agent.server.routes",
        "agent.server.routes.files",
    ),
    *(
        "libs.sandbox.guest",
        "libs.sandbox.guest.files",
        "libs.sandbox.guest.interpreter",
        "libs.sandbox.guest.workers",
        "libs.sandbox.wire",
    ),
}
"""Packages that export nothing: folders of commands and routes, and the modules that run in the container."""


@cache
def graph() -> Graph:
    return python_imports(source_files())


@cache
def packages() -> set[str]:
    return {module for module in graph() if (ROOT / module.replace(".", "/")).is_dir()}


def package_of(module: str) -> str:
    return module if module in packages() else module.rpartition(".")[0]


def within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def test_folders_are_small_and_file_names_unique() -> None:
    files = source_files()
    folders = Counter(file.parent for file in files if not file.name.startswith("__"))
    assert {str(folder): count for folder, count in folders.items() if count > MOST_FILES} == {}
    # Stems in lower case: some file systems and bundlers take `Items.tsx` and `items.ts` for the same file.
    pages = Counter(file.stem.lower() for file in files if file.suffix in {".ts", ".tsx"})
    assert {name for name, count in pages.items() if count > 1} == set()
    names = Counter(file.name for file in files if file.suffix == ".py")
    several = {"__init__.py", "__main__.py", "conftest.py"}
    assert {name for name, count in names.items() if count > 1} - several == set()


def test_packages_have_no_import_circles() -> None:
    """Find circles of any length. Each module of the packages in `rooms` counts by itself."""
    rooms = {"agent", "libs.gateway", "libs.sandbox"}

    def node(module: str) -> str:
        package = package_of(module)
        return module if package in rooms and module not in packages() else package

    by_node: Graph = {}
    for module, imported in graph().items():
        by_node.setdefault(node(module), set()).update(map(node, imported))
    for name, imported in by_node.items():
        imported.discard(name)
    assert circles(by_node) == []


def test_parts_are_imported_through_their_package_and_each_exception_is_needed() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, imported in graph().items()
        for other in sorted(imported - packages())
        if not within(module, package_of(other)) and package_of(other) not in DOORS and other not in APART
    ]
    assert wrong == []
    used = {
        other
        for module, imported in graph().items()
        for other in imported
        if not within(module, package_of(other))
    }
    assert APART.keys() - used == set()


def test_packages_have_docstrings() -> None:
    for package in packages():
        doc = ast.get_docstring(ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_bytes()))
        assert doc is not None and len(doc) > 30, package


def test_drawing_matches_the_imports() -> None:
    """`python -m tests.floors` writes a new drawing."""
    assert with_drawing(PAGE.read_text()) == PAGE.read_text()
