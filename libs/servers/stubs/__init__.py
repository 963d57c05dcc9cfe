"""Write the Python package of an MCP server: one typed function for each tool.

Input: the lists that a server sends (tools, prompts). Output: the texts of the files in `/servers/<name>/`.
What a server sends is hostile: names become ASCII identifiers, other text stands only in literals and
docstrings, and sizes are bounded. The functions here do no I/O.

The package calls `call(server: str, tool: str, arguments: dict[str, Any]) -> Any` of `servers._channel`.
`tool` is the name of a tool, or one of `METHODS`.
"""

from libs.servers.stubs.python_names import declaration, python_name
from libs.servers.stubs.server_functions import METHODS, functions_of, is_free
from libs.servers.stubs.server_package import package_of, summary_of
from libs.servers.stubs.server_words import one_line

__all__ = [
    "METHODS",
    "declaration",
    "functions_of",
    "is_free",
    "one_line",
    "package_of",
    "python_name",
    "summary_of",
]
