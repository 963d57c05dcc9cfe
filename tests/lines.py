"""Print the size of the project: lines of each part, the fullest folders, and import circles."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".ts", ".tsx", ".css", ".js", ".sh", ".yaml"}
FULLEST = 5

Graph = dict[str, set[str]]
"""The imports of each module."""


def main() -> None:
    files = source_files()
    lines = Counter[str]()
    for file in files:
        lines[_part(file)] += (ROOT / file).read_bytes().count(b"\n")
    tests = {part: count for part, count in lines.items() if part.startswith("tests")}
    product = {part: count for part, count in lines.items() if part not in tests}
    for name, parts in (("product", product), ("tests", tests)):
        for part, count in sorted(parts.items()):
            print(f"{count:8,}  {part}")
        print(f"{sum(parts.values()):8,}  {name} in total\n")

    folders = Counter(str(file.parent) for file in files if file.parts[0] != "tests")
    print("Most files in a folder")
    for folder, count in folders.most_common(FULLEST):
        print(f"{count:8}  {folder}")

    for title, graph in (("Python", python_imports(files)), ("the page", _page_imports(files))):
        found = circles(graph)
        print(f"\nImport circles of {title}: {len(found)}")
        for circle in found:
            print(f"{len(circle):8}  {', '.join(circle)}")


def source_files() -> list[PurePosixPath]:
    """Return the source files that git tracks, without the built bundle of the page."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "agent", "libs", "skills", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [PurePosixPath(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [f for f in files if f.suffix in SUFFIXES and not f.is_relative_to("agent/ui/dist")]


def _part(file: PurePosixPath) -> str:
    """Return the part that a file belongs to, such as `agent/server` or `libs/sandbox`."""
    if file.is_relative_to("agent/ui/src"):
        return "page (agent/ui/src)"
    if file.parts[0] == "skills" or len(file.parts) == 2:
        return file.parts[0]
    return "/".join(file.parts[:2])


def python_imports(files: list[PurePosixPath]) -> Graph:
    """Read every import of agent and libs, also those inside functions and under TYPE_CHECKING."""
    modules: dict[str, PurePosixPath] = {}
    for file in files:
        if file.suffix == ".py" and file.parts[0] in {"agent", "libs"}:
            path = file.parent if file.name == "__init__.py" else file.with_suffix("")
            modules[".".join(path.parts)] = file
    graph: Graph = {}
    for module, file in modules.items():
        imported: set[str] = set()
        for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = node.module or ""
                if node.level:
                    parents = file.with_suffix("").parts[: -node.level]
                    source = ".".join([*parents, *source.split(".")]).rstrip(".")
                for alias in node.names:
                    name = f"{source}.{alias.name}"
                    imported.add(name if name in modules else source)
        graph[module] = imported & modules.keys()
    return graph


def _page_imports(files: list[PurePosixPath]) -> Graph:
    """Read the relative imports of the page's TypeScript."""
    sources = {str(file) for file in files if file.is_relative_to("agent/ui/src") and "ts" in file.suffix}
    graph: Graph = {}
    for source in sources:
        text = (ROOT / source).read_text()
        targets = re.findall(r"""(?:from|import)\s*\(?\s*["'](\.[^"']*)["']""", text)
        paths = [(ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT) for target in targets]
        graph[source] = {f"{path}{end}" for path in paths for end in (".ts", ".tsx", "/index.ts")} & sources
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that reach each other, largest first."""
    reached = {module: _reached(module, graph) for module in graph}
    groups = {
        frozenset(other for other in others if module in reached[other])
        for module, others in reached.items()
        if module in others
    }
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))


def _reached(start: str, graph: Graph) -> set[str]:
    """Return every module that `start` imports, directly or through others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


if __name__ == "__main__":
    main()
