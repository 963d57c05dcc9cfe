"""Finds the element that a target names: the only visible element with this name."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterator
from typing import Literal

from playwright.async_api import Error, Frame, Locator, Page

__all__ = ["Purpose", "Trouble", "find"]

Purpose = Literal["click", "type", "read"]

_ENGINE = re.compile(r"(css|text|role|xpath|label|placeholder)=(.*)", re.DOTALL)
_CSS = re.compile(r"[#.\[*]|[a-z][a-z0-9-]*(?:[#.\[:]|\s*[>+~,]\s*[#.\[*a-z])")
_TAG = re.compile(r"[a-z][a-z0-9-]*")
_ROLES = {
    "click": ("button", "link", "checkbox", "radio", "tab", "menuitem", "option", "switch", "treeitem"),
    "type": ("textbox", "searchbox", "combobox", "spinbutton", "listbox"),
}
_PAUSE = 0.1
_MOST = 5
_NAMED = 20

# Describes an element: a CSS path, the text around the element, and the address of a link.
_DESCRIBE = """e => {
  const parts = [];
  for (let n = e; n && n.nodeType === 1 && n !== document.documentElement; n = n.parentElement) {
    if (n.id) { parts.unshift('#' + CSS.escape(n.id)); break; }
    let i = 1;
    for (let s = n.previousElementSibling; s; s = s.previousElementSibling) if (s.tagName === n.tagName) i++;
    parts.unshift(n.tagName.toLowerCase() + ':nth-of-type(' + i + ')');
  }
  const around = (e.parentElement || e).innerText || e.innerText || '';
  return ['css=' + parts.join(' > '), around.replace(/\\s+/g, ' ').trim().slice(0, 60), e.href || ''];
}"""

_NAMES = """(selector) => {
  const own = label => [...label.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join(" ").trim();
  const labelled = e => e.labels && e.labels[0] ? own(e.labels[0]) || e.labels[0].innerText : "";
  const name = e => labelled(e) || e.getAttribute("aria-label")
    || (e.matches('input,select,textarea') ? '' : e.innerText) || e.placeholder
    || (e.matches('[type=submit],[type=button],[type=reset]') ? e.value : '')
    || e.title || e.name || e.alt || '';
  const seen = [...document.querySelectorAll(selector)]
    .filter(e => e.type !== 'hidden' && (!e.checkVisibility || e.checkVisibility()));
  return [...new Set(seen.map(e => name(e).replace(/\\s+/g, ' ').trim().slice(0, 60)).filter(Boolean))];
}"""
_FIELDS = (
    "input:not([type=submit]):not([type=button]):not([type=reset]),"
    "select,textarea,[contenteditable=''],[contenteditable=true]"
)
_PRESSED = (
    "a[href],button,input,select,summary,[role=button],[role=link],[role=tab],[role=menuitem],[onclick]"
)
_HEADINGS = "h1,h2,h3,main,table,article,form"


class Trouble(Exception):
    """An action failed; the message is for the caller."""


async def find(page: Page, target: str, purpose: Purpose, until: float) -> Locator:
    """Return the element of `target` in the page or its frames; wait until `until`, a time of the loop.

    The first match counts: a CSS selector; for typing and clicking, a role with exactly this name; a label;
    the text; the same as a part; a tag. For reading, several elements may match.

    Raises:
        Trouble: no element matches (the message lists the elements), or several (the message has a selector
            for each).
    """
    loop = asyncio.get_running_loop()
    hidden = False
    while True:
        for frame in page.frames:
            for candidate in _candidates(frame, target, purpose):
                try:
                    count = await (shown := _shown(candidate, frame)).count()
                    hidden = hidden or (not count and await candidate.count() > 0)
                except Error as error:
                    if "crashed" in error.message or "closed" in error.message:
                        raise
                    continue  # an invalid selector, or a frame that is gone
                if count == 1 or (count and purpose == "read"):
                    return shown
                if count:
                    return await _one_of(shown, target, count)
        if loop.time() >= until:
            break
        await asyncio.sleep(_PAUSE)
    raise Trouble(await _nothing(page, target, purpose, hidden=hidden))


def _shown(candidate: Locator, frame: Frame) -> Locator:
    """Return visible elements, and fields for files, which pages often hide behind a button."""
    return candidate.filter(visible=True).or_(candidate.and_(frame.locator("input[type=file]")))


def _candidates(frame: Frame, target: str, purpose: Purpose) -> Iterator[Locator]:
    if engine := _ENGINE.fullmatch(target):
        kind, value = engine.groups()
        if kind == "label":
            yield frame.get_by_label(value)
        elif kind == "placeholder":
            yield frame.get_by_placeholder(value)
        else:
            yield frame.locator(target)
        return
    if _CSS.match(target) or (purpose == "read" and _TAG.fullmatch(target)):
        yield frame.locator(f"css={target}")
    for exact in (True, False):
        if purpose != "read":
            roles = (frame.get_by_role(role, name=target, exact=exact) for role in _ROLES[purpose])
            yield functools.reduce(Locator.or_, roles)
        yield frame.get_by_label(target, exact=exact)
        if purpose == "type":
            yield frame.get_by_placeholder(target, exact=exact)
            yield frame.locator(f"css=[name={_quoted(target)}]")
        else:
            yield frame.get_by_text(target, exact=exact)
            yield frame.get_by_alt_text(target, exact=exact).or_(frame.get_by_title(target, exact=exact))
    if _TAG.fullmatch(target):
        yield frame.locator(f"css={target}")


def _quoted(text: str) -> str:
    """Return the text as a CSS string."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text).replace("\n", r"\a ")
    return f'"{escaped}"'


async def _one_of(found: Locator, target: str, count: int) -> Locator:
    """Return the first of several links to the same address; refuse other duplicates."""
    described = [await found.nth(number).evaluate(_DESCRIBE) for number in range(min(count, _MOST))]
    places = {place for _, _, place in described}
    if count <= _MOST and len(places) == 1 and places != {""}:
        return found.first
    ways = "; ".join(f"{way} ({around!r})" for way, around, _ in described)
    more = f"; and {count - _MOST} more" if count > _MOST else ""
    raise Trouble(f"{count} things on the page match {target!r}. Give one of these: {ways}{more}")


async def _nothing(page: Page, target: str, purpose: Purpose, *, hidden: bool) -> str:
    if hidden:
        return (
            f"{target!r} is on the page, but it cannot be seen: something else may have to be clicked first"
        )
    selector = {"click": _PRESSED, "type": _FIELDS, "read": _HEADINGS}[purpose]
    what = {"click": "things to click", "type": "fields", "read": "headings"}[purpose]
    names = [name for frame in page.frames for name in await frame.evaluate(_NAMES, selector)]
    shown = ", ".join(map(repr, names[:_NAMED])) + (", …" if len(names) > _NAMED else "")
    return f"nothing that can be seen matches {target!r} on {page.url}; its {what}: {shown or 'none'}"
