"""Whether a task needs code, where a reply has none and nothing was run: told from words.

Words alone cannot settle it for every task. So there are three answers, and the one between asks the model.
"""

from __future__ import annotations

import re
from enum import IntEnum

__all__ = ["Need", "need_for_code", "speaks_of"]


class Need(IntEnum):
    """How much an answer in words alone is worth, where nothing was run."""

    NONE = 0
    """It is the answer: a greeting, thanks, an explanation."""
    PERHAPS = 1
    """It may be: the model is asked once, and what it then says is the answer."""
    SURE = 2
    """It is a guess, or a claim."""


_LONG_TASK = 200
"""Characters over which a task is taken for work."""

_WORK = re.compile(
    r"[\w/]/\w|\w\.[a-z][a-z\d]{1,4}\b|\b(?:analy[sz]e|average|calculate|charts?|columns?|compute|convert|count|csv|"
    r"data|datasets?|delete|directory|download|execute|files?|filter|folder|graph|json|list|"
    r"mean|median|merge|plot|program|rename|report|rows?|run|save|script|sort|split|sum|summari[sz]e|tables?|total|"
    r"workspace)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"/(?:workspace|data|results|scripts|tmp)\b")
_FIGURE = re.compile(r"\d[\d.,]*\d")
_CLAIMS = re.compile(
    r"\bsuccess(?:ful|fully)?\b|\A\W*(?:all )?(?:done|finished|completed?)\b|"
    r"\b(?:(?:I|we)(?:['’]ve| have)?|(?:has|have) been)(?: \w+ly| now| just)? "
    r"(?:added|analy[sz]ed|calculated|checked|cleaned|completed|computed|converted|counted|created|deleted|done|"
    r"executed|finished|fixed|found|generated|installed|looked|made|moved|plotted|ran|read|removed|renamed|saved|sorted|"
    r"summed|updated|written|wrote)\b",
    re.IGNORECASE,
)
"""What a reply says of itself. "Hamlet was written by Shakespeare" says nothing of that kind."""
_EXPLAIN = re.compile(
    r"\W*(?:please |can you |could you )?(?:"
    r"(?:explain|describe|define|tell me about) (?:how|what|why|an?|the (?:difference|concept|idea))\b|"
    r"what(?:['’]s| is| are| does| do)? (?:an?|the (?:difference|meaning|point|purpose) (?:of|between))\b|"
    r"how (?:do|does|can|would|should) (?:I|you|one|we|an?)\b|when should (?:I|one|we)\b|"
    r"why (?:is|are|do|does)\b|"
    r"(?:tell|write|make) (?:me |us )?an? (?:haiku|joke|limerick|poem|riddle|song|story)\b)",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"\W*(?:hello|hi|hey|good (?:morning|day|afternoon|evening|night)|thanks?|thank you|thx|cheers|great|"
    r"nice|perfect|cool|ok|okay|go|yes|no|sure|sorry|stop|bye|goodbye|see you|help|understood|"
    r"never mind|forget it|that is all|"
    r"how are you|who are you|what are you|what can you do|what do you do|are you (?:there|ready|an? \w+))"
    r"(?:[ ,]+(?:a lot|again|agent|all|everyone|for (?:that|this|the|your)|good|great|help|hello|job|much|"
    r"now|please|so|thanks?|thank you|then|there|today|very|well done|work|you))*\W*",
    re.IGNORECASE,
)
_THESE = re.compile(
    r"\b(?:best|biggest|fewest|first|highest|last|largest|latest|least|lowest|most|my|our|smallest|these|this|today|top|"
    r"worst)\b|\d",
    re.IGNORECASE,
)
"""What a question about something at hand has in it, and one for an explanation seldom."""
_NAMED = re.compile(
    r"^- (.+?): |"  # a column
    r"^(?:.*/)?([^/\n]+?)(?:\.\w+)* \([\d,]+ bytes\): |"  # a file
    r"its '([^'\n]+)': |[{,] ?([\w ]+): ",  # a key of what is nested
    re.MULTILINE,
)
_VALUE = re.compile(r"'([^'\n]{4,})'")
_OF_ALL_SORTS = set(
    re.findall(
        r"\w+",
        "amount code count data date day field file group hour item key kind label line list month name note "
        "number object other record row score size state status test text time title total type user value "
        "week word year",
    )
)
"""Names of columns that say nothing of what a table is about."""


def need_for_code(task: str, reply: str, *, about_data: bool = False, earlier: str | None = None) -> Need:
    """Whether `reply`, given although nothing was run, can be the answer to `task`.

    Args:
        task: what the person said last.
        reply: what the model said to it, in words.
        about_data: whether the task speaks of the files there are: see `speaks_of`.
        earlier: what was said before the task, where code ran for it: the answer may be known from that.
    """
    if _CLAIMS.search(reply):
        return Need.SURE
    known = earlier is not None and _figures(reply) <= _figures(earlier)
    if _PATH.search(reply) and not known:
        return Need.SURE
    task = task.strip()
    if _TALK.fullmatch(task):
        return Need.NONE
    long = len(task) > _LONG_TASK
    if not (about_data or long) and _EXPLAIN.match(task) and not _THESE.search(task):
        return Need.NONE
    work = about_data or long or bool(_WORK.search(task))
    return Need.SURE if work and not known else Need.PERHAPS


def speaks_of(task: str, listing: str) -> bool:
    """Whether a task names a file, a column or a value of the listing of /data."""
    named = {word for found in _NAMED.findall(listing) for word in _words(" ".join(found))}
    if not named.isdisjoint(_words(task)):
        return True
    return any(re.search(rf"\b{re.escape(value)}\b", task) for value in set(_VALUE.findall(listing)))


def _figures(text: str) -> set[str]:
    return {found.replace(",", "") for found in _FIGURE.findall(text)}


def _words(text: str) -> set[str]:
    """The words that tell what a text is about, in the singular."""
    words = re.findall(r"[^\W\d_]{3,}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))
    singular = (
        re.sub(r"(?:(?<=..)ies|(?<=[^su])s)$", lambda end: "y" * (len(end[0]) > 1), word.lower())
        for word in words
    )
    return set(singular) - _OF_ALL_SORTS
