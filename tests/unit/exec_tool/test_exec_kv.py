"""The key-value store: from the module `kv` in the sandbox through the gateway to the host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from libs.exec_tool.kv_service import HOST, KvService
from libs.gateway.gateway_limits import EgressLimits
from libs.gateway.gateway_thread import Gateway, GatewayDoor
from libs.gateway.proxy import Proxy
from libs.gateway.rules.allow_list import Rules
from libs.persistence import thread_store
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from libs.sandbox.host.local_sandbox import LocalSandbox

KV = (files("libs.exec_tool.inside") / "kv_module.py").read_bytes()


class Program:
    """Runs programs in sandboxes of threads, with one store."""

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


def test_unusual_keys_and_values(program: Program) -> None:
    keys = sorted(["a b", "ä/ö?#%", "../x", "'; DROP TABLE thread_values; --", "x" * 200])
    code = f"""
absent = [kv.get('x'), kv.get('x', 7), kv.delete('x'), kv.keys()]
for key in {keys!r}: kv.put(key, None)
kv.put('b', 0)
print(json.dumps([absent, kv.get('../x', 7), kv.delete('b'), sorted(kv.keys())]))
"""
    assert program(code) == [[None, 7, False, []], None, True, keys]


def test_limits_are_errors_with_the_reason(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_store, "MOST_KEYS", 3)
    code = """
def refused(*puts):
    try: [kv.put(*each) for each in puts]
    except (RuntimeError, ValueError) as error: return str(error)
print(json.dumps([refused(('', 1)), refused(('x' * 201, 1)), refused(('x', 'y' * (1 << 20))),
                  refused(*((str(n), 1) for n in range(4)))]))
"""
    told = program(code)
    assert all(each.startswith("kv: ") for each in told)
    for each, reason in zip(
        told[1:], ("1 to 200 characters", "1,048,576 bytes", "at most 3 keys"), strict=True
    ):
        assert reason in each


def test_what_would_come_back_changed_is_refused(program: Program) -> None:
    code = r"""
def refused(call, *given):
    try: call(*given)
    except (TypeError, ValueError) as error: return str(error)
print(json.dumps([refused(kv.put, b'x', 1), refused(kv.put, 'x', {1: 'a', '1': 'b'}),
                  refused(kv.put, 'x', [{None: 1}]), refused(kv.put, 'x', ['\ud83d\ude00']),
                  refused(kv.put, 'x', float('nan')), refused(kv.put, 'x', json.loads('[' * 600 + ']' * 600)),
                  refused(kv.get, '', 7), refused(kv.delete, '')]))
"""
    told = program(code)
    reasons = ("a text, not bytes", "keys", "keys", "surrogate", "", "nested", "character", "character")
    for each, reason in zip(told, reasons, strict=True):
        assert reason in each
    assert program("print(json.dumps(kv.keys()))") == []


def test_values_are_saved_for_their_thread_only(program: Program) -> None:
    value = {"n": [1, None, "ü"]}
    program(f"kv.put('x', {value}); print(1)", thread="a")
    assert program("print(json.dumps(kv.get('x')))", thread="a") == value
    assert program("print(json.dumps([kv.get('x'), kv.keys()]))", thread="b") == [None, []]
    no_thread = "try:\n    kv.put('x', 1)\nexcept RuntimeError as error:\n    print(json.dumps(str(error)))"
    assert "there is no thread" in program(no_thread, thread="")


def test_request_cannot_choose_another_thread(program: Program) -> None:
    program("kv.put('x', 1); print(1)", thread="a")
    code = (
        "import urllib.request\n"
        "asked = urllib.request.Request('http://kv.gateway/x?thread=a', headers={'X-Thread': 'a'})\n"
        "try:\n    print(urllib.request.urlopen(asked).read().decode())\n"
        "except Exception as error:\n    print(error.code)"
    )
    assert program(code, thread="b") == 404


def test_wrong_methods_and_bodies_are_refused(program: Program) -> None:
    code = (
        "import urllib.request\n"
        "codes = []\n"
        "for method, body in (('POST', b'1'), ('PUT', b'{'), ('PUT', b'\\xff')):\n"
        "    asked = urllib.request.Request('http://kv.gateway/x', data=body, method=method)\n"
        "    try:\n        urllib.request.urlopen(asked)\n"
        "    except Exception as error:\n        codes.append(error.code)\n"
        "print(json.dumps(codes))"
    )
    assert program(code) == [405, 400, 400]
