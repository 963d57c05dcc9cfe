"""What has to be read with care: dirty columns, JSON, logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task


def _contacts() -> Mapping[str, bytes]:
    draw = Draw(107)
    rows = []
    for number in range(210):
        area, local = draw.pick(["20", "121", "161"]), f"{7946000 + min(draw.below(40), draw.below(60))}"
        phone = draw.pick(
            [
                *(
                    f"0{area}{local}",
                    f"0{area} {local[:3]} {local[3:]}",
                    f"(0{area}) {local[:3]}-{local[3:]}",
                ),
                *(f"+44 {area} {local}", f"0044{area}{local}", f"+44{area}.{local[:3]}.{local[3:]}"),
            ]
        )
        rows.append((f"C{number:03}", draw.pick(["", "unknown", "-"]) if draw.below(12) == 0 else phone))
    return {"contacts.csv": table("contact phone", rows)}


def _race() -> Mapping[str, bytes]:
    draw = Draw(108)
    rows = []
    for bib in range(1, 181):
        seconds = 2500 + draw.below(3600)
        minutes, hours = seconds // 60, seconds // 3600
        forms = [
            f"{hours}:{minutes % 60:02}:{seconds % 60:02}",
            f"{hours}h {minutes % 60:02}m {seconds % 60:02}s",
        ]
        if hours == 0:
            forms += [f"{minutes}:{seconds % 60:02}"] * 3
        rows.append((bib, draw.pick(["DNF", "DNS", "dnf", ""]) if draw.below(8) == 0 else draw.pick(forms)))
    return {"race.csv": table("bib time", rows)}


def _music() -> Mapping[str, bytes]:
    draw = Draw(109)
    artists = []
    for name in ("Vesper", "Kestrel Five", "Oda Lind", "Marrow", "The Quarry"):
        albums = []
        for album in range(2 + draw.below(3)):
            tracks: list[dict[str, Any]] = []
            for track in range(6 + draw.below(7)):
                own: dict[str, Any] = {"title": f"No. {track + 1}", "seconds": 110 + draw.below(260)}
                tags = [tag for tag in ("live", "remix", "liveliest") if draw.below(3) == 0]
                if tags or draw.below(2):
                    own["tags"] = tags
                if name == "Marrow" and "live" in tags:
                    own["seconds"] += 190
                tracks.append(own)
            albums.append({"year": 1998 + draw.below(25), "title": f"Volume {album + 1}", "tracks": tracks})
        artists.append({"artist": name, "albums": albums})
    return {"music.json": json.dumps({"library": artists}, indent=1).encode()}


def _hives() -> Mapping[str, bytes]:
    draw = Draw(110)
    begun = datetime(2024, 4, 1, 6)
    lines = []
    for number in range(260):
        hive = draw.pick(["alder", "birch", "cedar", "elder", "hazel"])
        hours = draw.below(24 * 80)
        gain = {"alder": 9, "birch": 14, "cedar": 17, "elder": 6, "hazel": 15}[hive]
        line: dict[str, Any] = {
            "hive": hive,
            "at": (begun + timedelta(hours=hours, minutes=number % 60)).isoformat(),
            "scale": {"weight_kg": round(30 + gain * hours / 1920 + draw.below(20) / 10, 1)},
        }
        flags = [flag for flag in ("night", "calibrating") if draw.below(5) == 0]
        if "calibrating" in flags:
            line["scale"]["weight_kg"] = round(draw.below(800) / 10, 1)
        if flags or draw.below(2):
            line["flags"] = flags or None
        lines.append(line)
    more = [
        *(("birch", -1, 2.5, "calibrating"), ("hazel", 1920, 71.0, "calibrating")),
        *(("cedar", -2, 33.3, "night"), ("cedar", 1921, 51.2, "night")),
    ]
    for number, (hive, hours, weight, flag) in enumerate(more):
        at = (begun + timedelta(hours=hours)).isoformat()
        lines.insert(20 * number, {"hive": hive, "at": at, "scale": {"weight_kg": weight}, "flags": [flag]})
    return {"hives.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()}


def _machines() -> Mapping[str, bytes]:
    draw = Draw(111)
    entries = []
    for machine in ("press-1", "press-2", "press-3", "saw-1", "oven-2"):
        now = datetime(2024, 2, 5, 5, draw.below(60), draw.below(60))
        for _ in range({"saw-1": 26, "press-2": 15}.get(machine, 11)):
            now += timedelta(minutes=60 + draw.below(500), seconds=draw.below(60))
            entries.append(
                (now, f"WARN {machine} state=STOPPED reason={draw.pick(['jam', 'no material', 'door'])}")
            )
            longest = {"saw-1": 20, "press-2": 150, "oven-2": 90}.get(machine, 60)
            if draw.below(3) == 0:
                entries.append((now + timedelta(seconds=3), f"INFO {machine} operator called"))
            now += timedelta(minutes=4 + draw.below(longest), seconds=draw.below(60))
            entries.append((now, f"INFO {machine} state=RUNNING"))
        if machine == "oven-2":
            entries.append((now + timedelta(minutes=40), "WARN oven-2 state=STOPPED reason=cleaning"))
            entries.append((now + timedelta(minutes=440, seconds=12), "INFO oven-2 state=RUNNING"))
    lines = [f"{at:%Y-%m-%d %H:%M:%S} {text}\n" for at, text in sorted(entries)]
    return {"plant.log": "".join(lines).encode()}


def _queries() -> Mapping[str, bytes]:
    draw = Draw(112)
    now = datetime(2024, 9, 3, 8)
    lines = []
    for _ in range(330):
        now += timedelta(seconds=draw.below(90))
        user = draw.pick(["anna", "bela", "cron", "cron", "dora"])
        if draw.below(9) == 0:
            lines.append(f"{now:%H:%M:%S} [{user}] ERROR: canceling statement after 5000 ms")
            continue
        slow = draw.below(10) < {"anna": 1, "bela": 5, "cron": 1, "dora": 2}[user]
        thousandths = 1000 + draw.below(6000) if slow else 3 + draw.below(900)
        written = f"{thousandths / 1000:.3f} s" if draw.below(2) else f"{thousandths}.0 ms"
        lines.append(
            f"{now:%H:%M:%S} [{user}] LOG: duration: {written}  statement: SELECT * FROM {draw.pick(['stock', 'orders'])}"
        )
        if draw.below(4) == 0:
            lines.append(f"        WHERE id > {1000 + draw.below(5000)}")
    return {"database.log": ("\n".join(lines) + "\n").encode()}


DIRTY = [
    Task(
        name="phone-numbers",
        text="The column phone of /data/contacts.csv was typed in by many people. How many different phone numbers are in it? Spaces, dots, "
        "hyphens and brackets make no difference, and +44 or 0044 at the begin stands for 0. And how many contacts have no number?",
        files=_contacts,
        check=all_of(figure(86), figure(17)),
        reference="""
numbers, without = set(), 0
for row in rows("contacts.csv"):
    digits = "".join(each for each in row["phone"] if each in "+0123456789")
    for prefix in ("+44", "0044"):
        if digits.startswith(prefix):
            digits = "0" + digits[len(prefix):]
    if digits:
        numbers.add(digits)
    else:
        without += 1
print(f"{len(numbers)} numbers, {without} contacts without one")
""",
        wrong={
            "as written": ('"".join(each for each in row["phone"] if each in "+0123456789")', 'row["phone"]'),
            "0044 kept": ('("+44", "0044")', '("+44",)'),
            "prefix dropped": ('"0" + digits', "digits"),
            "only empty ones": ("without += 1", 'without += row["phone"] == ""'),
        },
    ),
    Task(
        name="race-times",
        text="/data/race.csv has the times of a run, written as h:mm:ss, as mm:ss or as 1h 02m 03s; who did not finish has no time. How many "
        "finished, and what is their average time in minutes, to two decimals?",
        files=_race,
        check=all_of(figure(158), figure(69.68)),
        reference="""
import re
seconds = []
for row in rows("race.csv"):
    parts = [int(part) for part in re.findall(r"[0-9]+", row["time"])]
    if len(parts) == 2:
        parts = [0, *parts]
    if parts:
        seconds.append(parts[0] * 3600 + parts[1] * 60 + parts[2])
print(f"{len(seconds)} finished, on average in {sum(seconds) / len(seconds) / 60:.2f} minutes")
""",
        wrong={
            "mm:ss as h:mm": ("[0, *parts]", "[*parts, 0]"),
            "one form left out": ("if parts:", 'if parts and "h" not in row["time"]:'),
            "all who started": ("if parts:", "parts = parts or [0, 0, 0]\n    if True:"),
            "h:mm:ss only": ("if parts:", 'if row["time"].count(":") == 2:'),
        },
    ),
]

JSON = [
    Task(
        name="live-tracks",
        text="/data/music.json is a music library: artists, their albums, the tracks of each. Which artist has the longest playing time of tracks "
        "with the tag live, and how many seconds is it?",
        files=_music,
        check=all_of(first_named("Marrow", "Vesper", "Kestrel Five", "Oda Lind", "The Quarry"), figure(2883)),
        reference="""
total = {}
for artist in json.loads((DATA / "music.json").read_text())["library"]:
    for album in artist["albums"]:
        for track in album["tracks"]:
            if "live" in track.get("tags", []):
                total[artist["artist"]] = total.get(artist["artist"], 0) + track["seconds"]
best = max(total, key=total.get)
print(f"{best}: {total[best]:,} seconds")
""",
        wrong={
            "every track": ('if "live" in track.get("tags", [])', "if True"),
            "another tag too": ('"live" in track.get("tags", [])', '"live" in str(track.get("tags"))'),
            "the first album": ('artist["albums"]', 'artist["albums"][:1]'),
            "tracks counted": ('+ track["seconds"]', "+ 1"),
        },
    ),
    Task(
        name="hive-gain",
        text="Each line of /data/hives.jsonl is one weighing of a beehive. Leave out those with the flag calibrating. Which hive gained the most "
        "weight from its earliest weighing to its latest, and how many kg?",
        files=_hives,
        check=all_of(first_named("cedar", "alder", "birch", "elder", "hazel"), figure(17.9)),
        reference="""
seen = {}
for line in (DATA / "hives.jsonl").read_text().splitlines():
    one = json.loads(line)
    if "calibrating" in (one.get("flags") or []):
        continue
    seen.setdefault(one["hive"], []).append((one["at"], one["scale"]["weight_kg"]))
gain = {}
for hive, own in seen.items():
    own.sort()
    gain[hive] = own[-1][1] - own[0][1]
best = max(gain, key=gain.get)
print(f"{best} gained {gain[best]:.1f} kg")
""",
        wrong={
            "calibrations too": ('"calibrating" in', '"nothing" in'),
            "order of the file": ("own.sort()", "pass"),
            "lightest to heaviest": ("own.sort()", "own.sort(key=lambda each: each[1])"),
            "all that have flags": ('"calibrating" in (one.get("flags") or [])', 'one.get("flags")'),
        },
    ),
]

LOGS = [
    Task(
        name="stopped-machines",
        text="/data/plant.log says when the machines of a factory stopped and ran again. Which machine was stopped the longest in all, and for "
        "how many minutes, to two decimals?",
        files=_machines,
        check=all_of(first_named("press-2", "press-1", "press-3", "saw-1", "oven-2"), figure(1274.58)),
        reference="""
stopped, total = {}, {}
for line in (DATA / "plant.log").read_text().splitlines():
    day, time, level, machine, state = line.split()[:5]
    at = datetime.datetime.fromisoformat(f"{day} {time}")
    if state == "state=STOPPED":
        stopped[machine] = at
    elif state == "state=RUNNING":
        total[machine] = total.get(machine, 0) + (at - stopped[machine]).total_seconds()
best = max(total, key=total.get)
print(f"{best} was stopped for {total[best] / 60:,.2f} minutes")
""",
        wrong={
            "the longest stop": (
                "total.get(machine, 0) + (at - stopped[machine]).total_seconds()",
                "max(total.get(machine, 0), (at - stopped[machine]).total_seconds())",
            ),
            "stops counted": ("(at - stopped[machine]).total_seconds()", "60"),
            "times without days": ('f"{day} {time}"', 'f"2024-02-05 {time}"'),
            "until the next line": ('elif state == "state=RUNNING"', "elif machine in stopped"),
        },
    ),
    Task(
        name="slow-queries",
        text="How many statements in /data/database.log have a duration of more than one second, and which user ran the most of these?",
        files=_queries,
        check=all_of(figure(63), first_named("bela", "anna", "cron", "dora")),
        reference="""
import re
slow = {}
for user, time, unit in re.findall(r"\\[(\\w+)\\] LOG: duration: ([0-9.]+) (m?s)", (DATA / "database.log").read_text()):
    if float(time) > (1000 if unit == "ms" else 1):
        slow[user] = slow.get(user, 0) + 1
print(f"{sum(slow.values())} statements, most of them by {max(slow, key=slow.get)}")
""",
        wrong={
            "milliseconds only": ("(m?s)", "(ms)"),
            "units left out": ('(1000 if unit == "ms" else 1)', "1"),
            "all taken for milliseconds": ('(1000 if unit == "ms" else 1)', "1000"),
            "every statement": ('float(time) > (1000 if unit == "ms" else 1)', "True"),
        },
    ),
]
