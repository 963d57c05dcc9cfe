"""The sandbox image: is it there, is it current, and how it is built, with or without a registry."""

from __future__ import annotations

import contextlib
import functools
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal
from urllib.parse import quote

from libs.backends.docker.base import DEFAULT_BASE, find_base
from libs.backends.docker.context import (
    content_hash,
    context_tar,
    fetch_wheels,
    host_certificates,
    project_files,
    trust_hash,
)
from libs.sandbox.engine_api import do
from libs.sandbox.errors import ImageMissing, program
from libs.sandbox.explain import explained

if TYPE_CHECKING:
    import docker

__all__ = ["ImageInfo", "ImageState", "ensure_image", "image_id", "image_state", "require_image"]

ImageState = Literal["ready", "missing", "stale"]

CONTENT, BASE, TRUST = "code-agent.content", "code-agent.base", "code-agent.trust"
VARIANT = "code-agent.variant"
"""On the variant with a browser alone."""
_BROWSER = "browser"
_BUILD_SECONDS = 1800  # that one step of the build may stay silent
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CHATTER = ("--->", "Removing intermediate", "Successfully")


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image that is ready for use."""

    id: str
    name: str
    base: str
    """The base asked for; where no registry answered, our own Debian stands in for the default one."""
    built: bool
    """Whether it was built just now."""
    seconds: float


def image_state(client: docker.DockerClient, name: str) -> ImageState:
    """Whether the image is there and made from the sources that are here. One inspect, a few milliseconds.

    `stale`: the Dockerfile, the requirements or the container end were others when it was built, or somebody
    else made an image of this name. What they are is read once in a program's life.

    Raises:
        DockerUnavailable: the Engine does not answer.
    """
    labels = _labels(client, name)
    if labels is None:
        return "missing"
    wanted = _content(labels.get(VARIANT) == _BROWSER, labels.get(BASE, ""))
    return "ready" if labels.get(CONTENT) == wanted else "stale"


@functools.cache
def _content(browser: bool, base: str) -> str:
    """`content_hash` of the sources as they were when this was first asked.

    By then this program has loaded most of them: an image of newer ones is not for it.
    """
    return content_hash(project_files(browser=browser), base)


def require_image(client: docker.DockerClient, name: str) -> None:
    """As `image_state`, for who cannot go on without it.

    Raises:
        ImageMissing: it is not `ready`; the hint is the command that builds it.
        DockerUnavailable: the Engine does not answer.
    """
    state = image_state(client, name)
    if state != "ready":
        what = "is not there" if state == "missing" else "was built from other sources than these"
        hint = f"Build it with `{program()} setup`."
        if state == "stale":
            hint += " If that was just done, start this program again: its own sources are older."
        raise ImageMissing(f"The sandbox image {name!r} {what}.", hint=hint)


def image_id(client: docker.DockerClient, name: str) -> str:
    """What tells this build of the image from every other.

    Raises:
        ImageMissing: it is not there.
        DockerUnavailable: the Engine does not answer.
    """
    import docker.errors

    with explained():
        try:
            return str(client.images.get(name).id)
        except docker.errors.ImageNotFound:
            hint = f"Build it with `{program()} setup`."
            raise ImageMissing(f"The sandbox image {name!r} is not there.", hint=hint) from None


def ensure_image(
    client: docker.DockerClient,
    name: str,
    *,
    progress: Callable[[str], None],
    base: str | None = None,
    cache: Path | None = None,
    browser: bool = False,
) -> ImageInfo:
    """Build the image unless it is there and nothing it depends on has changed.

    It depends on the Dockerfile, the requirements, the container end of the sandbox, the base, and the CA
    certificates of this host. A first build takes about two minutes and 2 GB of disk, one after a change to
    the container end a few seconds.

    Args:
        name: Name of the image, with or without a tag.
        progress: Told each step, one line a call.
        base: Image to build on: Debian-like, with Python 3.11 and pip. None: the one this image was built
            on before, else `python:3.11-slim`, else, where no registry answers, a Debian base made here.
        cache: Folder that keeps the Python packages between builds, 110 MB; by default below `~/.cache`.
        browser: Build the variant with Chromium, Playwright, Node.js and npm: 0.75 GB more, and two
            minutes.

    Raises:
        ImageMissing: the base cannot be had, pip cannot fetch the packages, or a step of the build failed.
        DockerUnavailable: the Engine does not answer, or its disk is full.
    """
    start = time.monotonic()
    labels = _labels(client, name) or {}
    base = base or labels.get(BASE) or DEFAULT_BASE
    files, certificates = (
        project_files(browser=browser),
        host_certificates(),
    )  # read once: what is hashed is what is built
    wanted = {CONTENT: content_hash(files, base), BASE: base, TRUST: trust_hash(certificates)}
    if browser:
        wanted[VARIANT] = _BROWSER
    built = wanted.items() - labels.items()
    if built:
        found = find_base(client, base, progress)
        with explained():
            cpu = str(client.version()["Arch"])
        cache = cache or Path.home() / ".cache" / "code-execution-agent"
        wheels = fetch_wheels(cpu, cache, progress)
        extras = fetch_wheels(cpu, cache, progress, "requirements-browser.txt") if browser else None
        with context_tar(files, certificates, wheels, extras) as context:
            _build(client, name, found, wanted, context=context, progress=progress)
    with explained():
        image = client.images.get(name)
    return ImageInfo(str(image.id), name, base, bool(built), time.monotonic() - start)


def _labels(client: docker.DockerClient, name: str) -> dict[str, str] | None:
    """Labels of the image; None where there is no such image."""
    path = f"/images/{quote(name, safe='/:@')}/json"
    with contextlib.suppress(ImageMissing):
        image = do(client, "GET", path, seconds=float(client.api.timeout))
        return dict(image["Config"].get("Labels") or {})
    return None


def _build(
    client: docker.DockerClient,
    name: str,
    base: str,
    labels: dict[str, str],
    *,
    context: IO[bytes],
    progress: Callable[[str], None],
) -> None:
    import docker.errors

    # Of the build arguments only these show in the image's history; Docker leaves the proxies out of it.
    arguments = {"BASE": base} | ({"BROWSER": "1"} if labels.get(VARIANT) == _BROWSER else {})
    arguments |= {f"{scheme}_proxy": url for scheme, url in urllib.request.getproxies().items()}
    last: list[str] = []
    with explained():
        for event in client.api.build(
            fileobj=context,
            custom_context=True,
            tag=name,
            labels=labels,
            buildargs=arguments,
            network_mode="host",  # a proxy or mirror that only this host reaches serves the build too
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_BUILD_SECONDS,
        ):
            if "error" in event:
                raise docker.errors.BuildError(" | ".join([*last, event["error"]]), iter(()))
            for line in _COLOUR.sub("", event.get("stream", "")).splitlines():
                if (line := " ".join(line.split())) and not line.startswith(_CHATTER):
                    last = [*last, line][-3:]
                    progress(line)
