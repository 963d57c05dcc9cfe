"""The live interpreter behaves on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.interpreter.test_interpreter import TestErrors, TestOutput, TestShared

__all__ = ["TestErrors", "TestOutput", "TestShared"]
