"""A server for tests, without the SDK: its tool `evaluate` returns the value of a Python expression."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "evaluate",
    "inputSchema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}


def answered(asked: dict[str, Any]) -> dict[str, Any]:
    parameters = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            version, information = parameters["protocolVersion"], {"name": "evaluate", "version": "1"}
            result = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": information,
            }
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            value = str(eval(parameters["arguments"]["code"], {}))
            result = {"content": [{"type": "text", "text": value}]}
        case _:
            return {"error": {"code": -32601, "message": "unknown"}}
    return {"result": result}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answered(request)}), flush=True)
