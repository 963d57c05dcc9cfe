"""Values that programs keep: from the module inside, through the gateway, to the store of the host (X10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from libs.exec_tool.kv_service import HOST, KvService
from libs.gateway.gateway import Gateway, GatewayDoor
from libs.gateway.limits import EgressLimits
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules
from libs.persistence.database import SqliteDatabase
from libs.persistence.thread_store import MOST_KEYS, ThreadStore
from libs.sandbox.local import LocalSandbox

KV = (files("libs.exec_tool") / "inside_kv.py").read_bytes()


class Program:
    """Runs programs in a sandbox of a thread, all on one store."""

    def __init__(self, folder: Path) -> None:
        self.database = SqliteDatabase(folder / "memory.sqlite")
        service = KvService(ThreadStore(self.database))
        self._gateway = Gateway(
            lambda: Proxy(rules=Rules(), services={HOST: service}), limits=EgressLimits(rate=10_000)
        )
        self._folder = folder
        self._count = 0

    def __call__(self, code: str, thread: str = "1") -> Any:
        self._count += 1

        def door() -> GatewayDoor:
            return self._gateway.door()

        with LocalSandbox(self._folder / str(self._count), egress=door) as sandbox:
            sandbox.write_file("kv.py", KV)
            sandbox.write_file("program.py", f"import json, kv\n{code}".encode())
            sandbox.start()
            assert sandbox._channel and sandbox._channel.door
            sandbox._channel.door.belongs_to("box", thread)
            done = sandbox.run("python3 program.py")
        assert done.exit_code == 0, done.output
        return json.loads(done.output.splitlines()[-1])

    def close(self) -> None:
        self._gateway.close()
        self.database.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.close()


def test_a_value_is_there_for_the_next_program(program: Program) -> None:
    program("kv.put('count', {'n': [1, None, 'ü']}); print(1)")
    assert program("print(json.dumps(kv.get('count')))") == {"n": [1, None, "ü"]}


def test_what_is_not_there(program: Program) -> None:
    assert program("print(json.dumps([kv.get('x'), kv.get('x', 7), kv.delete('x'), kv.keys()]))") == [
        None,
        7,
        False,
        [],
    ]


def test_null_is_a_value_and_delete_removes(program: Program) -> None:
    code = (
        "kv.put('a', None); kv.put('b', 0)\n"
        "print(json.dumps([kv.keys(), kv.get('a', 7), kv.delete('b'), kv.keys()]))"
    )
    assert program(code) == [["a", "b"], None, True, ["a"]]


@pytest.mark.parametrize("key", ["a b", "ä/ö?#%", "../x", "'; DROP TABLE thread_values; --", "x" * 200])
def test_any_text_is_a_key(program: Program, key: str) -> None:
    assert program(f"kv.put({key!r}, 1); print(json.dumps([kv.get({key!r}), kv.keys()]))") == [1, [key]]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("kv.put('', 1)", ""),
        ("kv.put('x' * 201, 1)", "a key has 1 to 200 characters"),
        ("kv.put('x', 'y' * (1 << 20))", "1,048,576 bytes"),
        (f"[kv.put(str(n), 1) for n in range({MOST_KEYS + 1})]", "at most 1,000 keys"),
    ],
)
def test_what_is_refused_is_said(program: Program, code: str, reason: str) -> None:
    told = program(
        f"try:\n    {code}\n    print('null')\n"
        "except RuntimeError as error:\n    print(json.dumps(str(error)))"
    )
    assert reason in told
    assert told.startswith("kv: ")


def test_threads_share_nothing(program: Program) -> None:
    program("kv.put('x', 1); print(1)", thread="a")
    assert program("print(json.dumps([kv.get('x'), kv.keys()]))", thread="b") == [None, []]


def test_whose_it_is_nothing_inside_can_say(program: Program) -> None:
    program("kv.put('x', 1); print(1)", thread="a")
    code = (
        "import urllib.request\n"
        "asked = urllib.request.Request('http://kv.gateway/x?thread=a', headers={'X-Thread': 'a'})\n"
        "try:\n    print(urllib.request.urlopen(asked).read().decode())\n"
        "except Exception as error:\n    print(error.code)"
    )
    assert program(code, thread="b") == 404


def test_without_a_thread_nothing_is_kept(program: Program) -> None:
    code = "try:\n    kv.put('x', 1)\nexcept RuntimeError as error:\n    print(json.dumps(str(error)))"
    told = program(code, thread="")
    assert "there is no thread" in told


def test_other_methods_and_bodies_are_refused(program: Program) -> None:
    code = (
        "import urllib.request\n"
        "codes = []\n"
        "for method, body in (('POST', b'1'), ('PUT', b'{'), ('PUT', b'\\xff')):\n"
        "    try:\n"
        "        asked = urllib.request.Request('http://kv.gateway/x', data=body, method=method)\n"
        "        urllib.request.urlopen(asked)\n"
        "    except Exception as error:\n"
        "        codes.append(error.code)\n"
        "print(json.dumps(codes))"
    )
    assert program(code) == [405, 400, 400]
