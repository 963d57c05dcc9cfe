"""What has to be read with care: columns typed in by people, JSON, logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task

LANGUAGES = ["English", "French", "German", "Polish", "Arabic"]
"""Beside Spanish, which an answer names anyway."""
STOPS = [
    f"{one} {two}"
    for two in ("Bridge", "Square", "Hospital", "Market", "Gate", "Depot")
    for one in ("Abbey", "Canal", "Linden", "Quarry", "Victoria", "Weaver")
]
FARTHEST = "Linden Hospital"
ERRORS = {
    "ValueError": "could not read the amount",
    "KeyError": "'customer'",
    "TimeoutError": "no answer within 30 s",
    "PermissionError": "the folder is locked",
    "ZeroDivisionError": "division by zero",
}
"""Exception -> what it says."""


def _survey() -> Mapping[str, bytes]:
    draw = Draw(311)
    rows = []
    for number in range(230):
        age = str(16 + draw.below(66))
        odd = draw.pick(["", "unknown", "forty", "0", "7", "210", "-35", "1987", f" {age}", f"{age} "])
        written = odd if draw.below(4) == 0 else age
        rows.append((number + 1, draw.pick(["bus", "bus", "train", "car", "bicycle"]), written))
    return {"survey.csv": table("answer comes_by age", rows)}


def _volunteers() -> Mapping[str, bytes]:
    draw = Draw(312)
    rows = []
    for number in range(140):
        spoken = dict.fromkeys(
            draw.pick([*LANGUAGES, "Spanish", "Spanish", "French", "French", "English", "English"])
            for _ in range(1 + draw.below(4))
        )
        written = [draw.pick([name, name, name.lower(), name.upper()]) for name in spoken]
        rows.append((f"V{number + 1:03}", draw.pick([", ", ",", ";", "; "]).join(written)))
    return {"volunteers.csv": table("volunteer languages", rows)}


def _museum() -> Mapping[str, bytes]:
    draw = Draw(313)
    rooms = []
    number = 0
    for name in ("Bronze Age", "Glass", "Textiles", "Coins", "Ship Models", "Ceramics"):
        exhibits: list[dict[str, Any]] = []
        for _ in range(12 + draw.below(14)):
            number += 1
            exhibit: dict[str, Any] = {
                "id": f"E{number:03}",
                "century": 1 + draw.below(19),
                "lent_to": draw.pick([*[None] * 8, "Bergen", "Lyon", "Turin"]),
            }
            if draw.below(6):
                exhibit["insured_for"] = 500 * (1 + draw.below(120))
            exhibits.append(exhibit)
        rooms.append({"room": name, "exhibits": exhibits})
    return {"museum.json": json.dumps({"museum": "Town Museum", "rooms": rooms}, indent=1).encode()}


def _stops() -> Mapping[str, bytes]:
    draw = Draw(314)
    features = []
    for name in STOPS:
        kind = draw.pick(["tram", "tram", "bus"]) if name != FARTHEST else "tram"
        degrees = (9_400 + draw.below(600)) / 1000, (50_100 + draw.below(400)) / 1000
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": list(degrees)},
                "properties": {"name": name, "kind": kind, "shelter": draw.below(5) < 3},
            }
        )
    features[STOPS.index(FARTHEST)]["geometry"] = {"type": "Point", "coordinates": [9.512, 50.507]}
    north = features[STOPS.index("Canal Depot")]
    north |= {
        "geometry": {"type": "Point", "coordinates": [9.644, 50.522]},
        "properties": {"name": "Canal Depot", "kind": "bus", "shelter": True},
    }
    return {"stops.geojson": json.dumps({"type": "FeatureCollection", "features": features}).encode()}


def _mail() -> Mapping[str, bytes]:
    draw = Draw(315)
    now = datetime(2024, 6, 3, 6)
    lines = []
    for number in range(420):
        now += timedelta(seconds=20 + draw.below(400))
        domain = draw.pick(["firm.example", "firm.example", "firm.example", "news.example", "prize.example"])
        domain = draw.pick([domain, domain, "bank.example", "school.example"])
        who = draw.pick(["info", "office", "anna", "service", "j.kern"])
        bad = draw.below(10) < {"prize.example": 9, "news.example": 4}.get(domain, 2)
        text = f"from=<{who}@{domain}> to=<{draw.pick(['board', 'info', 'shop'])}@club.example>"
        if bad:
            text += f' reason="{draw.pick(["spam", "unknown user", "mailbox full"])}"'
        verb = "reject" if bad else "accept"
        lines.append(f"{now.isoformat()} mx{1 + draw.below(2)} smtpd[{2200 + number}]: {verb} {text}\n")
    return {"mail.log": "".join(lines).encode()}


def _worker() -> Mapping[str, bytes]:
    draw = Draw(316)
    now = datetime(2024, 8, 1, 22)
    lines = []
    for job in range(230):
        now += timedelta(seconds=5 + draw.below(240))
        what = draw.below(10)
        if what < 4:
            lines.append(f"{now} INFO job {job} done in {draw.below(50) + 2} s")
        elif what < 6:
            error = draw.pick([*["TimeoutError"] * 9, "KeyError"])
            lines.append(f"{now} WARNING job {job} tried again after a {error}")
        else:
            error = draw.pick([*ERRORS, "KeyError", "ValueError", "KeyError", "TimeoutError"])
            lines += [
                *(f"{now} ERROR job {job} failed", "Traceback (most recent call last):"),
                f'  File "/srv/worker/run.py", line {draw.pick([41, 57, 88])}, in run',
                *(
                    "    result = step(job)",
                    f'  File "/srv/worker/steps.py", line {20 + draw.below(90)}, in step',
                ),
                *("    return convert(job.payload)", f"{error}: {ERRORS[error]}"),
            ]
    return {"worker.log": "".join(f"{line}\n" for line in lines).encode()}


TASKS = [
    Task(
        name="bus-ages",
        text="People typed in their age in /data/survey.csv; whatever is not a whole number from 16 to 99 is "
        "a mistake and does not count. How many of the other people come by bus, and what is their average "
        "age to two decimals?",
        files=_survey,
        check=all_of(figure(71), figure(44.63)),
    ),
    Task(
        name="languages",
        text="The column languages of /data/volunteers.csv has commas or semicolons between the languages, "
        "and any capitals. How many of the volunteers speak Spanish, and which language do most of them "
        "speak?",
        files=_volunteers,
        check=all_of(
            figure(57),
            first_named("French", *(name for name in LANGUAGES if name != "French")),
        ),
    ),
    Task(
        name="museum-loans",
        text="/data/museum.json lists the rooms of a museum with their exhibits. How many exhibits are lent "
        "(their lent_to is not null), and what are these insured for in all? Some have no insurance.",
        files=_museum,
        check=all_of(figure(26), figure(790_000)),
    ),
    Task(
        name="tram-stops",
        text="How many of the tram stops in /data/stops.geojson have a shelter, and which of the tram stops "
        "lies farthest north?",
        files=_stops,
        check=all_of(figure(14), first_named(FARTHEST, *(name for name in STOPS if name != FARTHEST))),
    ),
    Task(
        name="rejected-mail",
        text="From which domain do most of the rejected messages in /data/mail.log come, and how many are "
        "they?",
        files=_mail,
        check=all_of(
            first_named(
                r"prize\.example",
                *(rf"{name}\.example" for name in ("firm", "news", "bank", "school", "club")),
            ),
            figure(46),
        ),
    ),
    Task(
        name="tracebacks",
        text="/data/worker.log has Python tracebacks between its other lines. With which exception do most "
        "of them end, and how many of them?",
        files=_worker,
        check=all_of(
            first_named("KeyError", *(name for name in ERRORS if name != "KeyError")),
            figure(31),
        ),
    ),
]
