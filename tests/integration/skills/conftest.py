"""Fixtures for skills that agents propose, and for `skills.tables`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.config import build_backend
from agent.settings import load_settings
from libs.backends.docker import DockerExecutionBackend
from tests.integration.skills.proposing_agents import Agents
from tests.integration.skills.table_session import ORDERS, Session


@pytest.fixture(params=["deep", pytest.param("code", marks=pytest.mark.thorough)])
async def agents(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agents]:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", skills_evolve=True)
    backend = build_backend(settings)
    with backend.default:  # type: ignore[attr-defined]
        yield Agents(request.param, settings, backend)


@pytest.fixture(scope="module")
def session(backend: DockerExecutionBackend) -> Session:
    return Session(backend)


@pytest.fixture
def orders(session: Session) -> Session:
    session.put(ORDERS)
    session.run("table = load('/data/case.csv')")
    return session
