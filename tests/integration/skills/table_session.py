"""An interpreter in a container with `skills.tables` imported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend

START = """
import json
import pandas as pd
from skills.tables import in_period, load, per_period, plot, totals

def show(found):
    if isinstance(found, pd.Series):
        index = [list(key) if isinstance(key, tuple) else key for key in found.index.tolist()]
        found = [index, found.astype(object).where(found.notna(), None).tolist()]
    print(json.dumps(found, default=str))
"""

ORDERS = """\
id,day,region,amount,qty,note
1,2024-01-05,North,"$1,000.50",1,x
2,2024-01-31,north ,$2.25,2,
3,2024-02-29,South,N/A,3,y
4,2024-04-01,North,$3,4,x
5,,  ,$4,5,x
5,,  ,$4,5,x
"""


class Session:
    """A live interpreter with the library imported: what a block prints, or its error."""

    def __init__(self, backend: DockerExecutionBackend) -> None:
        self.backend = backend
        assert self.run(START) == ""

    def run(self, code: str) -> str:
        result = self.backend.sandbox.run_python(code, session="tables", timeout=60)
        return result.output + result.stderr

    def put(self, content: str | bytes, name: str = "case.csv") -> str:
        path = f"/workspace/data/{name}"
        (uploaded,) = self.backend.upload_files(
            [(path, content.encode() if isinstance(content, str) else content)]
        )
        assert uploaded.error is None
        return path

    def show(self, expression: str) -> Any:
        """The value of an expression, from JSON in the last line that is printed."""
        output = self.run(f"show({expression})")
        try:
            return json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            pytest.fail(output)

    def error(self, expression: str) -> str:
        output = self.run(expression)
        assert "Traceback" in output
        return output
