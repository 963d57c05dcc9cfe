"""Finds payment card numbers among all the other long numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["KIND", "card_numbers", "luhn"]

KIND = "payment card number"

# One run of digits, blanks and hyphens that is no part of a word, a decimal or a longer number.
# It begins with the digit and looks behind that: one that begins by looking behind is tried everywhere.
_RUN = re.compile(r"[2-6](?<![\w.+/#-][2-6])[0-9]{3}[0-9 -]{8,22}[0-9](?![\w/])")
_GROUPS = {
    15: re.compile(r"[0-9]{4}([ -])[0-9]{6}\1[0-9]{5}"),
    14: re.compile(r"[0-9]{4}([ -])[0-9]{6}\1[0-9]{4}"),
    16: re.compile(r"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"),
    19: re.compile(r"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}\1[0-9]{3}"),
}
"""How cards show it. 6-4-3 of other issuers is not told from what it may be besides."""
_ISSUERS = (
    (re.compile(r"4"), (16, 19)),  # Visa; 13 digits are not given out any more, and goods have them
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),  # Mastercard
    (re.compile(r"3[47]"), (15,)),  # American Express
    (re.compile(r"6011|64[4-9]|65"), (16, 19)),  # Discover
    (re.compile(r"30[0-5]|3[689]"), (14,)),  # Diners Club
    (re.compile(r"352[89]|35[3-8]"), (16, 19)),  # JCB
    (re.compile(r"62"), (16, 19)),  # UnionPay
)
_WORDS = re.compile(
    r"(?<![a-z])(?:credit|debit|visa|mastercard|amex|american express|cards?|cardholder|cc|pan|cvv|cvc)"
    r"(?![a-z])",
    re.I,
)
"""What stands beside a number without gaps, or over its column, where it is a card's."""
_NEAR = 80
_HEAD = 400
_IBAN_BEFORE = re.compile(r"[A-Z]{2}[0-9]{2}[ -]?\Z")
_GOES_ON_BEFORE = re.compile(r"[0-9][ -]\Z")
_GOES_ON_AFTER = re.compile(r"[ -]?[0-9](?![0-9]?/[0-9])|\.[0-9]")
"""More digits, but for the month and year until which a card is valid."""
_FEWEST_DIFFERENT = 4
_OF_DOCUMENTATION = frozenset(
    {
        *("4111111111111111", "4012888888881881", "4242424242424242", "4000056655665556"),
        *("4000000000000002", "5555555555554444", "5105105105105100", "5200828282828210"),
        *("2223003122003222", "2223000048400011", "378282246310005", "371449635398431"),
        *("378734493671000", "6011111111111117", "6011000990139424", "6011981111111113"),
        *("30569309025904", "38520000023237", "3056930009020004", "36227206271667"),
        *("3530111333300000", "3566002020360505", "6200000000000005", "5454545454545454"),
        *("4005550000000019", "4532015112830366", "4539578763621486", "4916338506082832"),
    }
)
"""Numbers that payment providers and libraries give out for tests: they are nobody's."""


def card_numbers(text: str) -> Iterator[tuple[int, str]]:
    """Where numbers of payment cards begin in `text`, each with a sample that shows its last four digits.

    One counts where issuer, length and check digit fit, and it is grouped as on a card, or the words beside
    it or at the head of the text speak of cards: of all numbers with 16 digits one in forty would pass else.
    """
    for match in _RUN.finditer(text):
        digits = match[0].translate(_GAPS)
        if _issued(digits) and _apart(match) and (_grouped(match[0]) or _spoken_of(match, digits)):
            yield match.start(), f"…{digits[-4:]} ({len(digits)} digits)"


_GAPS = str.maketrans("", "", " -")


def luhn(digits: str) -> bool:
    """Whether the check digit is right (ISO/IEC 7812-1)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _issued(digits: str) -> bool:
    return (
        any(len(digits) in lengths and issuer.match(digits) for issuer, lengths in _ISSUERS)
        and len(set(digits)) >= _FEWEST_DIFFERENT
        and digits not in _OF_DOCUMENTATION
        and luhn(digits)
    )


def _apart(match: re.Match[str]) -> bool:
    """Whether it is no part of a longer number, nor of one of an account."""
    before = match.string[max(0, match.start() - 6) : match.start()]
    after = match.string[match.end() : match.end() + 5]
    return not (_IBAN_BEFORE.search(before) or _GOES_ON_BEFORE.search(before) or _GOES_ON_AFTER.match(after))


def _grouped(number: str) -> bool:
    length = sum(each.isdigit() for each in number)
    return length in _GROUPS and _GROUPS[length].fullmatch(number) is not None


def _spoken_of(match: re.Match[str], digits: str) -> bool:
    if match[0] != digits:
        return False
    near = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    return bool(_WORDS.search(near) or _WORDS.search(match.string[:_HEAD]))
