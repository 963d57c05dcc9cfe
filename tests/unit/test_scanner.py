"""The scanner for secrets that nobody told us of: what it points at, and all that it is silent on (G6)."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway import cards, scanner
from libs.gateway.cards import KIND, luhn
from libs.gateway.scanner import RULES, scan

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus_secrets"
POSITIVE = yaml.safe_load((CORPUS / "positive.yaml").read_text())
BENIGN = (CORPUS / "benign.txt").read_text().split("\n---\n")

WORD = string.ascii_letters + string.digits
TOKEN = WORD + "_-"


def some(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def card(rng: random.Random, prefix: str, length: int) -> str:
    """A number with the right check digit, of enough different digits."""
    while True:
        digits = prefix + some(rng, string.digits, length - len(prefix) - 1)
        digits += next(last for last in string.digits if luhn(digits + last))
        if len(set(digits)) > 4:
            return digits


def grouped(digits: str, separator: str) -> str:
    sizes = {15: (4, 6, 5), 14: (4, 6, 4)}.get(len(digits), (4, 4, 4, 4, 3))
    parts, at = [], 0
    for size in sizes:
        parts.append(digits[at : at + size])
        at += size
    return separator.join(filter(None, parts))


def jwt(rng: random.Random) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    header = {"alg": rng.choice(["HS256", "RS256", "ES256", "none"]), "typ": "JWT", "kid": some(rng, WORD, 6)}
    return ".".join([part(header), part({"sub": some(rng, WORD, 9)}), some(rng, TOKEN, 43)])


def pem(rng: random.Random) -> str:
    name = rng.choice(["", "RSA ", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED "])
    body = "\n".join(some(rng, WORD + "+/", 64) for _ in range(4))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"


MADE: dict[str, list[Callable[[random.Random], str]]] = {
    "AWS access key": [
        lambda r: "AKIA" + some(r, string.ascii_uppercase + "234567", 16),
        lambda r: "ASIA" + some(r, string.ascii_uppercase + "234567", 16),
    ],
    "AWS secret key": [lambda r: "aws_secret_access_key=" + some(r, WORD + "+/", 40)],
    "GitHub token": [
        lambda r: r.choice(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]) + some(r, WORD, 36),
        lambda r: "github_pat_" + some(r, WORD, 22) + "_" + some(r, WORD, 59),
    ],
    "GitLab token": [lambda r: "glpat-" + some(r, TOKEN, 20)],
    "Slack token": [
        lambda r: f"xoxb-{some(r, string.digits, 12)}-{some(r, string.digits, 12)}-{some(r, WORD, 24)}",
        lambda r: (
            f"xapp-1-A{some(r, WORD, 10)}-{some(r, string.digits, 12)}-{some(r, '0123456789abcdef', 64)}"
        ),
    ],
    "Slack webhook": [
        lambda r: (
            "hooks.slack.com/services/"
            f"T{some(r, string.ascii_uppercase, 9)}/B{some(r, string.ascii_uppercase, 9)}/{some(r, WORD, 24)}"
        )
    ],
    "Stripe key": [lambda r: r.choice(["sk_live_", "rk_live_"]) + some(r, WORD, r.choice([24, 99]))],
    "Stripe webhook secret": [lambda r: "whsec_" + some(r, WORD, 32)],
    "OpenAI key": [
        lambda r: "sk-" + some(r, WORD, 20) + "T3BlbkFJ" + some(r, WORD, 20),
        lambda r: "sk-proj-" + some(r, TOKEN, 74) + "T3BlbkFJ" + some(r, TOKEN, 74),
    ],
    "Anthropic key": [lambda r: "sk-ant-" + r.choice(["api03-", "admin01-", "oat01-"]) + some(r, TOKEN, 95)],
    "Google API key": [lambda r: "AIza" + some(r, TOKEN, 35)],
    "Google client secret": [lambda r: "GOCSPX-" + some(r, TOKEN, 28)],
    "Google access token": [lambda r: "ya29." + some(r, TOKEN, 180)],
    "Hugging Face token": [lambda r: "hf_" + some(r, string.ascii_letters, 34)],
    "npm token": [lambda r: "npm_" + some(r, WORD, 36)],
    "PyPI token": [lambda r: "pypi-AgE" + some(r, TOKEN, 150)],
    "SendGrid key": [lambda r: f"SG.{some(r, TOKEN, 22)}.{some(r, TOKEN, 43)}"],
    "DigitalOcean token": [lambda r: "dop_v1_" + some(r, "0123456789abcdef", 64)],
    "Groq key": [lambda r: "gsk_" + some(r, WORD, 52)],
    "xAI key": [lambda r: "xai-" + some(r, WORD, 80)],
    "Perplexity key": [lambda r: "pplx-" + some(r, WORD, 48)],
    "Docker token": [lambda r: "dckr_pat_" + some(r, TOKEN, 27)],
    "Telegram bot token": [lambda r: f"{some(r, '123456789', 10)}:AA{some(r, TOKEN, 33)}"],
    "age secret key": [lambda r: "AGE-SECRET-KEY-1" + some(r, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)],
    "private key": [pem, lambda r: pem(r).replace("\n", "\\n")],
    "JSON Web Token": [jwt],
    KIND: [
        lambda r: grouped(
            card(r, r.choice(["4", "51", "55", "2221", "2720", "6011", "65", "3528", "62"]), 16), " "
        ),
        lambda r: grouped(card(r, r.choice(["34", "37"]), 15), "-"),
        lambda r: grouped(card(r, r.choice(["300", "36", "38"]), 14), " "),
    ],
}
"""How a secret of each kind is made."""


def kinds(text: str) -> list[str]:
    return [each.kind for each in scan(text)]


class TestWhatIsFound:
    def test_every_kind_has_an_example(self) -> None:
        assert set(MADE) == {rule.kind for rule in RULES} | {KIND}

    @pytest.mark.parametrize("around", POSITIVE["around"])
    @pytest.mark.parametrize("kind", MADE)
    def test_in_whatever_it_stands(self, kind: str, around: str) -> None:
        rng = random.Random(f"{kind} {around}")
        for make in MADE[kind] * 20:
            secret = make(rng)
            if scanner._STANDS_FOR_ONE.search(secret) or (kind == KIND and "/{}" in around):
                continue
            text = around.replace("{}", secret)
            [found] = scan(text)
            assert found.kind == kind
            assert found.line == text.count("\n", 0, text.index(secret.split("\n")[0])) + 1

    @pytest.mark.parametrize("case", POSITIVE["fixed"], ids=lambda case: case["kind"])
    def test_fixed(self, case: dict[str, Any]) -> None:
        assert kinds("".join(case["parts"])) == [case["kind"]]

    def test_the_place_and_a_sample_that_gives_nothing_away(self) -> None:
        rng = random.Random(7)
        token, number = "ghp_" + some(rng, WORD, 36), card(rng, "4", 16)
        first, second = scan(f"a\n  x={token}\nVisa {number}\n")
        assert (first.kind, first.line, first.column, first.sample) == (
            "GitHub token", 2, 5, "ghp_… (40 characters)",
        )  # fmt: skip
        assert (second.kind, second.line, second.column) == (KIND, 3, 6)
        assert second.sample == f"…{number[-4:]} (16 digits)"

    @pytest.mark.parametrize("kind", MADE)
    def test_no_sample_tells_more_than_four_characters_of_it(self, kind: str) -> None:
        rng = random.Random(kind)
        for make in MADE[kind]:
            secret = make(rng)
            for found in scan(secret):
                told = max((n for n in range(len(secret)) if secret[:n] in found.sample), default=0)
                public = re.match(r"-----BEGIN [A-Z ]*-----|[0-9]{8,10}:|[A-Za-z_.-]*", secret)
                assert public is not None
                assert told <= max(public.end(), 30 if "webhook" in kind or "private" in kind else 22)

    def test_cards_without_gaps_where_cards_are_spoken_of(self) -> None:
        rng = random.Random(3)
        for prefix, length in (("4", 16), ("53", 16), ("37", 15), ("36", 14), ("2400", 16), ("62", 19)):
            number = card(rng, prefix, length)
            assert kinds(f"card_number,amount\nrow,1\nrow {number},20\n") == [KIND]
            assert kinds(f"Credit card: {number} 12/27") == [KIND]
            assert kinds(f"order {number}") == []

    def test_one_wrong_digit_is_no_card(self) -> None:
        rng = random.Random(5)
        number = card(rng, "4", 16)
        for at in range(16):
            wrong = f"{number[:at]}{(int(number[at]) + 1) % 10}{number[at + 1 :]}"
            assert kinds(f"card {grouped(wrong, ' ')}") == []

    def test_no_more_than_twenty(self) -> None:
        rng = random.Random(1)
        assert len(scan("\n".join("ghp_" + some(rng, WORD, 36) for _ in range(100)))) == 20


def repository() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


RNG = random.Random(42)


def hexed(length: int) -> str:
    return some(RNG, "0123456789abcdef", length)


def ean(prefix: str) -> str:
    digits = prefix + some(RNG, string.digits, 12 - len(prefix))
    weighted = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits))
    return digits + str(-weighted % 10)


def iban() -> str:
    digits = some(RNG, string.digits, RNG.choice([14, 16, 18, 20, 22, 24]))
    whole = f"{some(RNG, string.ascii_uppercase, 2)}{some(RNG, string.digits, 2)}{digits}"
    return " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))


def number() -> str:
    return some(RNG, string.digits, RNG.choice([12, 14, 15, 16, 19]))


def lines(count: int, make: Callable[[], str]) -> str:
    return "\n".join(make() for _ in range(count))


MADE_BENIGN: dict[str, Callable[[], str]] = {
    "git hashes": lambda: lines(20_000, lambda: f"{hexed(40)} {hexed(7)}"),
    "hashes": lambda: lines(5_000, lambda: f"sha256:{hexed(64)} {hexed(32)} --hash=sha256:{hexed(64)} \\"),
    "uuids": lambda: lines(20_000, lambda: str(uuid.UUID(int=RNG.getrandbits(128), version=4))),
    "images": lambda: base64.b64encode(RNG.randbytes(2_000_000)).decode(),
    "images in lines": lambda: base64.encodebytes(RNG.randbytes(2_000_000)).decode(),
    "images for URLs": lambda: "x=" + base64.urlsafe_b64encode(RNG.randbytes(1_000_000)).decode(),
    "hexadecimal": lambda: lines(200, lambda: hexed(4_000)),
    "long numbers": lambda: "a,b,c\n"
    + lines(30_000, lambda: ",".join(number() for _ in range(3))),
    "timestamps": lambda: lines(20_000, lambda: f"17{some(RNG, string.digits, RNG.choice([8, 11, 14, 17]))}"),
    "decimals": lambda: lines(20_000, lambda: f"{RNG.uniform(-9, 9)} {RNG.uniform(2, 7) * 1e15}"),
    "phone numbers": lambda: lines(
        20_000,
        lambda: f"+{RNG.randint(1, 99)} {some(RNG, string.digits, 3)} {some(RNG, string.digits, 4)} "
        f"{some(RNG, string.digits, RNG.choice([3, 4]))}",
    ),
    "IBANs": lambda: lines(20_000, iban),
    "IBANs without gaps": lambda: lines(20_000, lambda: iban().replace(" ", "")),
    "goods": lambda: lines(20_000, lambda: f"{ean(RNG.choice(['978', '979', '400', '4', '5', '20']))}"),
    "ids of databases": lambda: lines(20_000, lambda: some(RNG, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26)),
    "snowflakes": lambda: lines(20_000, lambda: str(RNG.randint(10**17, 2 * 10**18))),
    "words": lambda: lines(20_000, lambda: "".join(some(RNG, string.ascii_lowercase + "_", 30))),
    "minified": lambda: ";".join(
        f"var {some(RNG, WORD, 2)}={RNG.getrandbits(30)},f=function(e){{return e.{hexed(4)}||0x{hexed(8)}}}"
        for _ in range(10_000)
    ),
}  # fmt: skip


class TestWhatItIsSilentOn:
    @pytest.mark.parametrize("text", BENIGN, ids=lambda text: text.split("\n")[0][:40])
    def test_what_is_written_about_secrets(self, text: str) -> None:
        assert scan(text) == []

    @pytest.mark.parametrize("name", repository())
    def test_this_repository(self, name: str) -> None:
        """Its source, tests, lock files, pictures and documentation."""
        content = (ROOT / name).read_bytes()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = base64.b64encode(content).decode()
        assert scan(text) == []

    @pytest.mark.parametrize("name", MADE_BENIGN)
    def test_what_merely_looks_random(self, name: str) -> None:
        assert scan(MADE_BENIGN[name]()) == []

    @given(st.text(max_size=400))
    def test_any_text_is_taken(self, text: str) -> None:
        scan(text)

    @given(
        st.lists(
            st.sampled_from(
                [a for rule in RULES for a in rule.anchors] + ["x" * 40, " ", "\n", ".", "9" * 16]
            )
        )
    )
    @settings(max_examples=300)
    def test_what_kinds_begin_with_is_not_yet_a_secret(self, parts: list[str]) -> None:
        assert scan(" ".join(parts)) == []


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for rule in RULES:
        yield rule.kind, rule.pattern
    for module in (scanner, cards):
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{module.__name__}.{name}", value
    for length, pattern in cards._GROUPS.items():
        yield f"groups of {length}", pattern


def repeats(tree: Any) -> Iterator[tuple[int, int, Any]]:
    """Every repetition in a pattern: least, most, and what is repeated."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield argument
        for part in argument if isinstance(argument, tuple) else (argument,):
            if isinstance(part, parser.SubPattern):
                yield from repeats(part)
            elif isinstance(part, list):
                for each in part:
                    if isinstance(each, parser.SubPattern):
                        yield from repeats(each)


class TestCost:
    @pytest.mark.parametrize(
        ("name", "pattern"), list(patterns()), ids=lambda value: value if isinstance(value, str) else ""
    )
    def test_no_pattern_can_go_wild(self, name: str, pattern: re.Pattern[str]) -> None:
        """Nothing is repeated without bound, and what is repeated holds no repetition: linear in the text."""
        for least, most, body in repeats(parser.parse(pattern.pattern, pattern.flags)):
            assert most is not codes.MAXREPEAT, "without bound"
            assert most <= 8000
            if most > 1:
                assert list(repeats(body)) == [], "nested"
                assert len(body) == 1
            assert least <= most

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
    def test_none_is_tried_inside_a_longer_word(self, rule: Any) -> None:
        """So that a long word is not searched again from each of its characters."""
        if rule.kind != "private key":  # which begins with hyphens, and has 50 characters at most
            assert rule.pattern.pattern.startswith("(?<!")

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
    def test_an_anchor_is_in_whatever_a_pattern_finds(self, rule: Any) -> None:
        rng = random.Random(rule.kind)
        for make in MADE[rule.kind]:
            secret = make(rng)
            if rule.pattern.search(secret):
                assert any(anchor in secret for anchor in rule.anchors)

    @pytest.mark.parametrize(
        "text",
        [
            "eyJ" * 300_000,
            "eyJzb21lIjoianNvbiJ9." * 40_000,
            "-----BEGIN RSA PRIVATE KEY-----" * 30_000,
            "-----BEGIN " + "A " * 400_000,
            "4 " * 400_000,
            "4929 " * 180_000,
            "4929" * 200_000,
            "sk-" + "a" * 900_000,
            ("sk-" + "a" * 90 + " ") * 9_000,
            "T3BlbkFJ" * 100_000,
            "aws_secret_access_key" + " " * 800_000,
            "xoxb-1-" * 120_000,
            " " * 1_000_000,
            "\n" * 1_000_000,
        ],
        ids=lambda text: text[:24],
    )
    def test_a_megabyte_of_the_worst(self, text: str) -> None:
        """Orders of magnitude below what a wild pattern takes, which never ends."""
        began = time.process_time()
        assert scan(text) == []
        assert time.process_time() - began < 20
