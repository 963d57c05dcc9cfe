"""The rules file: which calls its rules allow, ask about and deny, and what is wrong with a file."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.middleware.approvals.rules import Rules, RulesError, RulesFile
from libs.middleware.approvals.rules.shell_words import plain_commands
from tests.support.commands.evading_commands import COMMANDS, RULES

GIT = """
[[rule]]
tool = "execute"
prefix = ["git"]
decision = "allow"
"""
NO_PUSH = """
[[rule]]
tool = "execute"
prefix = ["git", "push"]
decision = "deny"
"""


def load(folder: Path, text: str) -> Rules:
    (folder / "rules.toml").write_text(text)
    return Rules.load(folder / "rules.toml")


def decide(rules: Rules, command: str) -> str:
    return rules.decide("execute", {"command": command})


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    return load(tmp_path_factory.mktemp("rules"), RULES)


class TestAllow:
    def test_no_evading_command_is_allowed(self, common: Rules) -> None:
        assert len(COMMANDS) > 250
        assert [command for command in COMMANDS if decide(common, command) != "ask"] == []

    @pytest.mark.parametrize(
        "command",
        [
            "git status",
            "git status -s; git log --oneline -n 3 | head -n 2 && ls",
            "ls *.csv [ab]? ~ {}",
            "'git' \"status\"",
            "git \\\n  diff HEAD~1 \\\n  -- 'a b'",
            "cd /data\nls # all files\n\n# done\ncat x",
            "echo 'a; evil $(x) `y`' \"it's | <here>\" a\\;b é",
            "grep -c 'a\nb' x=y",
        ],
    )
    def test_plain_commands_of_allowed_programs_are_allowed(self, common: Rules, command: str) -> None:
        assert decide(common, command) == "allow"

    @given(words=st.lists(st.text(st.characters(min_codepoint=32, exclude_characters="\x7f"), max_size=8)))
    def test_quoted_words_are_read_as_bash_reads_them(self, common: Rules, words: list[str]) -> None:
        command = shlex.join(["echo", *words])
        read = plain_commands(command)
        assert read is None or read == [("echo", *words)]
        assert decide(common, command) == "allow" or read is None or max(command) >= "\u0080"

    @given(
        before=st.sampled_from(["", "ls ", "ls;", "git status\n", "echo 'a' ", 'echo "a"', "ls #", "ls \\"]),
        odd=st.text("$`<>(){}&\\'\"|;#!*?[]~= \n\tab", max_size=6),
        after=st.sampled_from(["evil", " evil", "\nevil", ";evil", "'evil'", "}evil", ")evil\n"]),
    )
    def test_another_program_is_never_believed_allowed(
        self, common: Rules, before: str, odd: str, after: str
    ) -> None:
        command = before + odd + after
        if decide(common, command) == "allow":
            read = plain_commands(command) or []
            assert all(words[0] in {"git", "ls", "echo"} for words in read)

    def test_rules_together_allow_a_command(self, tmp_path: Path) -> None:
        rules = load(tmp_path, GIT + GIT.replace("git", "ls"))
        assert [decide(rules, each) for each in ("git x && ls", "git x && rm")] == ["allow", "ask"]

    def test_exact_allows_nothing_else(self, tmp_path: Path) -> None:
        text = "for f in *; do echo $f > /tmp/x; done"
        rules = load(tmp_path, f'[[rule]]\ntool = "execute"\nexact = "{text}"\ndecision = "allow"\n')
        assert [decide(rules, each) for each in (text, f"{text} ", f"{text}; ls")] == ["allow", "ask", "ask"]

    def test_other_arguments_are_not_covered(self, tmp_path: Path) -> None:
        rules = load(tmp_path, GIT)
        assert rules.decide("execute", {"command": "git x", "timeout": 5}) == "allow"
        assert rules.decide("execute", {"command": "git x", "cwd": "/tmp"}) == "ask"
        assert rules.decide("execute", {"command": ["git", "x"]}) == "ask"
        assert rules.decide("execute", {}) == "ask"
        assert rules.decide("execute_code", {"language": "bash", "code": "git x"}) == "ask"


class TestDeny:
    @pytest.mark.parametrize(
        "command",
        [
            *(
                "git push",
                "git  'push' origin",
                "ls; git push",
                "ls $(git push)",
                "(git push)",
                "git push > x",
            ),
            *(
                "git > /dev/null push",
                "> x git push",
                "A=1 git push",
                "git pu\\\nsh",
                "\\git push",
                "git $'push'",
            ),
            *("/usr/bin/git push", "git -C . push", "git --no-pager -c a=b push", 'git -C "$x" push'),
            *("f() { git push; }", "! git push", "time git push", "coproc git push", "env A=b git push"),
            *(
                "echo x | xargs -n 1 git push",
                "find . -exec git push \\;",
                "timeout 5 git push",
                "exec git push",
            ),
            *(
                "bash -c 'git push'",
                "sh <<< 'git push'",
                "bash <<E\ngit push\nE",
                'eval "git push"',
                "eval git 'push'",
            ),
            *(
                "trap 'git push' EXIT",
                "env bash -c 'ls; git push'",
                "echo ${x:-`git push`}",
                "[[ $(git push) ]]",
            ),
            *("cat <<E\n$(git push)\nE", "if x; then git push; fi", "git status; git push #", "git push &"),
        ],
    )
    def test_denied_program_is_found_anywhere(self, tmp_path: Path, command: str) -> None:
        assert decide(load(tmp_path, GIT + NO_PUSH), command) == "deny"

    @pytest.mark.parametrize(
        "command",
        ["git $x", "git p*", "git {push,}", "git pus?", "$x push", "git -c a push", "git $(x) push"],
    )
    def test_no_allow_covers_what_may_be_denied(self, tmp_path: Path, command: str) -> None:
        assert decide(load(tmp_path, GIT + NO_PUSH), command) in ("ask", "deny")

    def test_no_allow_covers_a_program_that_may_start_a_denied_program(self, tmp_path: Path) -> None:
        rules = load(tmp_path, NO_PUSH + GIT.replace("git", "mytool"))
        assert decide(rules, "mytool --run git push") == "ask"
        assert decide(rules, "mytool --run git pull") == "allow"

    @pytest.mark.parametrize(
        "text",
        [
            *("-S 'git push'", "'-Sgit push'", "-vSgit push", "--split='git -C x push'", "'1e git push' x"),
            *("--filter='/bin/git push;cat'", "'BEGIN{system(\"git push\")}'", "-c alias.x='!git push' x"),
        ],
    )
    def test_no_allow_covers_a_text_that_names_a_denied_program(self, tmp_path: Path, text: str) -> None:
        rules = load(tmp_path, NO_PUSH + GIT.replace("git", "mytool"))
        assert decide(rules, f"mytool {text}") == "ask"
        assert decide(rules, f"mytool {text.replace('push', 'pull')}") == "allow"

    def test_a_text_that_names_a_denied_program_is_not_denied(self, tmp_path: Path) -> None:
        assert decide(load(tmp_path, GIT + NO_PUSH), "git log 'git push'") == "ask"

    @pytest.mark.parametrize("command", ["git stash push", "git commit -m push", "git log 'do not push'"])
    def test_other_commands_with_the_same_words_are_not_denied(self, tmp_path: Path, command: str) -> None:
        assert decide(load(tmp_path, GIT + NO_PUSH), command) == "allow"

    @pytest.mark.parametrize("slow", ["<<A\n" * 25_000, "a=(" * 20_000], ids=["here-documents", "arrays"])
    def test_command_that_takes_long_to_read_is_denied(self, tmp_path: Path, slow: str) -> None:
        begun = time.thread_time()
        assert decide(load(tmp_path, NO_PUSH), slow) == "deny"
        assert time.thread_time() - begun < 5
        assert decide(load(tmp_path, NO_PUSH), slow[:300]) == "ask"

    def test_deny_then_ask_then_allow(self, tmp_path: Path) -> None:
        text = GIT + NO_PUSH.replace("push", "pull").replace("deny", "ask") + NO_PUSH
        rules = load(tmp_path, text)
        found = [decide(rules, each) for each in ("git log", "git pull", "git pull; git push", "ls")]
        assert found == ["allow", "ask", "deny", "ask"]


class TestFiles:
    RULES = """
[[rule]]
tool = "write_file"
path = ["/results/**", "/workspace/notes/*.md"]
decision = "allow"
match = ["/results/a/.b", "/workspace/results/x", "//results/x", "/workspace/notes/a.md"]
not_match = ["/results/../data/x", "results/x", "/resultsx", "/workspace/notes/a/b.md", "/results"]

[[rule]]
tool = "delete"
path = "/results/**"
decision = "allow"

[[rule]]
tool = "delete"
path = ["/results/keep/**", "/results/*/raw.csv"]
decision = "deny"
match = ["/results/keep/x", "/results", "/workspace", "/results/keep", "/results/a/raw.csv"]
not_match = ["/results/other"]
"""

    @pytest.mark.parametrize(
        ("path", "decision"),
        [
            *(("/results/keep/a", "deny"), ("/workspace/results/keep", "deny"), ("/results", "deny")),
            *(("/results/2024/x.png", "allow"), ("/results/2024", "ask"), ("/data/x", "ask")),
        ],
    )
    def test_a_folder_is_deleted_with_what_is_in_it(self, tmp_path: Path, path: str, decision: str) -> None:
        assert load(tmp_path, self.RULES).decide("delete", {"file_path": path}) == decision

    @pytest.mark.parametrize(
        "path",
        [
            *("./results/keep/a", "/./results/keep/a", "/tmp/../results/keep/a", "results/keep/a"),
            *("/workspace/../results/keep/a", "/results/../results/keep/a", "//results/./keep//a"),
            *("./results", "/tmp/../results", "/workspace/../workspace"),
        ],
    )
    def test_a_denied_path_is_denied_however_it_is_written(self, tmp_path: Path, path: str) -> None:
        assert load(tmp_path, self.RULES).decide("delete", {"file_path": path}) == "deny"

    def test_paths_are_those_of_one_tool(self, tmp_path: Path) -> None:
        rules = load(tmp_path, self.RULES)
        assert rules.decide("write_file", {"file_path": "/results/x", "content": "x"}) == "allow"
        assert rules.decide("edit_file", {"file_path": "/results/x", "old_string": "x"}) == "ask"


class TestPrograms:
    def test_program_is_allowed_with_its_language_and_nothing_beside_it(self, tmp_path: Path) -> None:
        rules = load(tmp_path, '[[rule]]\ntool = "execute_code"\nexact = "ls"\ndecision = "allow"\n')
        assert rules.decide("execute_code", {"language": "python", "code": "ls"}) == "allow"
        assert rules.decide("execute_code", {"code": "ls", "dependencies": [], "args": None}) == "allow"
        assert rules.decide("execute_code", {"language": "bash", "code": "ls"}) == "ask"
        assert rules.decide("execute_code", {"code": "ls", "dependencies": ["x"]}) == "ask"
        assert rules.decide("execute_code", {"code": "ls", "files": {"a.py": "x"}}) == "ask"
        assert rules.decide("execute_code", {"code": "ls "}) == "ask"

    def test_denied_program_is_denied_in_both_languages(self, tmp_path: Path) -> None:
        rules = load(tmp_path, '[[rule]]\ntool = "execute_code"\nexact = "ls"\ndecision = "deny"\n')
        assert rules.decide("execute_code", {"language": "bash", "code": "ls"}) == "deny"
        assert rules.decide("execute_code", {"code": "ls", "dependencies": ["x"]}) == "deny"

    def test_tools_of_servers_are_ruled_by_name(self, tmp_path: Path) -> None:
        rules = load(tmp_path, '[[rule]]\ntool = "mcp:github.create_issue"\ndecision = "deny"\n')
        assert rules.decide("mcp:github.create_issue", {"title": "x"}) == "deny"
        assert rules.decide("mcp:github.search", {}) == "ask"


def test_example_of_the_docs_holds(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "approvals.md").read_text()
    rules = load(tmp_path, page.partition("```toml\n")[2].partition("```")[0])
    assert len(rules.all) == 4
    assert rules.decide("write_file", {"file_path": "/workspace/.git/config", "content": ""}) == "deny"
    assert rules.decide("write_file", {"file_path": "/tmp/home/.gitconfig", "content": ""}) == "deny"


class TestWrongFiles:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                GIT + 'match = ["ls"]',
                r"rule 1 \(allow execute git\): the example 'ls' of match is not covered",
            ),
            (GIT + 'not_match = ["git"]', "the example 'git' of not_match is covered"),
            (
                GIT + NO_PUSH + 'not_match = ["git -C x push"]',
                r"rule 2 \(deny execute git push\): the example",
            ),
            (GIT + 'exact = "x"', "rule 1: a rule for execute has exact or prefix"),
            (GIT + 'other = "x"', "rule 1: other: "),
            (GIT.replace('["git"]', '"git"'), "rule 1: prefix: "),
            (GIT.replace('["git"]', "[]"), "rule 1: prefix: "),
            (GIT.replace('["git"]', '["git status"]'), r'write prefix = \["git", "status"\]'),
            (GIT.replace('["git"]', '["eval"]'), "'eval' runs its words as code"),
            (GIT.replace('["git"]', '[["ls", "export"]]'), "'export' runs its words as code"),
            (GIT.replace('"execute"', '"exekute"'), "rule 1: tool is 'exekute'"),
            (GIT.replace('"execute"', '"delete"'), "rule 1: a rule for delete has path"),
            (GIT.replace('"allow"', '"yes"'), "rule 1: decision: "),
            (GIT.replace("[[rule]]", "[rule]"), r"write \[\[rule\]\]"),
            (GIT.replace("[[rule]]", "[[rules]]"), r"'rules' is not known"),
            ("rule = 1", r"write \[\[rule\]\]"),
            ("[[rule", "cannot be read"),
        ],
    )
    def test_error_names_file_rule_and_example(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(RulesError, match=said) as caught:
            load(tmp_path, text)
        assert str(tmp_path) in str(caught.value)

    def test_file_that_is_no_text_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "rules.toml").write_bytes(b"\xff")
        with pytest.raises(RulesError, match="cannot be read"):
            Rules.load(tmp_path / "rules.toml")
        with pytest.raises(RulesError, match="cannot be read"):
            Rules.load(tmp_path)


class TestChanges:
    def test_file_is_read_again_when_it_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        file = RulesFile(path)
        assert file.rules().all == ()
        load(tmp_path, GIT)
        first = file.rules()
        assert len(first.all) == 1
        assert file.rules() is first, "an unchanged file is not read"
        new = tmp_path / "new.toml"
        new.write_text(NO_PUSH)
        os.replace(new, path)  # noqa: PTH105 - as editors do
        assert file.rules().decide("execute", {"command": "git push"}) == "deny"

    def test_file_that_breaks_or_goes_is_an_error_until_it_is_mended(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        file = RulesFile(path)
        load(tmp_path, GIT)
        file.rules()
        path.write_text(GIT + "match = ['ls']")
        for _ in range(2):
            with pytest.raises(RulesError, match="the example 'ls'"):
                file.rules()
        path.unlink()
        with pytest.raises(RulesError, match="there is no such file"):
            file.rules()
        load(tmp_path, GIT)
        assert len(file.rules().all) == 1

    def test_named_file_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(RulesError, match="there is no such file"):
            RulesFile(tmp_path / "rules.toml", needed=True).rules()
