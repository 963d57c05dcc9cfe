"""Gives a separate Engine an image of the host's Engine without copying the layers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import docker
from docker.models.images import Image

from tests.support.cluster.namespace_machine import Machine

__all__ = ["SharedImage"]


class SharedImage:
    """An image of the host's Engine, whose layers other Engines of this machine can mount.

    Takes less than a second, while `docker save` and `docker load` take half a minute. The host's Engine must
    keep layers as folders (storage driver overlay2).
    """

    def __init__(self, client: docker.DockerClient, name: str) -> None:
        image = client.images.get(name)
        info = client.info()
        assert image.id
        self.id = image.id
        self._root = Path(info["DockerRootDir"])
        self._overlay2 = info["Driver"] == "overlay2"
        self._chains = list(_chains(image))

    def mount(self, machine: Machine, data: Path) -> None:
        """Put the image into the data folder of an Engine that does not run. The image has no name there.

        The mounts end when the Engine stops or the machine is switched off, so call this before each start.
        Does nothing where the layers cannot be mounted: then the Engine does not know the image's id.
        """
        images, own = (root / "image" / "overlay2" for root in (self._root, data))
        layers = [Path("layerdb", "sha256", chain) for chain in self._chains]
        if not self._overlay2 or not all((images / layer).is_dir() for layer in layers):
            return
        # The Engine mounts these folders on themselves, which hides mounts below, if they are no mounts yet.
        mounts = [("rw", place, place) for place in (data, data / "overlay2")]
        for layer in layers:
            shutil.copytree(images / layer, own / layer, dirs_exist_ok=True)
            folder = Path("overlay2", (images / layer / "cache-id").read_text())
            source, target = self._root / folder, data / folder
            shutil.copytree(source, target, ignore=_files_of_the_layer, dirs_exist_ok=True)
            short = data / "overlay2" / "l" / (source / "link").read_text()
            short.parent.mkdir(exist_ok=True)
            if not short.is_symlink():
                short.symlink_to(f"../{folder.name}/diff")
            mounts.append(("ro", source / "diff", target / "diff"))
        description = Path("imagedb", "content", "sha256", self.id.removeprefix("sha256:"))
        (own / description).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(images / description, own / description)
        script = [
            f"mountpoint -q {place} || mount --bind -o {mode} {what} {place}" for mode, what, place in mounts
        ]
        machine.run(["bash", "-ec", "\n".join(script)])


def _files_of_the_layer(folder: str, names: list[str]) -> list[str]:
    """Tell `copytree` to make the folder `diff` and to leave it empty."""
    return names if Path(folder).name == "diff" else []


def _chains(image: Image) -> Iterator[str]:
    """Yield the id of each layer together with those below. See the OCI image specification, ChainID."""
    chain = ""
    for layer in image.attrs["RootFS"]["Layers"]:
        chain = f"sha256:{sha256(f'{chain} {layer}'.encode()).hexdigest()}" if chain else str(layer)
        yield chain.removeprefix("sha256:")
