"""How the container's first process begins (standard library only)."""

from __future__ import annotations

# The module `signal` around it costs 5 ms to import, and `os` around the other a millisecond and a half.
import _signal  # type: ignore[import-not-found]
import posix as os

from libs.sandbox.frames import Worker
from libs.sandbox.processes import become_subreaper, hide_from_own_uid, kill_trees
from libs.sandbox.seccomp import forbid_calls
from libs.sandbox.worker import fork_worker

__all__ = ["main"]

_TRUSTED = "/run/trusted.crt"
_TRUST_VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE"),
)
"""By which OpenSSL and Python, requests, curl, pip, git, Node and boto find what they trust."""


def _name_own_user() -> None:
    """Give the uid of this container a name: without one, `whoami` and `getpass` fail.

    The image's /etc/passwd and /etc/group are links to /run, the only place that can be written at start.
    """
    uid, gid, home = os.getuid(), os.getgid(), os.environ[b"HOME"].decode()
    lines = {"passwd": f"agent:x:{uid}:{gid}::{home}:/bin/bash\n", "group": f"agent:x:{gid}:\n"}
    for name, line in lines.items():
        taken = {"agent", line.split(":")[2].strip()}
        with open(f"/etc/{name}.image") as image, open(f"/run/{name}", "w") as file:
            for entry in image:
                fields = entry.split(":")
                if not taken & {fields[0], fields[2].strip()}:
                    file.write(entry)
            file.write(line)


def _make_folder(path: str) -> None:
    """Make a folder where it is missing, and those that it lies in."""
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        above = path.rpartition("/")[0]
        if not above:
            raise
        _make_folder(above)
        os.mkdir(path)


def _copy_font_list(folder: str) -> None:
    """Spare the first plot the search for fonts: the image holds its result; matplotlib wants to write."""
    source = "/etc/skel/.matplotlib"
    try:
        _make_folder(folder)
        for name in os.listdir(source):
            with open(f"{source}/{name}", "rb") as ready, open(f"{folder}/{name}", "wb") as file:
                file.write(ready.read())
    except OSError:
        pass  # an image without it, or no room: matplotlib looks for itself


def _trust(certificate: str) -> None:
    """Have programs trust a certificate besides the image's: the variables for that name this bundle."""
    with open("/etc/ssl/certs/ca-certificates.crt") as image, open(_TRUSTED, "w") as file:
        file.write(image.read())
        file.write(certificate)
    for name in _TRUST_VARIABLES:
        # `environ` is a copy here, unseen by what starts a program without naming its variables.
        os.environ[name.encode()] = _TRUSTED.encode()
        os.putenv(name, _TRUSTED)


def _private(name: bytes, default: bytes = b"") -> bytes:
    """A variable for this process alone, which no program inside is to find."""
    os.unsetenv(name)
    return os.environ.pop(name, default)


def main() -> None:
    """Serve standard input until it ends. Started by the image, or by LocalSandbox outside a container.

    Commands get this process's environment and working folder: both are what the host has set. Two variables
    of it are for this process alone: SANDBOX_PROXY, the port of the proxy, and SANDBOX_TRUST, a certificate.
    """
    proxy_port = int(_private(b"SANDBOX_PROXY", b"0"))
    certificate = _private(b"SANDBOX_TRUST").decode()
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
    # Its shell starts on another processor, while the rest is loaded and done here.
    worker = fork_worker(Worker.RUN, ())
    from libs.sandbox.supervisor import Supervisor

    if first:
        _name_own_user()
        _copy_font_list(os.environ[b"MPLCONFIGDIR"].decode().rstrip("/"))
    Supervisor(worker, proxy_port).serve()
    if not first:
        kill_trees(os.getpid())
    os._exit(0)
