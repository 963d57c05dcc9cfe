"""Whether a task needs code, where a reply has none: a guess, from the words of both."""

from __future__ import annotations

import re

__all__ = ["needs_code"]

_LONG_TASK = 200
"""Characters over which a task is taken for work."""

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


def needs_code(task: str, reply: str) -> bool:
    """Whether `reply`, given although nothing was run, answers a task that cannot be done without.

    So it is where the task speaks of files, figures or work, or the reply of something done or found. A
    greeting, or a question about the world answered in words, needs none.
    """
    return len(task) > _LONG_TASK or bool(_WORK.search(task)) or bool(_CLAIMS.search(reply))
