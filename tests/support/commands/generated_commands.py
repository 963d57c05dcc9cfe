"""Random command lines around allowed programs, for tests of approval rules."""

from __future__ import annotations

from random import Random

__all__ = ["PROGRAMS", "command_lines"]

PROGRAMS = ("ls", "cat", "git", "evil", "rm")
"""Programs that the lines name. Rules allow the first two, and `git status`."""

_PIECES = [
    *(
        "a",
        "b",
        "-x",
        "status",
        "push",
        "*",
        "?",
        "[a]*",
        "~",
        "{}",
        "{a,b}",
        "=",
        "x=y",
        "#",
        "a#b",
        "!",
        "^",
        "%",
    ),
    *(
        "'a b'",
        "'#'",
        "';'",
        "'$(evil)'",
        "''",
        '"a b"',
        '";"',
        '"a\\"b"',
        '"\\\\"',
        '"\\a"',
        '""',
        "'\n'",
        '"\n"',
    ),
    *(
        "\\;",
        "\\ ",
        "\\'",
        '\\"',
        "\\a",
        "\\\\",
        "\\#",
        "$(evil)",
        "`evil`",
        "$HOME",
        "$'a'",
        "$'\\''",
        "${x:-evil}",
    ),
    *(
        "<(evil)",
        ">f",
        "2>&1",
        "<<<a",
        "\\\n",
        "\\",
        "'",
        '"',
        "é",
        "\u00a0",
        "\u2003",
        "\r",
        "@(a)",
        "+",
        ",",
        "]",
    ),
]
_JOINTS = [
    *(
        " ",
        " ",
        " ",
        "  ",
        "\t",
        "; ",
        ";",
        "\n",
        " && ",
        "&&",
        " || ",
        " | ",
        "|",
        " |& ",
        " & ",
        "&",
        "; ; ",
    ),
    *(
        " \\\n",
        "\\\n ",
        "\\\n",
        ";\\\n",
        " # ",
        " #",
        "\n\n",
        "; # x\n",
        " ; { ",
        " }; ",
        " ( ",
        " ) ",
        ";;",
        "\\\n;",
    ),
]


def command_lines(seed: int, count: int) -> list[str]:
    """Return different command lines, each of a few programs, words and separators. Most are plain."""
    random = Random(seed)
    lines: set[str] = set()
    while len(lines) < count:
        odd = random.random() < 0.5

        def word(odd: bool = odd) -> str:
            pieces = random.choices(_PIECES if odd else _PIECES[:20], k=random.choice([1, 1, 2]))
            return "".join(pieces)

        def part(odd: bool = odd) -> str:
            quoted = random.choice(["{}", "{}", "{}", "'{}'", '"{}"', "\\{}"]) if odd else "{}"
            return " ".join(
                [
                    quoted.format(random.choice(PROGRAMS[: 3 + odd])),
                    *(word() for _ in range(random.randrange(3))),
                ]
            )

        joints = _JOINTS if odd else _JOINTS[5:12]
        line = part()
        for _ in range(random.randrange(3)):
            line += random.choice(joints) + part()
        lines.add(line)
    return sorted(lines)
