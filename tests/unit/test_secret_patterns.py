"""What looks like a secret in a command's output, and what does not (G6)."""

from __future__ import annotations

import base64
import json
import time

import pytest

from libs.gateway.secret_patterns import find_suspects

WORD = "R7kQ2mXz9LwP4vTnY6sBc1Jd8HfG3uEaWq5oR7kQ2mXz9LwP4vTnY6sBc1Jd8HfG3uEaWq5oR7kQ2mXz9LwP4v"


def token(*claims: str) -> str:
    parts = [json.dumps({claim: WORD}).encode() for claim in ("alg", *claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, WORD.encode()))


# In pieces, so that no scanner takes this file for a leak.
SECRETS = {
    "AWS Access Key": "AKIA" + "A4QTLRZ6UNX2VJBK",
    "Azure Storage Account access key": "AccountKey=" + WORD[:86] + "==",
    "Basic Auth Credentials": "https://me:" + WORD[:9] + "@host.test/repo",
    "Discord Bot Token": "M" + WORD[:23] + "." + WORD[:6] + "." + WORD[:27],
    "GitHub Token": "ghp_" + WORD[:36],
    "GitLab Token": "glpat-" + WORD[:20],
    "JSON Web Token": token("sub"),
    "Mailchimp Access Key": "0123456789abcdef0123456789abcdef" + "-us12",
    "NPM tokens": "//registry.test/:_authToken=" + "npm_" + WORD[:36],
    "OpenAI Token": "sk-" + WORD[:20] + "T3BlbkFJ" + WORD[:20],
    "Private Key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "PyPI Token": "pypi-" + "AgEIcHlwaS5vcmc" + WORD[:80],
    "SendGrid API Key": "SG." + WORD[:22] + "." + WORD[:43],
    "Slack Token": "xoxb-" + "2837465019-" + WORD[:24].lower(),
    "Square OAuth Secret": "sq0csp-" + WORD[:43],
    "Stripe Access Key": "sk_live_" + WORD[:24],
    "Telegram Bot Token": "1234567890:" + WORD[:35],
    "Twilio API Key": "SK" + "0123456789abcdef0123456789abcdef",
}

BENIGN = [
    "order_id,day,region,revenue\n1,2024-01-05,North,1200.50\n",
    "d41d8cd98f00b204e9800998ecf8427e  empty.txt",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "id = 123e4567-e89b-12d3-a456-426614174000",
    "password = input(); token = None; key: value",
    "connected to 93.184.216.34:443 and https://example.org/a?b=c",
    "OPENAI_API_KEY=sk-...",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'sk'",
    "card 4929 1234 5678 9013",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_is_found_where_it_stands(kind: str) -> None:
    secret = SECRETS[kind]
    [found] = find_suspects(f"first line\nsecond {secret} line\n")
    assert (found.kind, found.line) == (kind, 2)
    assert 8 <= found.column <= 8 + len(secret)
    assert secret[:8] not in found.sample


@pytest.mark.parametrize("text", BENIGN)
def test_ordinary_output_is_left_alone(text: str) -> None:
    assert find_suspects(text) == []


@pytest.mark.parametrize("at", [0, 900, 990, 999, 1_700, 49_900])
def test_one_is_found_anywhere_in_a_long_line(at: int) -> None:
    secret = SECRETS["GitHub Token"]
    text = f"{'x ' * 25_000}"
    [found] = find_suspects(f"{text[:at]} {secret} {text[at + len(secret) :]}")
    assert (found.line, found.column) == (1, at + 2)


def test_no_more_than_twenty_are_listed() -> None:
    assert len(find_suspects(f"{SECRETS['GitHub Token']}\n" * 1_000)) == 20


@pytest.mark.parametrize("text", ["sk-", "eyJ", "//a/:", "://a:", "aws key ", "a.", "-"])
def test_a_hostile_output_holds_nothing_up(text: str) -> None:
    begun = time.monotonic()
    find_suspects((text * 50_000)[:50_000])
    assert time.monotonic() - begun < 5
