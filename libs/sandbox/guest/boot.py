"""Starts the container's first process (standard library only)."""

from __future__ import annotations

# The module `signal` takes 4 ms to import.
import _signal  # type: ignore[import-not-found]
import os

from libs.sandbox.guest.seccomp import forbid_calls
from libs.sandbox.guest.worker import fork_worker
from libs.sandbox.guest.workers.kill_process_trees import become_subreaper, hide_from_own_uid, kill_trees
from libs.sandbox.guest.workers.skill_commands import take_places
from libs.sandbox.wire.frames import Worker

__all__ = ["main"]

_TRUSTED = "/run/trusted.crt"
_TRUST_VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE"),
)
"""Variables for the trusted certificates of OpenSSL and Python, requests, curl, pip, git, Node and boto."""


def _name_own_user() -> None:
    """Give the uid of this container a name. Without a name, `whoami` and `getpass` fail.

    The image's /etc/passwd and /etc/group are links to /run, which is writable.
    """
    uid, gid, home = os.getuid(), os.getgid(), os.environ["HOME"]
    lines = {"passwd": f"agent:x:{uid}:{gid}::{home}:/bin/bash\n", "group": f"agent:x:{gid}:\n"}
    for name, line in lines.items():
        taken = {"agent", line.split(":")[2].strip()}
        with open(f"/etc/{name}.image") as image, open(f"/run/{name}", "w") as file:
            for entry in image:
                fields = entry.split(":")
                if not taken & {fields[0], fields[2].strip()}:
                    file.write(entry)
            file.write(line)


def _copy_font_list(folder: str) -> None:
    """Copy the image's font list to a writable folder, so that the first plot does not search for fonts."""
    source = "/etc/skel/.matplotlib"
    try:
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(source):
            with open(f"{source}/{name}", "rb") as ready, open(f"{folder}/{name}", "wb") as file:
                file.write(ready.read())
    except OSError:
        pass  # no list in the image, or no room: matplotlib searches itself


def _trust(certificate: str) -> None:
    """Let programs trust one more certificate. Their variables name a bundle that contains it."""
    with open("/etc/ssl/certs/ca-certificates.crt") as image, open(_TRUSTED, "w") as file:
        file.write(image.read())
        file.write(certificate)
    for name in _TRUST_VARIABLES:
        os.environ[name] = _TRUSTED


def main() -> None:
    """Serve standard input until it ends. Started by the image, or by LocalSandbox outside a container.

    Commands get this process's environment and working folder, as the host has set them. Three variables are
    for this process only: SANDBOX_PROXY (the port of the proxy), SANDBOX_TRUST (a certificate) and
    SANDBOX_COMMANDS (see `skill_commands.py`).
    """
    # Removed from the environment, so that no program inside sees them.
    proxy_port = int(os.environ.pop("SANDBOX_PROXY", "0"))
    certificate = os.environ.pop("SANDBOX_TRUST", "")
    take_places()
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    first = os.getpid() == 1
    if not first:
        become_subreaper()
    elif certificate:
        _trust(certificate)
    os.umask(0o022)
    hide_from_own_uid()
    if first:
        forbid_calls()
    # The shell of this worker starts while the other modules load here.
    worker = fork_worker(Worker.RUN, ())
    from libs.sandbox.guest.supervisor import Supervisor

    if first:
        _name_own_user()
        _copy_font_list(os.environ["MPLCONFIGDIR"])
    Supervisor(worker, proxy_port).serve()
    if not first:
        kill_trees(os.getpid())
    os._exit(0)
