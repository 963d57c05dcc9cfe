"""A server for tests, without the SDK: `evaluating_server.py [NAME...]`.

Each of its tools, by default one with the name `evaluate`, returns the value of a Python expression.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
NAMES = sys.argv[1:] or ["evaluate"]


def answered(asked: dict[str, Any]) -> dict[str, Any]:
    parameters = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            version, information = parameters["protocolVersion"], {"name": "evaluate", "version": "1"}
            result = {
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": information,
            }
        case "tools/list":
            result = {"tools": [{"name": name, "inputSchema": SCHEMA} for name in NAMES]}
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
