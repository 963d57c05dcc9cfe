"""Output that looks like an unknown secret is flagged by rules of `detect-secrets`."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time
from collections.abc import Callable
from typing import Any

import pytest

from libs.redaction.unknown_secrets import find_unknown_secrets

RANDOM = random.Random(42)
WORD = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def some(length: int, alphabet: str = WORD) -> str:
    return "".join(RANDOM.choices(alphabet, k=length))


def part(value: Any) -> str:
    """A part of a JSON Web Token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token(claim_length: int) -> str:
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': some(claim_length)})}.{some(43)}"


# Made at run time, so that no secret of a real form stands in the repository.
EXAMPLES = [
    ("AWS Access Key", "AKIA" + some(16, UPPER)),
    ("AWS Access Key", f"aws_secret_access_key = '{some(40)}'"),
    ("Azure Storage Account access key", f"AccountKey={some(86)}=="),
    ("Discord Bot Token", f"M{some(23)}.{some(6)}.{some(27)}"),
    ("GitHub Token", "ghp_" + some(36)),
    ("GitLab Token", "glpat-" + some(20)),
    ("GitLab Token", "glcbt-" + some(30)),
    ("JSON Web Token", token(20)),
    ("JSON Web Token", token(1_000)),
    ("Mailchimp Access Key", some(32, HEX) + "-us12"),
    ("NPM tokens", "//registry.example.test/:_authToken=npm_" + some(36)),
    ("OpenAI Token", f"sk-{some(20)}T3BlbkFJ{some(20)}"),
    ("OpenAI Token", f"sk-proj-{some(74)}T3BlbkFJ{some(74)}"),
    ("Private Key", f"BEGIN RSA PRIVATE KEY-----\n{some(64)}\n-----END"),
    ("PyPI Token", "pypi-AgEIcHlwaS5vcmc" + some(140)),
    ("SendGrid API Key", f"SG.{some(22)}.{some(43)}"),
    ("Slack Token", f"xoxb-{some(12, string.digits)}-{some(12, string.digits)}-{some(24)}"),
    ("Slack Token", f"https://hooks.slack.com/services/T{some(9, UPPER)}/B{some(9, UPPER)}/{some(24)}"),
    ("Square OAuth Secret", "sq0csp-" + some(43)),
    ("Stripe Access Key", "sk_live_" + some(24)),
    ("Telegram Bot Token", f"7{some(9, string.digits)}:AA{some(33)}"),
]


@pytest.mark.parametrize(("kind", "secret"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_each_kind_is_found_and_its_sample_hides_the_secret(kind: str, secret: str) -> None:
    for before in ("", "x" * 390 + " ", "a,b,c\n" * 1_000 + "KEY="):
        [found] = find_unknown_secrets(f"{before}{secret}\nbye\n")
        column = len(before.rpartition("\n")[2]) + 1
        assert (found.kind, found.line, found.column) == (kind, before.count("\n") + 1, column)
        shown = re.fullmatch(r"(.{2,4})… \(\d+ characters\)", found.sample)
        assert shown is not None
        assert secret.startswith(shown[1])


def test_at_most_twenty_are_returned_in_the_order_of_the_text() -> None:
    found = find_unknown_secrets("\n".join(f"ghp_{some(36)} AKIA{some(16, UPPER)}" for _ in range(30)))
    assert [(each.line, each.kind) for each in found] == [
        (line, kind) for line in range(1, 11) for kind in ("GitHub Token", "AWS Access Key")
    ]
    [odd] = find_unknown_secrets(f"//\x1b]0;\u202e/:_authToken=npm_{some(36)}")
    assert odd.sample.startswith("//…")  # no control characters


def lines(count: int, make: Callable[[], str]) -> str:
    return "\n".join(make() for _ in range(count))


def hashed(length: int) -> str:
    return some(length, HEX)


BENIGN = {
    "csv": lines(5_000, lambda: f"{RANDOM.randint(1, 10**16)},{some(8)},{RANDOM.random()}"),
    "hashes": lines(2_000, lambda: f"sha256:{hashed(64)} {hashed(40)} {hashed(32)} key={hashed(40)}"),
    "time stamps before hashes": lines(
        5_000, lambda: f"17{some(8, string.digits)}:{hashed(RANDOM.choice([32, 40, 64]))}"
    ),
    "base64": base64.b64encode(RANDOM.randbytes(300_000)).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(RANDOM.randbytes(300_000)).decode(),
    "ids in capitals": lines(20_000, lambda: "01" + some(24, UPPER)),
    "DNA": lines(5_000, lambda: some(60, "ACGTN")),
    "a log": lines(3_000, lambda: f"2026-02-03 04:05:06 INFO 8.8.8.{some(1, '123')} password = {some(8)}"),
    "URLs": lines(2_000, lambda: f"https://example.test:8080/a/{some(20)}?x={some(30)}#me@{some(5)}.test"),
    "certificate": f"-----BEGIN CERTIFICATE-----\n{some(64)}\n-----END CERTIFICATE-----\nBEGIN PUBLIC KEY",
    "placeholders": f"ghp_{'x' * 36} glpat-{'0' * 20} AKIA{'X' * 16} sk-your-key [REDACTED] xoxb-token",
    "JSON in base64 that is not a token": f"{part({'page': 2})} {part({'page': 2})}.{some(6)}.{some(27)}",
}


@pytest.mark.parametrize("name", BENIGN)
def test_ordinary_output_is_not_flagged(name: str) -> None:
    assert find_unknown_secrets(BENIGN[name]) == []


NESTED = base64.urlsafe_b64encode(b'{"a":' + b"[" * 1_200).decode().rstrip("=")
HOSTILE = [
    *("//", "eyJ", "sk-" + "a" * 40, "aws key '", "xoxb-1-", "glagent-" + "a" * 1_023),
    f"{NESTED}.{NESTED}. ",
]


@pytest.mark.parametrize("repeated", HOSTILE, ids=lambda text: repr(text[:24]))
def test_hostile_output_is_searched_in_bounded_time(repeated: str) -> None:
    """200,000 characters take about a second; without windows some of these take minutes."""
    text = (repeated * (200_000 // len(repeated) + 1))[:200_000]
    began = time.process_time()
    assert len(find_unknown_secrets(text)) <= 20
    assert time.process_time() - began < 10
