"""Whether a question finds the example of its technique: `questions` has three or more for each.

They helped to choose the words of the examples, so what passes here is no measure. Before that, of all these
questions 89 in 100 were shown the example of their technique, 75 in 100 as the nearest.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from agent.worked_examples import nearest

QUESTIONS: dict[str, list[tuple[str, str]]] = {
    path.stem: [
        (question, name) for name, asked in yaml.safe_load(path.read_text()).items() for question in asked
    ]
    for path in sorted(Path(__file__).with_name("questions").glob("*.yaml"))
}
EVERY = [pair for pairs in QUESTIONS.values() for pair in pairs]
SHOWN = 4
"""How many examples a model is shown."""


def found(question: str, count: int) -> list[str]:
    return [example.name for example in nearest(question, count)]


def test_each_example_is_asked_for() -> None:
    assert {name for _, name in EVERY} == {example.name for example in nearest("", 10_000)}
    assert len({question for question, _ in EVERY}) == len(EVERY) > 700


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_is_shown_its_technique(kind: str) -> None:
    assert [pair for pair in QUESTIONS[kind] if pair[1] not in found(pair[0], SHOWN)] == []


def test_mostly_its_technique_comes_last() -> None:
    """Where it has the greatest weight."""
    nearest_is_right = sum(found(question, 1) == [name] for question, name in EVERY)
    assert nearest_is_right >= 0.8 * len(EVERY)


def test_it_takes_no_time() -> None:
    nearest("", 1)
    times = []
    for question, _ in EVERY[:50]:
        started = time.perf_counter()
        nearest(question, SHOWN)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.01, "some 2 ms, on a machine that does other things besides"
