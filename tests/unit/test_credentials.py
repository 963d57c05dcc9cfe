"""EGRESS_CREDENTIALS: how it is read, what it refuses, and what leaves for a host that has one (G2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.gateway.credentials import (
    CredentialRule,
    Credentials,
    is_placeholder,
    missing,
    parse_credentials,
    placeholder,
)
from libs.gateway.redaction import SecretFilter

TOKEN = "ghp_4f9XqT7bZuAb3dEfGh"
RULE = CredentialRule("api.github.com", "Authorization", "GITHUB_TOKEN", "Bearer {}")


def made(*rules: CredentialRule, **secrets: str) -> Credentials:
    secrets = {"GITHUB_TOKEN": TOKEN, **secrets}
    return Credentials(rules or [RULE], secrets, SecretFilter(secrets))


def entry(**values: Any) -> str:
    return json.dumps({"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN", **values}})


class TestReading:
    def test_the_form_of_the_documentation(self) -> None:
        assert parse_credentials(entry()) == (RULE,)

    def test_more_than_one_and_their_formats(self) -> None:
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
            ("api.github.com", "must be JSON"),
            ('{"api.github.com": {', "must be JSON .*, see character 21"),
            ("[" * 100_000, "must be JSON"),
            ("[]", "must be a JSON object such as"),
            ('"x"', "must be a JSON object"),
            ('{"api.github.com": "GITHUB_TOKEN"}', "api.github.com must have an object, such as"),
            ('{"api.github.com": ["a"]}', "api.github.com must have an object"),
            ('{"*.github.com": {}}', "must be one host: a secret goes to no host that is not named"),
            ('{"https://api.github.com": {}}', "must name hosts, such as api.github.com: "),
            ('{"api.github.com/x": {}}', "must name hosts, such as api.github.com: "),
            ('{"api.github.com:8443": {}}', "api.github.com:8443 must be a host without a port"),
            ('{"0177.0.0.1": {}}', "must name hosts, such as api.github.com: "),
            ('{"": {}}', "must name hosts, such as api.github.com: "),
            ('{"a b": {}}', "must name hosts, such as api.github.com: "),
            (entry(header=""), "api.github.com has no header"),
            (entry(secret=""), "api.github.com has no secret"),
            ('{"api.github.com": {"header": "X-Key"}}', "api.github.com has no secret"),
            (entry(header=None), "api.github.com has no header, or one that is no text"),
            (entry(secret=["A"]), "api.github.com has no secret, or one that is no text"),
            (entry(value="x"), "none of header, secret, format"),
            (entry(header="X Key"), "must be the name of a header"),
            (entry(header="X-Key:"), "must be the name of a header"),
            (entry(header="X-Key\r\nHost"), "must be the name of a header"),
            (entry(header="Schlüssel"), "must be the name of a header"),
            (entry(header="Host"), "Host says how a message is sent"),
            (entry(header="content-Length"), "content-Length says how"),
            (entry(header="Transfer-Encoding"), "says how"),
            (entry(header="Proxy-Authorization"), "says how"),
            (entry(header="Accept-Encoding"), "says how"),
            (entry(secret="ghp-4f9XqT7bZuA"), "must be the name of a variable, such as GITHUB_TOKEN"),
            (entry(secret="1A"), "must be the name of a variable"),
            (entry(secret="A=B"), "must be the name of a variable"),
            (entry(format="Bearer"), "format of api.github.com must hold {} once"),
            (entry(format="{} {}"), "must hold {} once"),
            (entry(format=""), "must hold {} once"),
            (entry(format="Bearer {}\r\nX: y"), "must hold {} once"),
            (entry(format=" {}"), "must hold {} once"),
            (entry()[:-1] + "," + entry()[1:], "api.github.com is there twice"),
            (entry()[:-1] + "," + entry()[1:].replace("api", "API"), "api.github.com is there twice"),
            ('{"a.example": {"header": "A", "header": "B", "secret": "C"}}', "a.example has header twice"),
        ],
    )
    def test_what_is_wrong_is_said(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            parse_credentials(text)
        assert len(str(caught.value)) < 250

    @pytest.mark.parametrize(
        "text",
        [
            f'{{"api.github.com": {{"header": "Authorization", "secret": "{TOKEN}-"}}}}',
            f'{{"api.github.com": {{"header": "Bearer {TOKEN}", "secret": "A"}}}}',
            f'{{"api.github.com": {{"header": "Authorization", "{TOKEN}": "A"}}}}',
            f'{{"api.github.com": "{TOKEN}"}}',
            f'{{"api.github.com": {{"header": "Authorization", "secret": "A", "format": "{TOKEN}"}}}}',
            f'"{TOKEN}"',
            TOKEN,
        ],
    )
    def test_a_secret_in_the_wrong_place_is_not_repeated(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"\w") as caught:
            parse_credentials(text)
        assert TOKEN not in str(caught.value)

    @given(
        st.text(max_size=80) | st.recursive(st.text() | st.none(), lambda of: st.dictionaries(st.text(), of))
    )
    def test_whatever_stands_there_is_read_or_refused(self, value: object) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        try:
            assert all(isinstance(rule, CredentialRule) for rule in parse_credentials(text))
        except ValueError as error:
            assert str(error)


class TestSecrets:
    def test_one_that_is_not_set_is_named_with_what_to_do(self) -> None:
        why = missing(RULE, None)
        assert why is not None
        assert why.startswith(
            "EGRESS_CREDENTIALS names GITHUB_TOKEN for api.github.com, and it is not set: set"
        )
        assert missing(RULE, "") == why
        assert missing(RULE, TOKEN) is None

    def test_a_secret_in_the_place_of_a_name_is_not_repeated(self) -> None:
        why = missing(CredentialRule("api.github.com", "Authorization", TOKEN), None)
        assert why is not None
        assert TOKEN not in why

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("sh-4rt", "shorter than 8"),
            ("aaaaaaaaaaaa", "different"),
            ("two\nlines-of-it", "cannot stand in a header"),
            ("schlüssel-4f9XqT", "cannot stand in a header"),
            (placeholder("GITHUB_TOKEN"), "itself a placeholder"),
        ],
    )
    def test_one_that_cannot_be_used(self, value: str, why: str) -> None:
        said = missing(RULE, value)
        assert said is not None
        assert why in said
        assert value not in said
        with pytest.raises(ValueError, match=why):
            made(GITHUB_TOKEN=value)

    def test_one_that_would_be_let_through_in_answers(self) -> None:
        with pytest.raises(ValueError, match="GITHUB_TOKEN would not be taken out"):
            Credentials([RULE], {"GITHUB_TOKEN": TOKEN}, SecretFilter({"OTHER": "other-4f9XqT7b"}))

    def test_it_is_in_no_rendering(self) -> None:
        assert TOKEN not in repr(made())
        assert TOKEN not in str(vars(RULE) if hasattr(RULE, "__dict__") else RULE)

    def test_placeholders(self) -> None:
        shown = placeholder("GITHUB_TOKEN")
        assert shown == placeholder("GITHUB_TOKEN")
        assert is_placeholder(shown)
        assert not is_placeholder(TOKEN)
        assert min(len(placeholder(name)) for name in ("A", "A_", "GITHUB_TOKEN")) >= 20
        assert len({placeholder(name) for name in ("A", "A_", "_A", "a")}) == 4
        assert shown.isidentifier(), "looks the same wherever it stands"
        assert made().redact(shown) is shown


class TestRequests:
    def test_which_hosts(self) -> None:
        credentials = made()
        assert credentials.hosts == {"api.github.com"}
        assert "api.github.com" in credentials
        assert "github.com" not in credentials
        assert "x.api.github.com" not in credentials
        assert credentials
        assert not Credentials([], {}, SecretFilter({}))

    def test_the_header_is_set_and_the_rest_left(self) -> None:
        shown = placeholder("GITHUB_TOKEN").encode()
        headers = [
            (b"Host", b"api.github.com"),
            (b"AUTHORIZATION", b"Bearer " + shown),
            (b"X-Other", shown),
            (b"Accept-encoding", b"gzip, br"),
            (b"authorization", b"Basic eDp5"),
            (b"Range", b"bytes=7-"),
            (b"If-Range", b'"x"'),
            (b"Accept", b"application/json"),
        ]
        assert made().sent("api.github.com", headers) == [
            (b"Host", b"api.github.com"),
            (b"X-Other", shown),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"Authorization", f"Bearer {TOKEN}".encode()),
        ]

    def test_a_host_without_one(self) -> None:
        with pytest.raises(KeyError):
            made().sent("github.com", [])

    def test_spaces_around_a_value_are_not_sent(self) -> None:
        assert (b"Authorization", f"Bearer {TOKEN}".encode()) in made(GITHUB_TOKEN=f" {TOKEN}\t").sent(
            "api.github.com", []
        )

    def test_a_format_holds_the_secret_as_it_is(self) -> None:
        odd = "4f9{}XqT%s7b\\1Zu"
        rule = CredentialRule("a.example", "X-Key", "KEY", "key={};v=1")
        assert made(rule, KEY=odd).sent("a.example", [])[-1] == (b"X-Key", b"key=4f9{}XqT%s7b\\1Zu;v=1")

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([b"authorization", b"Authorization", b"RANGE", b"X-A", b"accept-encoding"]),
                st.binary(max_size=5),
            )
        )
    )
    def test_whatever_comes_from_inside_it_is_there_once(self, headers: list[tuple[bytes, bytes]]) -> None:
        sent = made().sent("api.github.com", headers)
        assert [value for name, value in sent if name.lower() == b"authorization"] == [
            b"Bearer " + TOKEN.encode()
        ]
        assert [value for name, value in sent if name.lower() == b"accept-encoding"] == [b"identity"]
        assert [header for header in sent if header[0] == b"X-A"] == [h for h in headers if h[0] == b"X-A"]
