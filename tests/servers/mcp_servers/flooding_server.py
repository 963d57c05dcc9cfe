"""A server for tests, without the SDK: `flooding_server.py last` writes the id of an answer last.

Its tools are kinds of misbehaviour. It answers a call of `fine` with the text "fine".
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

LARGE = 100 * 2**20
LAST = sys.argv[1:] == ["last"]
TOOLS = (
    *("fine", "large", "endless", "errors", "notifications", "requests", "nonsense", "another_id"),
    *("half", "nested", "unfit", "log", "no_session"),
)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def answer(number: int, result: dict[str, Any]) -> None:
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    send({"result": result, **head} if LAST else {**head, "result": result})


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def misbehave(number: int, tool: str) -> None:
    if tool == "large":
        answer(number, text("x" * LARGE))
    elif tool == "endless":
        while True:
            sys.stdout.write("x" * 2**20)
    elif tool == "errors":
        for _ in range(500):
            sys.stderr.write("e" * 10_000 + "\n")
    elif tool == "notifications":
        for _ in range(1_000):
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": "n"},
                }
            )
    elif tool == "requests":
        for index in itertools.count():  # and never reads an answer, which repeats the id
            send({"jsonrpc": "2.0", "id": f"{index:010000}", "method": "roots/list", "params": {}})
    elif tool == "nonsense":
        sys.stdout.write("no JSON\n{}\n\n")
    elif tool == "half":
        answer(number, text("half of an emoji: \ud83d"))
    elif tool == "nested":
        sys.stdout.write(f'{{"id":{number},"result":{{"content":[],"x":{"[" * 100_000}{"]" * 100_000}}}}}\n')
    elif tool == "unfit":
        send({"jsonrpc": "2.0", "id": number, "result": 7})
    elif tool == "no_session":
        error = {"code": -32600, "message": "Session not found"}
        send({"jsonrpc": "2.0", "id": number, "error": error})
    elif tool == "log":
        send({"level": "info", "id": number, "msg": "a line of a log"})
    elif tool == "another_id":
        answer(number + 1_000, text("of another call"))


for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        information = {"name": "flood", "version": "1"}
        version = asked["params"]["protocolVersion"]
        capabilities: dict[str, Any] = {"tools": {}}
        answer(
            asked["id"],
            {"protocolVersion": version, "capabilities": capabilities, "serverInfo": information},
        )
    elif asked.get("method") == "tools/list":
        answer(asked["id"], {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
    elif asked.get("method") == "tools/call":
        misbehave(asked["id"], asked["params"]["name"])
        if asked["params"]["name"] != "large":
            answer(asked["id"], text("fine"))
    elif "id" in asked and "method" in asked:
        send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "unknown"}})
