"""Checks whether the sandbox image exists and is current, and builds it."""

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

from libs.backends.docker.base_image import DEFAULT_BASE, find_base
from libs.backends.docker.build_context import (
    content_hash,
    context_tar,
    fetch_wheels,
    host_certificates,
    project_files,
    trust_hash,
)
from libs.sandbox import ImageMissing
from libs.sandbox.docker import build_hint, explained

if TYPE_CHECKING:
    import docker

__all__ = ["ImageInfo", "ImageState", "ensure_image", "image_id", "image_state", "require_image"]

ImageState = Literal["ready", "missing", "stale"]

CONTENT, BASE, TRUST = "code-agent.content", "code-agent.base", "code-agent.trust"
VARIANT = "code-agent.variant"
"""Label of the browser variant."""
_BROWSER = "browser"
_BUILD_SECONDS = 1800  # without output of a build step
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CHATTER = ("--->", "Removing intermediate", "Successfully")


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image that is ready to use."""

    id: str
    name: str
    base: str
    """The requested base. If no registry answered, our own Debian replaces the default base."""
    built: bool
    """Whether this call has built the image."""
    seconds: float


def image_state(client: docker.DockerClient, name: str) -> ImageState:
    """Return whether the image exists and was built from the current sources. Takes a few milliseconds.

    `stale`: the Dockerfile, the requirements or the modules for the container have changed, or the image is
    not ours. The sources are read once in a process.

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
    """Return the `content_hash` of the sources at the first call.

    This process has loaded these sources, so an image of newer sources does not fit.
    """
    return content_hash(project_files(browser=browser), base)


def require_image(client: docker.DockerClient, name: str) -> None:
    """Raise an error if the image is not ready.

    Raises:
        ImageMissing: the image is not `ready`. The hint is the command that builds it.
        DockerUnavailable: the Engine does not answer.
    """
    state = image_state(client, name)
    if state != "ready":
        what = "is missing" if state == "missing" else "is stale: it was built from other source files"
        hint = build_hint(name)
        if state == "stale":
            hint += " If that was just done, start this program again: its own sources are older."
        raise ImageMissing(f"The sandbox image {name!r} {what}.", hint=hint)


def image_id(client: docker.DockerClient, name: str) -> str:
    """Return the id of this build of the image.

    Raises:
        ImageMissing: the image does not exist.
        DockerUnavailable: the Engine does not answer.
    """
    import docker.errors

    with explained():
        try:
            return str(client.images.get(name).id)
        except docker.errors.ImageNotFound:
            raise ImageMissing(f"The sandbox image {name!r} is missing.", hint=build_hint(name)) from None


def ensure_image(
    client: docker.DockerClient,
    name: str,
    *,
    progress: Callable[[str], None],
    base: str | None = None,
    cache: Path | None = None,
    browser: bool = False,
) -> ImageInfo:
    """Build the image if it is missing or its inputs have changed.

    The inputs are the Dockerfile, the requirements, the modules for the container, the base, and the CA
    certificates of this host. A first build takes about two minutes and 2 GB of disk. A build after a change
    of the modules takes a few seconds.

    Args:
        name: name of the image, with or without a tag.
        progress: called with each line of progress.
        base: a Debian-like image with Python 3.11 and pip. None: the base of the existing image, else
            `python:3.11-slim`, else a Debian base that is made here if no registry answers.
        cache: folder for the Python packages, 110 MB. By default below `~/.cache`.
        browser: build the variant with Chromium, Playwright, Node.js and npm. It needs 0.75 GB and two
            minutes more.

    Raises:
        ImageMissing: the base is not available, pip failed, or a step of the build failed.
        DockerUnavailable: the Engine does not answer, or its disk is full.
    """
    start = time.monotonic()
    labels = _labels(client, name) or {}
    base = base or labels.get(BASE) or DEFAULT_BASE
    # Read once, so that the hash describes the build.
    files, certificates = project_files(browser=browser), host_certificates()
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
    """Return the labels of the image, or None if it does not exist."""
    with contextlib.suppress(ImageMissing), explained():
        image = client.api.inspect_image(name)  # type: ignore[no-untyped-call]
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

    # The image's history shows BASE and BROWSER only. Docker omits the proxies.
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
            network_mode="host",  # the build may use a proxy or mirror that only this host reaches
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
