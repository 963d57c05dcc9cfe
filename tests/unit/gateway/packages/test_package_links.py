"""Pages of package indexes, parsed and written."""

from __future__ import annotations

import pytest

from libs.gateway.packages.index_pages import HTML, PackageFile, as_html, files_of, is_of
from libs.redaction import SecretFilter

DIGEST = "ab" * 32
HASH = f"sha256={DIGEST}"
PAGE = "https://index.example/simple/thing/"


def parsed(body: str, kind: str = HTML) -> list[PackageFile]:
    return files_of(body.encode(), kind, PAGE)


def test_link_with_all_attributes() -> None:
    [file] = parsed(
        f'<a href="../../files/thing-1.0.tar.gz#{HASH}" data-requires-python="&gt;=3.9" '
        f'data-yanked="broken" data-core-metadata="{HASH}">thing-1.0.tar.gz</a>'
    )
    url = "https://index.example/files/thing-1.0.tar.gz"
    assert file == PackageFile("thing-1.0.tar.gz", url, HASH, ">=3.9", "broken", HASH)


def test_base_and_attributes_without_values() -> None:
    [file] = parsed(
        '<base href="https://files.example/a/">'
        '<a href="thing-1.0.zip#sha256=xyz&md5=00" data-yanked data-dist-info-metadata="true">x</a>'
    )
    assert file == PackageFile(
        "thing-1.0.zip", "https://files.example/a/thing-1.0.zip", yanked="", metadata="true"
    )


def test_other_links_are_ignored() -> None:
    for href in (
        *("file:///etc/thing-1.0.zip", "ftp://host/thing-1.0.zip", "javascript:thing-1.0.zip"),
        *("thing-1.0.html", "../", "thing%2F..%2F1.0.zip", "%00-1.zip", "http://[bad/thing-1.0.zip"),
    ):
        assert parsed(f'<a href="{href}">x</a><a>y</a>') == [], href


def test_charset_and_kind_of_the_page() -> None:
    body = '<a href="thing-1.0.zip" data-yanked="für immer">x</a>'.encode("latin-1")
    assert files_of(body, "text/html; charset=iso-8859-1", PAGE)[0].yanked == "für immer"
    with pytest.raises(ValueError, match="nobody can read"):
        parsed("x", kind="text/html; charset=klingon")
    for kind in ("", "text/plain", "application/json"):
        with pytest.raises(ValueError, match="not an index page"):
            parsed("", kind)


@pytest.mark.parametrize(
    "file",
    [
        PackageFile("thing-1.0.zip", "", HASH, '>=3,<"4"&', "<b>'no'</b>", HASH),
        PackageFile("thing-1.0+local.whl", "", HASH, "", "", "true"),
        PackageFile("thing-1!2.0.tar.gz", ""),
    ],
)
def test_written_page_is_parsed_to_the_same_file(file: PackageFile) -> None:
    url = f"http://pip.gateway/files/0/thing/{file.name}"
    [read] = files_of(as_html("thing", [(url, file)]), HTML, "http://pip.gateway/simple/thing/")
    assert read == PackageFile(file.name, url, file.hash, file.requires_python, file.yanked, file.metadata)


def test_secret_is_redacted_before_it_is_quoted() -> None:
    secret = "s3cr3t<4711>&5e9b"
    file = PackageFile("thing-1.0.zip", "", yanked=f"for {secret}")
    page = as_html("thing", [("http://pip.gateway/x", file)], SecretFilter({"PASSWORD": secret}))
    assert (b"for [REDACTED]" in page, b"4711" in page) == (True, False)


def test_file_names_belong_to_projects() -> None:
    assert is_of("two-words", "Two_Words-1.0-py3-none-any.whl")
    assert is_of("two-words", "two-words-1.0.tar.gz")
    assert not is_of("thing", "things-1.0.zip")
