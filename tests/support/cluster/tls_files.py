"""Files with which Ray, and the connections of a server to its nodes, use TLS."""

from __future__ import annotations

from pathlib import Path

import trustme

__all__ = ["tls_files"]


def tls_files(folder: Path, authority: trustme.CA, address: str) -> dict[str, str]:
    """Write the files of one machine below a folder. Return the environment that names them."""
    certificate = authority.issue_cert(address)
    files = {
        "RAY_TLS_CA_CERT": authority.cert_pem,
        "RAY_TLS_SERVER_CERT": certificate.cert_chain_pems[0],
        "RAY_TLS_SERVER_KEY": certificate.private_key_pem,
    }
    for variable, content in files.items():
        content.write_to_path(folder / f"{address}-{variable}")
    return {"RAY_USE_TLS": "1", **{variable: str(folder / f"{address}-{variable}") for variable in files}}
