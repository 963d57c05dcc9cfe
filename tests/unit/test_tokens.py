"""AUTH_TOKENS: hashed at rest, compared in constant time, refused when their day is over (V3)."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.config import SettingsError, load_settings
from agent.tokens import Token, TokenRefused, new_token, owner_by_token

TODAY = datetime.now(UTC).date()
DAY = timedelta(days=1)


def test_a_token_is_long_and_only_its_hash_is_kept() -> None:
    token, entry = new_token("alice")
    assert len(token) >= 43
    assert str(entry) == f"alice:{hashlib.sha256(token.encode()).hexdigest()}"
    assert token not in repr(entry)
    assert new_token("alice")[0] != token


def test_each_owner_is_found_by_each_of_their_tokens() -> None:
    made = [new_token(owner) for owner in ("alice", "bob", "alice")]
    entries = [entry for _, entry in made]
    assert [owner_by_token(entries, token) for token, _ in made] == ["alice", "bob", "alice"]


@pytest.mark.parametrize("given", [None, "", "x", "cea_", "a" * 5000, "é\udcff", "alice"])
def test_what_is_no_token_lets_nobody_in(given: str | None) -> None:
    _, entry = new_token("alice")
    with pytest.raises(TokenRefused, match="needed" if not given else "not known"):
        owner_by_token([entry], given)
    with pytest.raises(TokenRefused, match="not known"):
        owner_by_token([entry], entry.digest)


def test_a_token_holds_until_the_end_of_its_last_day() -> None:
    token, entry = new_token("alice", TODAY + DAY)
    assert owner_by_token([entry], token) == "alice"
    assert owner_by_token([Token("alice", entry.digest, TODAY)], token) == "alice"
    with pytest.raises(TokenRefused, match=rf"expired: its last day was {TODAY - DAY}.*token new alice"):
        owner_by_token([Token("alice", entry.digest, TODAY - DAY)], token)
    with pytest.raises(TokenRefused, match="not known"):
        owner_by_token([Token("alice", entry.digest, TODAY - DAY)], "another")


@pytest.mark.parametrize("owner", ["", "a b", "a:b", "a,b", "a.b", "-a", "a" * 65, "langgraph", "é"])
def test_an_owner_has_a_plain_name(owner: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        new_token(owner)


# the setting


def test_the_setting_is_read_as_it_is_printed(tmp_path: Path) -> None:
    entries = [new_token("alice")[1], new_token("bob", date(2099, 12, 31))[1]]
    (tmp_path / ".env").write_text(
        f"AUTH_TOKENS= {entries[0]} , {str(entries[1]).upper().replace('BOB', 'bob')}"
    )
    assert load_settings(tmp_path / ".env").auth_tokens == tuple(entries)


HASH = "0" * 64


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("cea_the-token-itself", "must be owner:sha256"),
        ("alice:cea_the-token-itself", "must be owner:sha256"),
        (f"alice:{HASH[1:]}", "must be owner:sha256"),
        (f"alice:{HASH}:soon", "expiry date of alice must be written as 2030-12-31"),
        (f"alice:{HASH}:2030-02-30", "expiry date of alice must be written"),
        (f"al ice:{HASH}", "1 to 64 letters"),
        (f"alice:{HASH},bob:{HASH}", "listed twice"),
    ],
)
def test_a_wrong_setting_is_explained_and_not_repeated(value: str, why: str) -> None:
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


def test_the_command_prints_a_token_and_the_entry_that_lets_it_in() -> None:
    done = CliRunner().invoke(app, ["token", "new", "alice", "--expires", "2099-12-31"])
    assert done.exit_code == 0, done.output
    _, token, _, entry = done.stdout.splitlines()
    settings = load_settings(None, auth_tokens=entry)
    assert settings.auth_tokens[0].expires == date(2099, 12, 31)
    assert owner_by_token(settings.auth_tokens, token) == "alice"


def test_the_command_for_programs() -> None:
    done = CliRunner().invoke(app, ["token", "new", "bob", "--json"])
    said = json.loads(done.stdout)
    assert owner_by_token(load_settings(None, auth_tokens=said["entry"]).auth_tokens, said["token"]) == "bob"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["al:ice"], "letters, digits"),
        (["alice", "--expires", "tomorrow"], "2030-12-31"),
        (["alice", "--expires", "2020-01-01"], "has passed"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["token", "new", *arguments])
    assert done.exit_code == 2
    assert why in done.output
    assert "cea_" not in done.output
