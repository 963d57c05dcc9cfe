"""Calls of the file routes, and files that contain scripts."""

from __future__ import annotations

from typing import Any

import httpx

PAGE = "<!doctype html><script>fetch('/threads', {method: 'POST'})</script>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
BYTES = {"content-type": "application/octet-stream"}


def new_thread(http: httpx.Client) -> str:
    return str(http.post("/threads", json={}).raise_for_status().json()["thread_id"])


def put(http: httpx.Client, thread: str, path: str, content: bytes, **query: str) -> httpx.Response:
    return http.put(
        f"/files/{thread}/content", params={"path": path, **query}, content=content, headers=BYTES
    )


def entries(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in answer.raise_for_status().json()["entries"]}


def is_refused(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert len(answer.json()["error"]) > 20, "the error says what to do"
