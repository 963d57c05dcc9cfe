"""Whether a block without a language is code."""

from __future__ import annotations

import ast
import re
import warnings

__all__ = ["reads_like_code"]

_MOST_CODE = 5_000
"""Characters over which a text is not looked at as code."""

_COMMAND = re.compile(
    r"(?:\$ )?(?:cat|cd|cp|curl|echo|find|grep|head|ls|mkdir|mv|pip|python3?|rm|sed|sort|tail|touch|wc)"
    r"(?:$|[ \t].*[-./|>*$])",
    re.MULTILINE,
)
_CODE = (
    *(ast.Call, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef),
    *(ast.For, ast.While, ast.With),
)


def reads_like_code(text: str) -> bool:
    """Whether a block without a language is code: it begins as bash does, or is Python that does something.

    A table, a list or a figure that is part of an answer is neither.
    """
    if len(text) > _MOST_CODE:
        return False
    if _COMMAND.match(text.lstrip()):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Python thinks of the text
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, _CODE) for node in ast.walk(tree))
