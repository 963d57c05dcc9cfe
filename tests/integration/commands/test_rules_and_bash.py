"""bash in the sandbox judges which programs a command runs, against what approval rules believe."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from libs.middleware.approvals.rules import Rules
from libs.middleware.approvals.rules.shell_words import Word, plain_commands
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.support.commands.evading_commands import COMMANDS, RULES
from tests.support.commands.generated_commands import PROGRAMS, command_lines
from tests.support.sandboxes import DOCKER

SEED = 25

JUDGE = r"""
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

root = "/tmp/judge"
os.makedirs(f"{root}/bin")
for name in json.load(open("/workspace/programs.json")):
    with open(f"{root}/bin/{name}", "w") as file:
        # One write for each program that runs: its name and words, each ended by a NUL, then a mark.
        file.write('#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@" $\'\\x1e\' >> "$JUDGE"\n')
    os.chmod(f"{root}/bin/{name}", 0o755)

def judged(numbered):
    number, command = numbered
    folder, log = f"{root}/{number}", f"{root}/{number}.log"
    os.mkdir(folder)
    for name in ("a", "b", "status", "push"):
        open(f"{folder}/{name}", "w").close()
    env = {"PATH": f"{root}/bin", "HOME": folder, "JUDGE": log, "LANG": "C.UTF-8"}
    try:
        subprocess.run(
            ["/bin/bash", "-c", 'eval "$COMMAND"'], cwd=folder, timeout=20,
            env={**env, "COMMAND": command.replace("\0", "")},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        pass
    if not os.path.exists(log):
        return []
    runs = open(log, "rb").read().decode(errors="surrogateescape").split("\0\x1e\0")
    return [run.split("\0") for run in runs if run]

with ThreadPoolExecutor(4) as pool:
    ran = list(pool.map(judged, enumerate(json.load(open("/workspace/commands.json")))))
json.dump(ran, open("/workspace/ran.json", "w"))
"""
"""Runs each command with programs that record their words."""


def judged(sandbox: ChannelSandbox, commands: list[str], programs: tuple[str, ...]) -> list[list[list[str]]]:
    """Return, for each command, the programs that bash ran, each with its words."""
    for name, content in (("commands", json.dumps(commands)), ("programs", json.dumps(programs))):
        sandbox.write_file(f"/workspace/{name}.json", content.encode())
    sandbox.write_file("/workspace/judge.py", JUDGE.encode())
    done = sandbox.run("python3 /workspace/judge.py", timeout=300)
    assert done.exit_code == 0, done.output
    ran: list[list[list[str]]] = json.loads(sandbox.read_file("/workspace/ran.json"))
    return ran


def same(believed: tuple[Word, ...], ran: list[str]) -> bool:
    """Return whether a program that ran is one that was believed. A word that bash makes may be any words."""
    pattern = "\0".join(
        "*" if word is None else word.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
        for word in believed
    )
    return fnmatchcase("\0".join(ran), pattern)


@pytest.mark.parametrize("sandbox", [DOCKER], indirect=True)
def test_bash_runs_what_the_rules_believe(sandbox: ChannelSandbox, tmp_path: Path) -> None:
    text = RULES + '[[rule]]\ntool = "execute"\nprefix = ["rm"]\ndecision = "ask"\n'
    (tmp_path / "rules.toml").write_text(text)
    rules = Rules.load(tmp_path / "rules.toml")
    lines = [*COMMANDS, *command_lines(SEED, 500)]
    programs = (*PROGRAMS, "wc", "head", "grep")
    allowed = slipped = 0
    for line, ran in zip(lines, judged(sandbox, lines, programs), strict=True):
        if rules.decide("execute", {"command": line}) != "allow":
            slipped += any(run[0] == "evil" for run in ran)
            continue
        allowed += 1
        believed = plain_commands(line) or []
        for run in ran:
            assert any(same(words, run) for words in believed), f"{line!r} ran {run}, believed {believed}"
            assert run[0] not in ("evil", "rm"), line
            assert run[0] != "git" or run[1] in ("status", "diff", "log"), line
    assert min(allowed, slipped) > 100, "the lines must test the rules"
