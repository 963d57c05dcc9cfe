"""Small programs to write, run by the check on inputs of its own, and one figure to compute."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import figure, prints
from tests.eval.task import Task


def _nothing() -> Mapping[str, bytes]:
    return {}


TASKS = [
    Task(
        name="roman",
        text="Write a program /results/roman.py that takes a whole number from 1 to 3999 as its argument and prints it as a Roman numeral "
        "and nothing else. Try it out.",
        files=_nothing,
        check=prints(
            "roman.py",
            [
                (["1994"], "", "MCMXCIV"),
                (["3999"], "", "MMMCMXCIX"),
                (["448"], "", "CDXLVIII"),
                (["5"], "", "V"),
                (["9"], "", "IX"),
            ],
        ),
        reference="""
(RESULTS / "roman.py").write_text('''
import sys
number = int(sys.argv[1])
signs = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
         (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
text = ""
for value, sign in signs:
    text += sign * (number // value)
    number %= value
print(text)
''')
print("Done.")
""",
        wrong={
            "only adding": ('(900, "CM"), ', ""),
            "no 4": ('(4, "IV"), ', ""),
            "the wrong name": ('"roman.py")', '"numeral.py")'),
            "one number only": ("print(text)", 'print("MCMXCIV")'),
        },
    ),
    Task(
        name="word-count",
        text="Write a program /results/words.py that reads text from standard input and prints its three most frequent words, one a line, as "
        "`word count`. Words are runs of letters, in lower case; of equally frequent words the alphabetically first comes first.",
        files=_nothing,
        check=prints(
            "words.py",
            [
                ([], "The cat saw the dog. The dog, THE cat!\n", "the 4 cat 2 dog 2"),
                ([], "pear fig\nfig-pear apple;kiwi", "fig 2 pear 2 apple 1"),
            ],
        ),
        reference="""
(RESULTS / "words.py").write_text('''
import collections, re, sys
count = collections.Counter(re.findall(r"[^\\\\W\\\\d_]+", sys.stdin.read().lower()))
for word, times in sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))[:3]:
    print(word, times)
''')
""",
        wrong={
            "capitals kept": (".read().lower()", ".read()"),
            "ties as they come": ("(-pair[1], pair[0])", "-pair[1]"),
            "split at spaces": (
                're.findall(r"[^\\\\W\\\\d_]+", sys.stdin.read().lower())',
                "sys.stdin.read().lower().split()",
            ),
        },
    ),
    Task(
        name="brackets",
        text="Write a program /results/brackets.py: it reads one line from standard input and prints `balanced` if the brackets ()[]{} in it are "
        "properly nested, else `unbalanced`. Other characters do not matter.",
        files=_nothing,
        check=prints(
            "brackets.py",
            [
                ([], "f(a[1], {b: (2)})\n", "balanced"),
                ([], "([)]\n", "unbalanced"),
                ([], ")(\n", "unbalanced"),
                ([], "((x)\n", "unbalanced"),
                ([], "no brackets\n", "balanced"),
                ([], "x]\n", "unbalanced"),
            ],
        ),
        reference="""
(RESULTS / "brackets.py").write_text('''
open_ones, pairs = [], {")": "(", "]": "[", "}": "{"}
good = True
for sign in input():
    if sign in "([{":
        open_ones.append(sign)
    elif sign in pairs:
        good = good and bool(open_ones) and open_ones.pop() == pairs[sign]
print("balanced" if good and not open_ones else "unbalanced")
''')
""",
        wrong={
            "kinds mixed up": ("open_ones.pop() == pairs[sign]", "bool(open_ones.pop())"),
            "left open": ("good and not open_ones else", "good else"),
            "one word always": ('"balanced" if', '"unbalanced" if'),
        },
    ),
    Task(
        name="mirror-primes",
        text="Add up all primes below 30,000 that read backwards are a prime as well (13 counts, because 31 is prime; 11 counts; 19 does not count "
        "as 91 is not prime). What is the sum?",
        files=_nothing,
        check=figure(7_224_632),
        reference="""
limit = 100_000
sieve = bytearray([1]) * limit
sieve[0:2] = b"\\0\\0"
for number in range(2, 317):
    if sieve[number]:
        sieve[number * number :: number] = bytes(len(range(number * number, limit, number)))
print(sum(number for number in range(30_000) if sieve[number] and sieve[int(str(number)[::-1])]))
""",
        wrong={
            "all primes": (" and sieve[int(str(number)[::-1])]", ""),
            "palindromes only": ("sieve[int(str(number)[::-1])]", "str(number) == str(number)[::-1]"),
            "palindromes left out": (
                "if sieve[number] and",
                "if str(number) != str(number)[::-1] and sieve[number] and",
            ),
            "mirrored below the limit": (
                "sieve[int(str(number)[::-1])]))",
                "int(str(number)[::-1]) < 30_000 and sieve[int(str(number)[::-1])]))",
            ),
        },
    ),
]
