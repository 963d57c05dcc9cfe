"""Draw the floors of each package from its imports, and write the drawing to docs/architecture.md."""

from __future__ import annotations

import re

from tests.lines import ROOT, Graph, python_imports, source_files

PAGE = ROOT / "docs" / "architecture.md"
HOUSES = ("agent", "libs", "libs.sandbox")
_DRAWING = re.compile(r"(?<=<!-- drawing -->\n```\n).*?(?=```\n)", re.DOTALL)


def main() -> None:
    PAGE.write_text(with_drawing(PAGE.read_text()))


def with_drawing(text: str) -> str:
    """Return the text with the drawing of the current imports."""
    graph = python_imports(source_files())
    drawing = "\n".join(_drawn(house, graph) for house in HOUSES)
    new, count = _DRAWING.subn(lambda _: drawing, text)
    if count != 1:
        raise ValueError("docs/architecture.md has no block of code under `<!-- drawing -->`")
    return new


def _drawn(house: str, graph: Graph) -> str:
    """Return one line for each floor of a package, the top floor first."""
    rooms = _rooms(house, graph)
    floors = {room: _floor(room, rooms) for room in rooms}
    lines = [f"{house}/"]
    for floor in range(max(floors.values()), -1, -1):
        names = (room.rpartition(".")[2] for room in sorted(rooms) if floors[room] == floor)
        lines.append(f"  {floor + 1}  {'  '.join(names)}")
    return "\n".join(lines) + "\n"


def _rooms(house: str, graph: Graph) -> Graph:
    """Return the modules and folders directly in a package, each with those that it imports."""

    def room(module: str) -> str:
        return ".".join(module.split(".")[: house.count(".") + 2])

    rooms: Graph = {}
    for module, imported in graph.items():
        if module.startswith(f"{house}."):
            there = {room(other) for other in imported if other.startswith(f"{house}.")}
            rooms.setdefault(room(module), set()).update(there - {room(module)})
    return rooms


def _floor(room: str, rooms: Graph) -> int:
    """Return the floor of a room, counted from 0. The imports must have no circle."""
    return max((_floor(below, rooms) + 1 for below in rooms[room]), default=0)


if __name__ == "__main__":
    main()
