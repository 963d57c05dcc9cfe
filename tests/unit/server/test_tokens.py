"""Tests AUTH_TOKENS: stored as hashes, refused after their expiry date, made by `code-agent token`."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.config import SettingsError, load_settings
from agent.settings.token_settings import Token, TokenRefused, new_token, owner_by_token

TODAY = datetime.now(UTC).date()
DAY = timedelta(days=1)


def test_only_the_hash_of_a_token_is_kept() -> None:
    token, entry = new_token("alice")
    assert len(token) >= 43
    assert str(entry) == f"alice:{hashlib.sha256(token.encode()).hexdigest()}"
    assert token not in repr(entry)
    assert new_token("alice")[0] != token


def test_every_token_of_an_owner_is_valid() -> None:
    made = [new_token(owner) for owner in ("alice", "bob", "alice")]
    entries = [entry for _, entry in made]
    assert [owner_by_token(entries, token) for token, _ in made] == ["alice", "bob", "alice"]


def test_token_is_valid_until_the_end_of_its_last_day() -> None:
    today = datetime.now(UTC).date()  # not TODAY: a long test run may pass midnight
    token, entry = new_token("alice", today + DAY)
    assert owner_by_token([entry], token) == "alice"
    assert owner_by_token([Token("alice", entry.digest, today)], token) == "alice"
    with pytest.raises(TokenRefused, match=rf"expired: its last day was {today - DAY}.*token new alice"):
        owner_by_token([Token("alice", entry.digest, today - DAY)], token)
    with pytest.raises(TokenRefused, match="not known"):
        owner_by_token([Token("alice", entry.digest, today - DAY)], "another")


# the setting


HASH = "0" * 64


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("alice:cea_the-token-itself", "must be owner:sha256"),
        (f"alice:{HASH[1:]}", "must be owner:sha256"),
        (f"alice:{HASH}:soon", "expiry date of alice must be written as 2030-12-31"),
        (f"al ice:{HASH}", "1 to 64 letters"),
        (f"alice:{HASH},bob:{HASH}", "listed twice"),
    ],
)
def test_wrong_setting_is_explained_without_its_value(value: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as raised:
        load_settings(None, auth_tokens=value)
    assert "the-token-itself" not in str(raised.value)
    assert HASH[1:] not in str(raised.value)


def test_threads_with_owners_have_sandboxes_of_their_own(tmp_path: Path) -> None:
    entry = str(new_token("alice")[1])
    for scope in ("shared", "thread"):
        owned = load_settings(None, workspace_dir=tmp_path, auth_tokens=entry, sandbox_scope=scope)
        assert owned.scope == "thread"
        assert owned.workspace_of("a") == tmp_path / "threads" / "a"
    assert load_settings(None).scope == "shared"


# the command


def test_token_new_prints_a_token_and_its_entry() -> None:
    new = ["token", "new", "alice", "--expires", "2099-12-31"]
    printed = CliRunner().invoke(app, new).stdout.splitlines()
    as_json = json.loads(CliRunner().invoke(app, [*new, "--json"]).stdout)
    for token, entry in ((printed[1], printed[3]), (as_json["token"], as_json["entry"])):
        tokens = load_settings(None, auth_tokens=entry).auth_tokens
        assert (owner_by_token(tokens, token), tokens[0].expires) == ("alice", date(2099, 12, 31))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["al:ice"], "letters, digits"),
        (["alice", "--expires", "tomorrow"], "2030-12-31"),
        (["alice", "--expires", "2020-01-01"], "has passed"),
    ],
)
def test_token_new_explains_wrong_arguments(arguments: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["token", "new", *arguments])
    assert done.exit_code == 2
    assert why in done.output
    assert "cea_" not in done.output
