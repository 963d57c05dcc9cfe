"""The size of a picture, by its header."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from libs.middleware.approvals.effects.effect_pictures import pixels


@pytest.mark.parametrize(
    ("form", "mode", "options"),
    [
        ("PNG", "RGB", {}),
        ("GIF", "P", {}),
        ("JPEG", "RGB", {}),
        ("JPEG", "RGB", {"progressive": True, "exif": b"Exif\0\0" + bytes(9_000)}),
        ("WEBP", "RGB", {}),
        ("WEBP", "RGB", {"lossless": True}),
        ("WEBP", "RGB", {"exif": b"Exif\0\0"}),
    ],
)
def test_size_of_a_picture(form: str, mode: str, options: Any) -> None:
    file = io.BytesIO()
    Image.new(mode, (321, 45)).save(file, form, **options)
    content = file.getvalue()
    assert pixels(content) == (321, 45)
    for length in range(40):
        assert pixels(content[:length]) in (None, (321, 45))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"<svg/>",
        b"\xff\xd8\xff" + bytes(100),
        b"\xff\xd8\xff\xe0\0\0" * 100,
        b"RIFF\0\0\0\0WEBPVP9 ",
    ],
)
def test_other_content_has_no_size(content: bytes) -> None:
    assert pixels(content) is None
