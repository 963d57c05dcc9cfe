"""The filter for known secrets: encodings, streams, cut texts, and text without secrets."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from libs.redaction import MARK, SecretFilter, unfit

KEY = "sk-proj-4f9Xq/T+7 b~Zü\"w'$1"
PLAIN = "sk-proj-Ab3dEfGhIjKlMnOpQrStUvWx"
PEM = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0B
AQEFAASCBKcwggSjAgEAAoIB
-----END PRIVATE KEY-----"""

secrets = st.text("aB1-+/~ é", min_size=8, max_size=14).filter(lambda text: not unfit(text.strip()))


@st.composite
def texts(draw: st.DrawFn) -> tuple[SecretFilter, bytes]:
    """Draw a filter, and a text of complete forms, parts of forms, line breaks and other bytes."""
    known = SecretFilter({str(n): value for n, value in enumerate(draw(st.lists(secrets, max_size=3)))})
    pieces = [st.binary(max_size=4), st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r", b"a", b"-", b"61"])]
    if known:
        forms = st.sampled_from(list(known.forms))
        cut = st.integers(-12, 12)
        pieces += [forms, st.builds(lambda form, at: form[:at], forms, cut)]
        pieces += [st.builds(lambda form, at: form[at:], forms, cut)]
        pieces += [st.builds(lambda form, at: form[:at] + b"\n" + form[at:], forms, cut)]
    return known, b"".join(draw(st.lists(st.one_of(pieces), max_size=10)))


def naive(known: SecretFilter, data: bytes) -> bytes:
    """Redact slowly, byte by byte: the expected result."""
    marked = data.replace(b"\r\n\r\n", bytes(4)).replace(b"\r\r", bytes(2)).replace(b"\n\n", bytes(2))
    places = [place for place, byte in enumerate(marked) if byte not in b"\r\n"]
    text = bytes(marked[place] for place in places)
    covered, joined = [False] * len(data), [False] * len(data)
    for form in known.forms:
        for at in range(len(text) - len(form) + 1):
            if text.startswith(form, at):
                first, last = places[at], places[at + len(form) - 1]
                for place in range(first, last + 1):
                    covered[place] = True
                    joined[place] = joined[place] or place > first
    breaks = [byte in b"\r\n" for byte in data]
    return b"".join(
        data[place : place + 1]
        if not covered[place] or breaks[place]
        else b""
        if joined[place] and not breaks[place - 1]
        else MARK
        for place in range(len(data))
    )


class TestForms:
    @pytest.mark.parametrize(
        "secret",
        [PLAIN, KEY, "pass word\\1\twith tab", "日本語のパスワード9"],
        ids=["plain", "quotes", "tab", "Japanese"],
    )
    def test_every_encoding_is_redacted(self, secret: str) -> None:
        known = SecretFilter({"KEY": secret})
        raw = secret.encode()
        forms = [
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            json.dumps(secret)[1:-1].replace("/", "\\/"),
            repr(secret)[1:-1],
            repr(raw)[2:-1],
            quote(secret, safe=""),
            re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quote(secret)),
            quote_plus(secret),
            quote(secret, safe="!'()*"),
            raw.hex(),
            raw.hex().upper(),
        ]
        for form in forms:
            assert known(f"<{form}>") == "<[REDACTED]>"
            assert known(f"<{form}>".encode()) == b"<[REDACTED]>"

    @settings(max_examples=50)
    @given(secrets, st.binary(max_size=7), st.binary(max_size=7), st.booleans(), st.booleans())
    def test_base64_at_every_place(
        self, secret: str, before: bytes, after: bytes, url_safe: bool, padded: bool
    ) -> None:
        secret = secret.strip()
        known = SecretFilter({"KEY": secret})
        encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
        encoded = encode(before + secret.encode() + after)
        shown = known(encoded if padded else encoded.rstrip(b"="))
        assert MARK in shown
        # At most four bits of the first and the last byte remain in the characters beside the mark.
        assert len(shown.replace(MARK, b"").rstrip(b"=")) <= (len(before) + len(after)) * 8 / 6 + 4

    def test_wrapped_secret_is_redacted(self) -> None:
        known = SecretFilter({"KEY": PLAIN * 3})
        wrapped = base64.encodebytes(b"header " * 5 + PLAIN.encode() * 3)
        assert wrapped.count(b"\n") > 1
        assert set(known(wrapped).split(b"\n")[1:-2]) == {MARK}
        assert known(wrapped.replace(b"\n", b"\r\n")) == known(wrapped).replace(b"\n", b"\r\n")
        assert known(f"{PLAIN[:9]}\n{PLAIN[9:] + PLAIN * 2}") == "[REDACTED]\n[REDACTED]"
        parted = f"{PLAIN[:9]}\n\n{PLAIN[9:] + PLAIN * 2}"
        assert known(parted) == parted

    def test_lines_of_a_pem_block(self) -> None:
        known = SecretFilter({"KEY": PEM})
        assert known(PEM) == "\n".join(["[REDACTED]"] * len(PEM.splitlines()))
        assert known(f"grep: {PEM.splitlines()[1]}") == "grep: [REDACTED]"
        assert known("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"

    def test_overlapping_secrets_and_binary_data(self) -> None:
        known = SecretFilter(
            {"A": "abc-1234-xyz", "B": "xyz-5678-uvw", "C": os.fsdecode(b"\xff\xfe-secret-1")}
        )
        assert known("(abc-1234-xyz-5678-uvw)") == "([REDACTED])"
        assert known(b"\x00\xff\xfe-secret-1\xff") == b"\x00[REDACTED]\xff"


class TestStream:
    @settings(max_examples=50)
    @given(texts(), st.data())
    def test_stream_gives_the_same_result_however_it_is_cut(
        self, made: tuple[SecretFilter, bytes], data: st.DataObject
    ) -> None:
        known, text = made
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
        longest = max(map(len, known.forms), default=1)
        for ends in ([*cuts, len(text)], range(1, len(text) + 1)):
            stream = known.stream()
            shown, start = b"", 0
            for stop in ends:
                shown += stream.feed(text[start:stop])
                assert len(stream._held) < 6 * longest
                start = stop
            assert shown + stream.flush() == known(text) == known.part(text) == naive(known, text)
        if MARK not in known(text):
            assert known(text) is text

    def test_many_line_breaks_are_not_held_back(self) -> None:
        for breaks in (b"\n", b"\r\n"):
            stream = SecretFilter({"KEY": PLAIN}).stream()
            text = PLAIN[:9].encode() + breaks * 1000
            shown = b""
            for at in range(0, len(text), 7):
                shown += stream.feed(text[at : at + 7])
                assert len(stream._held) < 6 * len(PLAIN)
            assert shown + stream.flush() == text


class TestParts:
    """A text that was cut from a longer one: parts of a secret at the cut are redacted."""

    @settings(max_examples=50)
    @given(st.binary(max_size=5), st.binary(max_size=5), st.data())
    def test_at_most_three_bytes_of_a_cut_secret_remain(
        self, before: bytes, after: bytes, data: st.DataObject
    ) -> None:
        known = SecretFilter({"KEY": PLAIN})
        for secret in (PLAIN.encode(), base64.b64encode(PLAIN.encode())[:-2]):
            whole = b"<" + before + b">" + secret + b"<" + after + b">"
            cut = data.draw(st.integers(0, len(whole)))
            first, last = known.part(whole[:cut], cut_after=True), known.part(whole[cut:], cut_before=True)
            for size in range(4, len(secret) + 1):
                assert not first.endswith(secret[:size])
                assert not last.startswith(secret[-size:])
            assert first.startswith(whole[: min(cut, len(before) + 2)])
            assert last.endswith(whole[max(cut, len(whole) - len(after) - 2) :])

    @settings(max_examples=50)
    @given(st.data())
    def test_inner_part_of_a_secret_is_redacted(self, data: st.DataObject) -> None:
        known = SecretFilter({"KEY": PLAIN})
        for secret in (PLAIN.encode(), base64.b64encode(PLAIN.encode())[:-2], PLAIN.encode().hex().encode()):
            begin = data.draw(st.integers(0, len(secret) - 4))
            end = data.draw(st.integers(begin + 4, len(secret)))
            line_end = data.draw(st.integers(begin, end))
            for part in (secret[begin:end], secret[begin:line_end] + b"\n" + secret[line_end:end]):
                shown = known.part(part, cut_before=True, cut_after=True)
                assert set(shown.split()) == {MARK}
                assert shown.count(b"\n") == part.count(b"\n")

    @settings(max_examples=50)
    @given(texts(), st.data())
    def test_stream_of_a_part_gives_the_same_result_however_it_is_cut(
        self, made: tuple[SecretFilter, bytes], data: st.DataObject
    ) -> None:
        known, text = made
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
        cut_after = data.draw(st.booleans())
        for ends in ([*cuts, len(text)], range(1, len(text) + 1)):
            stream = known.stream(cut_before=True)
            shown, start = b"", 0
            for stop in ends:
                shown += stream.feed(text[start:stop])
                start = stop
            shown += stream.flush(cut_after=cut_after)
            assert shown == known.part(text, cut_before=True, cut_after=cut_after)


class TestNoSecrets:
    @settings(max_examples=50)
    @given(st.text(), st.binary())
    @example("\ud800 \udcff", b"\xff\r\n\r\n")
    def test_text_without_secrets_is_the_same_object(self, text: str, data: bytes) -> None:
        known = SecretFilter({"KEY": KEY, "PEM": PEM})
        assert known(text) is text
        assert known(data) is data

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("short1!", "shorter than 8"),
            ("xxxxxxxxxxxx", "different"),
            ("12345678901", "number"),
            ("not-needed", "words"),
            ("the[REDACTED]one", "holds"),
        ],
    )
    def test_unfit_value_is_not_redacted_but_named(
        self, value: str, why: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            known = SecretFilter({"UNFIT_TOKEN": value})
        assert not known
        assert known(f"a {value} b") == f"a {value} b"
        assert "UNFIT_TOKEN" in caplog.text
        assert why in caplog.text
        assert value not in caplog.text
        assert SecretFilter({"KEY": "aB3$efgh"})("aB3$efgh") == "[REDACTED]"  # the shortest that is redacted
