"""EGRESS_CREDENTIALS: parsing, refused values, and the headers sent to a host with a credential."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.gateway.credentials import (
    CredentialRule,
    Credentials,
    is_placeholder,
    missing,
    parse_credentials,
    placeholder,
)
from libs.redaction import SecretFilter

TOKEN = "ghp_4f9XqT7bZuAb3dEfGh"
RULE = CredentialRule("api.github.com", "Authorization", "GITHUB_TOKEN", "Bearer {}")


def made(*rules: CredentialRule, **secrets: str) -> Credentials:
    secrets = {"GITHUB_TOKEN": TOKEN, **secrets}
    return Credentials(rules or [RULE], secrets, SecretFilter(secrets))


def entry(**values: Any) -> str:
    return json.dumps({"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN", **values}})


class TestReading:
    def test_several_hosts_and_formats_are_parsed(self) -> None:
        text = """{
            "API.Search.example.": {"header": "X-Subscription-Token", "secret": "SEARCH_KEY"},
            "bücher.example": {"header": "authorization", "secret": "_k2", "format": "token {}"},
            "[2001:DB8::1]": {"header": "AUTHORIZATION", "secret": "K"}
        }"""
        assert parse_credentials(text) == (
            CredentialRule("api.search.example", "X-Subscription-Token", "SEARCH_KEY", "{}"),
            CredentialRule("xn--bcher-kva.example", "authorization", "_k2", "token {}"),
            CredentialRule("2001:db8::1", "AUTHORIZATION", "K", "Bearer {}"),
        )
        assert parse_credentials("{}") == ()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "must be JSON such as {.*}, see character 1"),
            ("[" * 100_000, "must be JSON"),
            ("[]", "must be a JSON object such as"),
            ('{"api.github.com": "GITHUB_TOKEN"}', "api.github.com must have an object, such as"),
            ('{"*.github.com": {}}', "must be one host: a secret goes to no host that is not named"),
            ('{"https://api.github.com": {}}', "must name hosts, such as api.github.com: "),
            ('{"api.github.com:8443": {}}', "api.github.com:8443 must be a host without a port"),
            (entry(header=""), "api.github.com has no header"),
            (entry(secret=["A"]), "api.github.com has no secret, or one that is not text"),
            (entry(value="x"), "not one of header, secret, format"),
            (entry(header="X-Key\r\nHost"), "must be the name of a header"),
            (entry(header="Host"), "Host says how a message is sent"),
            (entry(secret="ghp-4f9XqT7bZuA"), "must be the name of a variable, such as GITHUB_TOKEN"),
            (entry(format="Bearer"), "format of api.github.com must hold {} once"),
            (entry(format="Bearer {}\r\nX: y"), "must hold {} once"),
            (entry()[:-1] + "," + entry()[1:].replace("api", "API"), "api.github.com is there twice"),
        ],
    )
    def test_invalid_text_is_refused_with_a_reason(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            parse_credentials(text)
        assert len(str(caught.value)) < 250

    @pytest.mark.parametrize(
        "text",
        [
            *(entry(secret=f"{TOKEN}-"), entry(header=f"Bearer {TOKEN}"), entry(format=TOKEN)),
            *(entry(**{TOKEN: "A"}), f'{{"api.github.com": "{TOKEN}"}}', f'"{TOKEN}"', TOKEN),
        ],
    )
    def test_error_never_repeats_a_misplaced_secret(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"\w") as caught:
            parse_credentials(text)
        assert TOKEN not in str(caught.value)


class TestSecrets:
    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("", "is not set: set"),
            ("sh-4rt", "shorter than 8"),
            ("two\nlines-of-it", "cannot stand in a header"),
            ("schlüssel-4f9XqT", "cannot stand in a header"),
            (placeholder("GITHUB_TOKEN"), "itself a placeholder"),
        ],
    )
    def test_unusable_secret_is_refused(self, value: str, why: str) -> None:
        said = missing(RULE, value) or ""
        assert said.startswith("EGRESS_CREDENTIALS names GITHUB_TOKEN for api.github.com, and it")
        assert why in said
        assert not value or value not in said
        with pytest.raises(ValueError, match=why):
            made(GITHUB_TOKEN=value)

    def test_secret_that_the_filter_does_not_know_is_refused(self) -> None:
        with pytest.raises(ValueError, match="GITHUB_TOKEN would not be taken out"):
            Credentials([RULE], {"GITHUB_TOKEN": TOKEN}, SecretFilter({"OTHER": "other-4f9XqT7b"}))

    def test_placeholder_differs_by_name_and_is_no_secret(self) -> None:
        value = placeholder("GITHUB_TOKEN")
        assert is_placeholder(value)
        assert not is_placeholder(TOKEN)
        assert len({placeholder(name) for name in ("A", "A_", "_A", "a")}) == 4
        assert value.isidentifier(), "looks the same in a URL, in JSON and in a header"
        assert made().redact(value) is value
        assert TOKEN not in repr(made())


class TestRequests:
    def test_credential_header_replaces_any_other_value(self) -> None:
        value = placeholder("GITHUB_TOKEN").encode()
        headers = [
            (b"Host", b"api.github.com"),
            (b"AUTHORIZATION", b"Bearer " + value),
            (b"X-Other", value),
            (b"Accept-encoding", b"gzip, br"),
            (b"authorization", b"Basic eDp5"),
            (b"Range", b"bytes=7-"),
            (b"If-Range", b'"x"'),
            (b"Accept", b"application/json"),
        ]
        assert made().sent("api.github.com", headers) == [
            (b"Host", b"api.github.com"),
            (b"X-Other", value),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"Authorization", f"Bearer {TOKEN}".encode()),
        ]

    def test_secret_is_sent_without_surrounding_blanks(self) -> None:
        rule = CredentialRule("a.example", "X-Key", "KEY", "key={};v=1")
        odd = "4f9{}XqT%s7b\\1Zu"
        assert made(rule, KEY=f" {odd}\t").sent("a.example", [])[-1] == (b"X-Key", f"key={odd};v=1".encode())
