"""What has to be read with care: columns typed in by people, JSON, logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task

FILMS = [
    f"{one} {two}"
    for two in ("Harbour", "Letters", "Sunday", "Garden", "Passenger", "Winter", "Brother", "Piano")
    for one in ("Borrowed", "Quiet", "Seven", "Paper", "Northern", "Crooked", "Second", "Velvet", "Lost")
]
BEST_COMEDY = "Crooked Sunday"


def _guests() -> Mapping[str, bytes]:
    draw = Draw(211)
    said = ["yes", "Yes", "YES", "y", "Y", " yes", "yes ", "no", "No", "no", "n", "maybe", ""]
    rows = [
        (f"Guest {number + 1}", draw.pick(said), draw.pick(["0", "1", "1", "2", "3", ""]))
        for number in range(130)
    ]
    return {"guests.csv": table("guest coming brings", rows)}


def _catches() -> Mapping[str, bytes]:
    draw = Draw(212)
    rows = []
    for number in range(190):
        hundreds = 2 + draw.below(38)
        weight = draw.pick(
            [
                *(f"{hundreds * 100 + draw.below(100)} g", f"{hundreds * 100 + draw.below(100)}g"),
                *(f"{hundreds / 10:.1f} kg", f"{hundreds / 10:.1f}kg"),
            ]
        )
        rows.append((number + 1, draw.pick(["Olav", "Brit", "Nils"]), draw.pick(["cod", "pollock"]), weight))
    return {"catches.csv": table("catch angler fish weight", rows)}


def _films() -> Mapping[str, bytes]:
    draw = Draw(213)
    films: list[dict[str, Any]] = []
    for number, title in enumerate(FILMS):
        genres = list(dict.fromkeys(draw.pick(["drama", "comedy", "crime", "family"]) for _ in range(2)))
        rating = None if draw.below(12) == 0 else (40 + draw.below(48)) / 10
        films.append({"title": title, "year": 1970 + number * 7 % 50, "genres": genres, "rating": rating})
    films[FILMS.index(BEST_COMEDY)] |= {"genres": ["crime", "comedy"], "rating": 9.1}
    films[FILMS.index("Paper Winter")] |= {"genres": ["drama"], "rating": 9.6}
    return {"films.json": json.dumps({"films": films}, indent=1).encode()}


def _chat() -> Mapping[str, bytes]:
    draw = Draw(214)
    messages: list[dict[str, Any]] = []
    now = datetime(2024, 5, 1, 8)
    for _ in range(260):
        now += timedelta(minutes=draw.below(300))
        by = draw.pick(["Ana", "Ana", "Ana", "Boris", "Carla", "Carla", "Deniz", "Deniz"])
        message: dict[str, Any] = {
            "from": by,
            "sent": now.isoformat(),
            "text": draw.pick(["Hi", "Ok", "Look"]),
        }
        reactions = {
            "heart": draw.below(3) + 1 if draw.below(9) < {"Carla": 8, "Deniz": 4}.get(by, 3) else 0,
            "laugh": draw.below(5 if by == "Deniz" else 3) + (by == "Deniz"),
            "thumb": draw.below(3),
        }
        given = {sign: times for sign, times in reactions.items() if times}
        if given and draw.below(5):
            message["reactions"] = given
        messages.append(message)
    messages[100] |= {"from": "Boris", "reactions": {"heart": 9}}
    return {"chat.json": json.dumps({"group": "Family", "messages": messages}).encode()}


def _backups() -> Mapping[str, bytes]:
    draw = Draw(215)
    lines = []
    for number in range(52):
        day = date(2024, 2, 19) + timedelta(days=number)
        for hour, computer in enumerate(("laptop", "desktop", "server"), 1):
            lines.append(f"{day} {hour:02}:00:{draw.below(60):02} {computer}: started")
            seconds = 100 + draw.below(900)
            done = f"{day} {hour:02}:{seconds // 60:02}:{seconds % 60:02} {computer}:"
            if draw.below(6):
                lines.append(f"{done} finished, {400 + draw.below(3000)} MB in {seconds} s")
            else:
                lines.append(f"{done} failed, {draw.pick(['disk full', 'no network'])}")
    return {"backup.log": "".join(f"{line}\n" for line in lines).encode()}


def _printer() -> Mapping[str, bytes]:
    draw = Draw(216)
    now = datetime(2024, 4, 2, 8)
    lines = []
    for job in range(240):
        now += timedelta(minutes=draw.below(60), seconds=draw.below(60))
        user = draw.pick(["maria", "maria", "maria", "tom", "tom", "yusuf", "greta"])
        pages = 1 + draw.below({"maria": 18, "tom": 14, "yusuf": 30, "greta": 9}[user])
        colour = "yes" if draw.below(10) < {"yusuf": 8, "tom": 4}.get(user, 2) else "no"
        lines.append(f"{now} job={1200 + job} user={user} pages={pages} colour={colour} paper=A4\n")
    lines[77] = lines[77].split(" job=")[0] + " job=1277 user=greta pages=90 colour=yes paper=A4\n"
    return {"printer.log": "".join(lines).encode()}


TASKS = [
    Task(
        name="party-guests",
        text="Whoever comes has a yes or y in the column coming of /data/guests.csv, with any capitals and spaces. How many guests come, and how many "
        "people are that with those they bring?",
        files=_guests,
        check=all_of(figure(70), figure(138)),
    ),
    Task(
        name="catch-weight",
        text="Some weights in /data/catches.csv are in g (850g), some in kg (1.4 kg). How many kg did Olav catch in all, to two decimals?",
        files=_catches,
        check=figure(120.82),
    ),
    Task(
        name="best-comedy",
        text="Which film of the genre comedy in /data/films.json has the best rating, and how many comedies are there? Some have no rating.",
        files=_films,
        check=all_of(
            first_named(BEST_COMEDY, *(title for title in FILMS if title != BEST_COMEDY)),
            figure(35),
        ),
    ),
    Task(
        name="chat-hearts",
        text="/data/chat.json is the export of a group chat. Whose messages got the most hearts altogether, and how many?",
        files=_chat,
        check=all_of(first_named("Carla", "Ana", "Boris", "Deniz"), figure(88)),
    ),
    Task(
        name="backups",
        text="/data/backup.log tells of the nightly backups of three computers. How many backups failed in March 2024, and how many MB were saved "
        "in that month in all?",
        files=_backups,
        check=all_of(figure(9), figure(176_002)),
    ),
    Task(
        name="colour-pages",
        text="According to /data/printer.log, who printed the most pages in colour, and how many were they?",
        files=_printer,
        check=all_of(first_named("yusuf", "maria", "tom", "greta"), figure(585)),
    ),
]
