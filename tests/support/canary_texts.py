"""Two secrets of a sandbox, and a search for them without the filter under test."""

from __future__ import annotations

import base64

from libs.redaction import SecretFilter

__all__ = ["CANARY", "KNOWN", "MARK", "TOKEN", "assert_clean"]

CANARY = "cn-7Hq/x2+Kd9 vB4&nL8w='Tz5"
TOKEN = "cnry-" + "Zx8Kq3Vn5Rt7Yw2" * 5
"""Long enough that `base64` wraps the line."""
MARK = "[REDACTED]"
KNOWN = SecretFilter({"CANARY_KEY": CANARY, "CANARY_TOKEN": TOKEN})


def assert_clean(text: str) -> None:
    """Assert that the text has no secret in any form."""
    flat = "".join(text.split())
    for secret in (CANARY, TOKEN):
        raw = secret.encode()
        bare = "".join(secret.split())
        encoded = [base64.b64encode(b"x" * before + raw).decode()[4:-4] for before in range(3)]
        for needle in (bare, *encoded, *(each.translate({43: 45, 47: 95}) for each in encoded), raw.hex()):
            assert needle not in flat
    for part in ("x2+Kd9", "x2%2BKd9", "x2%2bkd9", "Zx8Kq3Vn5Rt7Yw2Zx8"):
        assert part not in text
