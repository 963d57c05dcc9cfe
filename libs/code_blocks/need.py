"""Whether a task needs code where a reply has none, or has it without its language: guesses, from words."""

from __future__ import annotations

import ast
import re
import warnings

__all__ = ["needs_code", "reads_like_code"]

_LONG_TASK = 200
"""Characters over which a task is taken for work."""
_MOST_CODE = 5_000
"""Characters over which a text is not looked at as code."""

_WORK = re.compile(
    r"[\w/]/\w|\w\.[a-z][a-z\d]{1,4}\b|\b(?:analy[sz]e|average|calculate|charts?|columns?|compute|convert|count|csv|"
    r"data|datasets?|delete|directory|download|execute|files?|filter|folder|graph|how many|how much|json|"
    r"mean|median|merge|plot|program|rename|report|rows?|run|save|script|sort|split|sum|summari[sz]e|tables?|total)\b",
    re.IGNORECASE,
)
_CLAIMS = re.compile(
    r"\d{2}|/(?:workspace|data|results|scripts|tmp)\b|\b(?:analy[sz]ed|calculated|completed?|computed|counted|created|"
    r"done|executed|finished|generated|plotted|ran|saved|succeeded|success(?:ful|fully)?|updated|wrote|written)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"(?:\$ )?(?:cat|cd|cp|curl|echo|find|grep|head|ls|mkdir|mv|pip|python3?|rm|sed|sort|tail|touch|wc)"
    r"(?:$|[ \t].*[-./|>*$])",
    re.MULTILINE,
)
_CODE = (
    *(ast.Call, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef),
    *(ast.For, ast.While, ast.With),
)


def needs_code(task: str, reply: str) -> bool:
    """Whether `reply`, given although nothing was run, answers a task that cannot be done without.

    So it is where the task speaks of files, figures or work, or the reply of something done or found. A
    greeting, or a question about the world answered in words, needs none.
    """
    return len(task) > _LONG_TASK or bool(_WORK.search(task)) or bool(_CLAIMS.search(reply))


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
