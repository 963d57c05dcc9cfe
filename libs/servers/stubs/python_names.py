"""Turn names that a server chose into Python names. Two different names never become one."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable
from urllib.parse import quote

__all__ = ["BUILTINS", "RESERVED", "Names", "camel", "declaration", "python_name"]

_LONGEST = 60
"""Characters of a name. MCP allows 128 for a tool, which leaves no room for the rest of a line."""

_IMPORTED = {"Any", "Literal", "NotRequired", "Record", "TypedDict", "annotations", "dataclass"}
_TYPES = {"bool", "dict", "float", "int", "list", "str"}
RESERVED = frozenset({*keyword.kwlist, *_IMPORTED, *_TYPES, "mro", "self"})
"""Words that no function, argument or field is called. They end in an underscore instead.

`dataclass` takes the attribute `mro` of every class for the default of a field with that name.
"""

BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
"""Words that no function is called, because a caller imports it by name."""


def python_name(text: str, fallback: str = "server") -> str:
    """Return an ASCII identifier that resembles `text`: at most 60 characters, no leading underscore.

    Letters of other scripts become underscores, because they can look like Latin ones. A keyword gets an
    underscore at its end. `fallback` is the beginning of a name that would be empty or begin with a digit.
    """
    letters = unicodedata.normalize("NFKD", text[:_LONGEST])
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    name = re.sub(r"[^0-9A-Za-z_]+", "_", plain)[:_LONGEST].lstrip("_")
    if not name or name[0].isdigit():
        name = f"{fallback}_{name}".rstrip("_")
    return f"{name}_" if name in RESERVED else name


def camel(name: str) -> str:
    """Return the name of a class for an identifier: `read_graph` -> `ReadGraph`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))[:_LONGEST] or "Value"


def declaration(server: str, tool: str) -> str:
    """Return the line that code must contain in its first lines before it calls a tool that is not free.

    Characters other than ASCII letters, digits and `_.-~/` are percent-encoded (RFC 3986). So a name stays on
    its line, and two names that look alike are told apart.
    """
    return f"# uses: {quote(server, errors='surrogatepass')}.{quote(tool, errors='surrogatepass')}"


class Names:
    """The names of one scope."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """Return `wanted`, with a number at its end if the name is taken."""
        name = wanted
        while name in self._taken:
            self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            name = f"{wanted}_{self._numbers[wanted]}"
        self._taken.add(name)
        return name

    def take_all(self, texts: Iterable[str], fallback: str, avoided: Collection[str] = ()) -> list[str]:
        """Return the Python name of each text. The first text that is a Python name keeps it.

        Args:
            avoided: words that get an underscore, besides keywords.
        """
        cleaned = [(text, python_name(text, fallback)) for text in texts]
        wanted = [(text, f"{name}_" if name in avoided else name) for text, name in cleaned]
        order = sorted(range(len(wanted)), key=lambda at: (wanted[at][0] != wanted[at][1], wanted[at]))
        names = {at: self.take(wanted[at][1]) for at in order}
        return [names[at] for at in range(len(wanted))]
