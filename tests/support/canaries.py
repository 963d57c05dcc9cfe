"""A secret for every place of known secrets, and a search for these secrets in files and databases."""

from __future__ import annotations

import base64
import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.servers.http_server import QuietHandler, QuietServer, running

CANARIES: Mapping[str, str] = {
    "OPENAI_API_KEY": "sk-cnry-1vQ8Kq3Vn5Rt7Yw2Lp9",
    "ANTHROPIC_API_KEY": "sk-ant-cnry-2mX4Hd6Js8Fg0Bz3",
    "SERVICE_TOKEN": 'cnry-3/Ty7+Ui"9 Op1&As2=Df4',  # characters that encodings change
    "CANARY_TOKEN": "cnry-4Zx8Kq3Vn5Rt7Yw2Zx8Kq3Vn5Rt7Yw2Zx8Kq3Vn5Rt7Yw2Zx8Kq3Vn5",
    "DATABASE_URL": "cnry-5Gh6Jk7Lm8Nb9",  # the password in the URL
    "OPENAI_BASE_URL": "cnry-6Wq1Er2Ty3Ui4",
    "LANGSMITH_API_KEY": "lsv2_pt_cnry-7Cv8Bn9Mq0Wz1",
    "VAULT_TOKEN": "cnry-8Rf5Tg6Yh7Uj8Ik9",  # a secret that the gateway adds to requests
    "NOTES_TOKEN": "cnry-9Ee4Dd3Ss2Aa1Zz0",  # the credential of an MCP server
}
"""Variable -> the secret in it."""

OPENAI, ANTHROPIC, SERVICE, TOKEN, DATABASE, BASE_URL, LANGSMITH, VAULT, NOTES = CANARIES.values()
MARK = "[REDACTED]"


def environment() -> dict[str, str]:
    """Return the variables of the environment. The other secrets are in `.env`."""
    return {
        "OPENAI_API_KEY": OPENAI,
        "ANTHROPIC_API_KEY": ANTHROPIC,
        "CANARY_TOKEN": TOKEN,
        "SANDBOX_ENV_ALLOW": "CANARY_*",
        "VAULT_TOKEN": VAULT,
        "EGRESS_ALLOW": "https://api.vault.test",
        "EGRESS_CREDENTIALS": json.dumps({"api.vault.test": {"header": "X-Vault", "secret": "VAULT_TOKEN"}}),
    }


def dotenv() -> str:
    return f"SERVICE_TOKEN='{SERVICE}'\nDATABASE_URL=postgres://me:{DATABASE}@db.test/x\n"


def servers(program: Path) -> str:
    """Return an `.mcp.json` with a server that tells its credential."""
    notes = {"command": sys.executable, "args": [str(program)], "env": {"NOTES_TOKEN": NOTES}}
    return json.dumps({"mcpServers": {"notes": notes}})


LEAKS = "\n".join(
    [
        'echo "plain $CANARY_TOKEN"; echo "error $CANARY_TOKEN" >&2',
        "printf %s $CANARY_TOKEN | base64; printf x%s $CANARY_TOKEN | base64 -w 0; echo",
        'python3 -c \'import os, urllib.parse as u; k = os.environ["CANARY_TOKEN"]; '
        'print(u.quote("a=" + k), k.encode().hex(), ascii(k))\'',
        "printf %s ${CANARY_TOKEN:0:20}; sleep 0.3; printf %s ${CANARY_TOKEN:20}; echo",
        "echo sk-'cnry-1vQ8Kq'3Vn5Rt7Yw2Lp9; echo cnry-'5Gh6Jk7'Lm8Nb9; echo cnry-'8Rf5Tg6'Yh7Uj8Ik9; env",
        "mkdir -p /data/c; echo key=$CANARY_TOKEN > /data/c/x.env; touch /results/$CANARY_TOKEN.txt",
        "python3 -c 'from servers.notes import token; k = token().result; "
        'print("notes:", k, k.encode().hex())\'',
        "ls /nowhere/$CANARY_TOKEN; cat /servers/*/*.py; true",
    ]
)
"""A command that prints its secrets in every form, and writes them to files and names of files."""


def written(secret: str) -> Iterator[str]:
    """Return all forms of the secret, without the code under test."""
    raw = secret.encode()
    yield from (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], raw.hex(), raw.hex().upper())
    yield from (quote(secret), quote(secret, safe=""), quote(secret).lower(), secret[::1].replace("/", "\\/"))
    for before in range(3):
        # Without the characters that also encode neighbouring bytes.
        core = base64.b64encode(b"x" * before + raw).decode()[4 if before else 0 :].rstrip("=")[:-1]
        yield from (
            core,
            core.replace("+", "-").replace("/", "_"),
            core.replace("/", "\\/"),
            quote(core, safe=""),
        )


def leaks(data: bytes) -> set[str]:
    """Return the variables whose secrets are in `data`, in any form, also with line breaks and blanks."""
    flat = b"".join(data.split())
    return {
        name
        for name, secret in CANARIES.items()
        if any("".join(form.split()).encode() in flat for form in written(secret))
    }


def left_in(folder: Path, *, but: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the secrets in each file below `folder`. Databases are also read row by row."""
    found = {}
    for file in folder.rglob("*"):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and not file.is_symlink() and not name.startswith(but):
            leaked = leaks(name.encode()) | leaks(file.read_bytes())
            if file.suffix == ".sqlite":
                leaked |= leaks(rows(file))
            found[name] = leaked
    return {name: leaked for name, leaked in found.items() if leaked}


def rows(database: Path) -> bytes:
    """Return every value of a SQLite database: the file splits long values."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [
            name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
        ]
        values = [
            value
            for table in tables
            for row in connection.execute(f'select * from "{table}"')
            for value in row
        ]
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


_INGEST = {
    "use_multipart_endpoint": True,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 16,
    "scale_down_nempty_trigger": 4,
}
"""LangSmith's description of its interface for traces."""


class Listener(QuietServer):
    """Keeps the bodies of requests. Serves as a provider that repeats a refused key, and for traces."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.bodies: list[bytes] = []

    @property
    def port(self) -> int:
        return int(self.server_port)


class _Handler(QuietHandler):
    server: Listener

    def do_GET(self) -> None:
        self.answer(200, json.dumps({"version": "1", "batch_ingest_config": _INGEST}).encode())

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.bodies.append(body)
        if self.path.endswith("/chat/completions"):
            said = (
                f"Incorrect API key provided: {self.headers['Authorization']} in {self.headers.get('Host')}"
            )
            error = {"error": {"message": said, "type": "invalid_request_error", "code": "bad_key"}}
            self.answer(401, json.dumps(error).encode())
        else:
            self.answer(202, b"{}")

    do_PATCH = do_POST


@contextmanager
def listening() -> Iterator[Listener]:
    with running(Listener()) as server:
        yield server
