"""Pages of package indexes, read and written."""

from __future__ import annotations

import json

import pytest

from libs.gateway.packages.links import (
    HTML,
    JSON,
    PackageFile,
    as_html,
    as_json,
    files_of,
    is_of,
    normal_name,
)

DIGEST = "ab" * 32
PAGE = "https://index.example/simple/thing/"


def in_html(body: str, page: str = PAGE, kind: str = HTML) -> list[PackageFile]:
    return files_of(body.encode(), kind, page)


class TestHtml:
    def test_every_link_to_a_package(self) -> None:
        [file] = in_html(
            f'<a href="../../files/thing-1.0.tar.gz#sha256={DIGEST}" data-requires-python="&gt;=3.9" '
            f'data-yanked="broken" data-core-metadata="sha256={DIGEST}">thing-1.0.tar.gz</a>'
        )
        assert file == PackageFile(
            "thing-1.0.tar.gz",
            "https://index.example/files/thing-1.0.tar.gz",
            {"sha256": DIGEST},
            ">=3.9",
            "broken",
            {"sha256": DIGEST},
        )

    def test_base(self) -> None:
        [file] = in_html('<base href="https://files.example/a/"><a href="thing-1.0.zip">x</a>')
        assert file.url == "https://files.example/a/thing-1.0.zip"

    def test_yanked_without_reason_and_metadata_without_hash(self) -> None:
        [file] = in_html('<a href="thing-1.0.zip" data-yanked data-dist-info-metadata="true">x</a>')
        assert (file.yanked, file.metadata) == (True, True)

    @pytest.mark.parametrize(
        "href",
        [
            *("file:///etc/thing-1.0.zip", "ftp://host/thing-1.0.zip", "javascript:thing-1.0.zip"),
            *("thing-1.0.html", "thing-1.0.exe", "../", "thing%2F..%2F1.0.zip", "a%20b-1.0.zip", "%00-1.zip"),
            *("http://[bad/thing-1.0.zip", "thing-1.0.zip.asc", "thing%22-1.0.zip"),
        ],
    )
    def test_what_is_no_package_is_left_out(self, href: str) -> None:
        assert in_html(f'<a href="{href}">x</a><a>y</a>') == []

    def test_files_of_the_disk_are_listed_by_pages_on_the_disk_alone(self) -> None:
        body = '<a href="file:///packages/thing-1.0.zip">x</a>'
        assert in_html(body) == []
        assert [file.url for file in in_html(body, "file:///simple/thing/index.html")] == [
            "file:///packages/thing-1.0.zip"
        ]

    def test_a_digest_that_is_none_is_left_out(self) -> None:
        [file] = in_html('<a href="thing-1.0.zip#sha256=xyz&md5=00">x</a>')
        assert file.hashes == {}

    def test_another_charset(self) -> None:
        body = '<a href="thing-1.0.zip" data-yanked="für immer">x</a>'.encode("latin-1")
        assert files_of(body, "text/html; charset=iso-8859-1", PAGE)[0].yanked == "für immer"

    def test_a_charset_that_there_is_not(self) -> None:
        with pytest.raises(ValueError, match="nobody can read"):
            in_html("x", kind="text/html; charset=klingon")


class TestJson:
    def test_every_file(self) -> None:
        listed = {
            "filename": "thing-1.0.zip",
            "url": f"/files/thing-1.0.zip#sha256={DIGEST}",
            "hashes": {"md5": "0" * 32, "odd": "1"},
            "requires-python": ">=3",
            "core-metadata": True,
            "yanked": "why",
            "size": 7,
            "upload-time": "2026-01-01T00:00:00Z",
        }
        [file] = files_of(json.dumps({"files": [listed, 7, {"url": None}]}).encode(), JSON, PAGE)
        assert file == PackageFile(
            "thing-1.0.zip",
            "https://index.example/files/thing-1.0.zip",
            {"sha256": DIGEST, "md5": "0" * 32},
            ">=3",
            "why",
            True,
            7,
            "2026-01-01T00:00:00Z",
        )

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"files": 1}', b"[" * 100_000])
    def test_what_is_none_is_said(self, content: bytes) -> None:
        with pytest.raises(ValueError, match="no page of an index"):
            files_of(content, JSON, PAGE)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json"])
def test_other_kinds_are_no_pages(kind: str) -> None:
    with pytest.raises(ValueError, match="no page of an index"):
        files_of(b"", kind, PAGE)


@pytest.mark.parametrize("write", [as_html, as_json])
@pytest.mark.parametrize(
    "file",
    [
        PackageFile("thing-1.0.zip", "", {"sha256": DIGEST}, '>=3,<"4"&', "<b>'no'</b>", {"sha256": DIGEST}),
        PackageFile("thing-1.0+local.whl", "", {"sha256": DIGEST}, None, True, True),
        PackageFile("thing-1!2.0.tar.gz", ""),
    ],
)
def test_what_is_written_is_read_again(write: type, file: PackageFile) -> None:
    url = f"http://pip.gateway/files/0/thing/{file.name}"
    kind = JSON if write is as_json else HTML
    [read] = files_of(write("thing", [(url, file)]), kind, "http://pip.gateway/simple/thing/")
    assert read == PackageFile(file.name, url, file.hashes, file.requires_python, file.yanked, file.metadata)


@pytest.mark.parametrize(
    ("project", "file", "is_one"),
    [
        ("thing", "thing-1.0.zip", True),
        ("two-words", "Two_Words-1.0-py3-none-any.whl", True),
        ("two-words", "two-words-1.0.tar.gz", True),
        ("thing", "things-1.0.zip", False),
        ("thing", "other-1.0.zip", False),
    ],
)
def test_files_of_a_project(project: str, file: str, is_one: bool) -> None:
    assert is_of(project, file) is is_one


def test_names_of_projects() -> None:
    assert normal_name("Some__Thing.Else-2") == "some-thing-else-2"
