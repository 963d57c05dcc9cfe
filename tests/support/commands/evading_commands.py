"""Commands that run `evil` beside, inside or instead of allowed commands, or that could. None may be allowed.

`RULES` allows a few common programs. `COMMANDS` has each command once.
"""

from __future__ import annotations

__all__ = ["COMMANDS", "RULES"]

RULES = """
[[rule]]
tool = "execute"
prefix = ["git", ["status", "diff", "log"]]
decision = "allow"
match = ["git status -s", "git diff HEAD~1 -- 'a b' *.py"]
not_match = ["git push", "git status; rm x"]

[[rule]]
tool = "execute"
prefix = [["ls", "cat", "echo", "cd", "true", "wc", "head", "grep", "printf", "test"]]
decision = "allow"
match = ["ls *.csv", "test -f x || echo no",
    "cd /data && ls -l | head -n 3 # newest", "echo 'a; b' \\"c | d\\" e\\\\;f"]
"""

_JOINED = [
    *("git status; §", "git status ;§", "git status\n§", "git status\n\n\t§", "git status && §"),
    *("git status || §", "§ || git status", "git status | §", "git status |& §", "git status & §"),
    *("git status& §", "§ & git status", "§; git status", "§ && git status", "§ | cat"),
    *("! §", "git status; ! §", "ls # comment\n§", "ls #\\\n§", "ls;§#x", "true;;§", "(ls; §)"),
    *("( § )", "{ ls; §; }", "{ §\n}", "if true; then §; fi", "if §; then ls; fi"),
    *("if false; then ls; else §; fi", "while §; do break; done", "until §; do :; done"),
    *("for i in 1; do §; done", "for ((i=0; i<1; i++)); do §; done", "case x in x) §;; esac"),
    *("select x in 1; do §; done < /dev/null", "f() { §; }; f", "function f { §; }; f"),
    *("f() ( § ); f", "ls() { §; }; ls", "git() { §; }; git status", "echo() (§); echo a"),
    *("time §", "time -p §", "coproc §", "coproc N { §; }", "eval §", "eval '§'", 'eval "ls; §"'),
    *("exec §", "command §", "builtin eval §", "command -p §", "env §", "env A=b §", "nohup §"),
    *("nice §", "timeout 5 §", "setsid §", "stdbuf -o0 §", "xargs § < /dev/null", "echo a | xargs §"),
    *("find . -maxdepth 0 -exec § \\;", "trap '§' EXIT", "trap '§' DEBUG; ls", "trap § ERR; test"),
    *("bash -c '§'", "bash -c §", "sh -c '§'", "bash <<< '§'", "bash <<E\n§\nE", "echo § | bash"),
    *("echo '§' | sh", "source /dev/stdin <<< '§'", ". /dev/stdin <<< §", "cat <<E | bash\n§\nE"),
    *("alias ls='§'; ls", "shopt -s expand_aliases\nalias ls='§'\nls", "PROMPT_COMMAND='§'; ls"),
    *("A=b §", "A=b B=c §", "A+=b §", "a[0]=1 §", "PATH=/tmp §", "> x §", "2> x §", "< /dev/null §"),
    *("&> x §", "{fd}> x §", "<<< x §", ">| x §", ">> x §", "<> x §", "ls > x; §", "ls <(true); §"),
    *("§ > x", "\\\n§", "ls;\\\n§", "ls\\\n;§", "ls \\\n;\\\n§", "jobs -x §", "hash -p /bin/x ls; §"),
    *("enable -n echo; §", "set -- §; $1", 'set -- §; "$@"', "compgen -C §", "compgen -W '$(§)'"),
    *(
        "x=§; $x",
        "x=§; ${x}",
        'x=§; "$x"',
        "printf -v x §; $x",
        "read x <<< §; $x",
        "x=(§); ${x[0]}",
    ),
    *(
        "mapfile -C '§' -c 1 x <<< a",
        "declare x=$(§)",
        "export x=$(§)",
        "readonly x=$(§)",
        "let 'a[$(§)]=1'",
    ),
    *("printf %n PATH; §", "printf 'ab%-5n' PATH\nls", "printf '%*s% n' 5 § PATH && ls"),
    *("printf -v 'a[$(§)]' x", "printf '-va[$(§)]' x", "test -v 'a[$(§)]'", "test 1 -a -v 'a[$(§)]'"),
    *(
        "unset 'a[$(§)]'",
        "[[ -v a[$(§)] ]]",
        "[[ 'a[$(§)]' -eq 0 ]]",
        "[ -v 'a[$(§)]' ]",
        "(( a[$(§)] ))",
    ),
    *("[[ $(§) ]]", "[ $(§) ]", "[[ a =~ $(§) ]]", "[[ a == a && $(§) ]]", "read 'a[$(§)]' <<< x"),
    *("true &\n§", "ls &&\n§", "ls ||\n\n§", "ls |\n§", "§&", "§;", "§\n", "\t§", "\n§"),
]
"""`§` stands for `evil`."""

_SUBSTITUTED = [
    *("$(§)", "`§`", "${x:-$(§)}", "${x:=`§`}", "${x:+$(§)}${HOME:+$(§)}", "$(( $(§) + 0 ))"),
    *(
        "${x:-`§`}",
        "${HOME/a/$(§)}",
        "${HOME:$(§)}",
        "${a[$(§)]}",
        "$(< /dev/null; §)",
        "$((a[$(§)]))",
    ),
    *("$(\n§\n)", "$( ( § ) )", "$(ls $(§))", "`echo \\`§\\``", "$(cat <<E\n$(§)\nE\n)", "$[ $(§) ]"),
]
"""Substitutions that run `evil`."""

_PLACES = [
    "ls §",
    'ls "§"',
    "§ status",
    "git status --x=§",
    "'l's a\"b§\"c",
    "cat <<E\n§\nE",
    "cat <<< §",
]

_OTHERS = [
    # The program's name is not the word that stands there, or is made by bash.
    *("'git status'", "git\\ status", '"git status"', "git\\\nstatus", "gi\\\nt push", "git statu\\\nsx"),
    *("git  push", "git", "git st*", "g* status", "g?t status", "[g]it status", "{git,status}", "{ls,evil}"),
    *("git {status,push}", "git{,} status", "l{s,} evil", "{e..v}vil", "~/git status", "~ status", "~+/ls"),
    *("$git status", "${git} status", '"$git" status', "$'git' status", "$'\\x67it' status", "$'\\145vil'"),
    *(
        '$"git" status',
        "\\g\\i\\t push",
        "$0 status",
        "$_ status",
        "$# status",
        "$@ ls",
        "$* ls",
        "$! ls",
        "$$",
    ),
    *("/usr/bin/git status", "./git status", "../ls", "/tmp/ls", "git-push", "GIT status", "Git status"),
    *(
        "git Status",
        "git status\u200b; x",
        "g\u0456t status",
        "\u0435cho evil",
        "git\u00a0status",
        "git\u2003status",
    ),
    *(
        "\ufeffgit status",
        "git status\r",
        "git\rstatus",
        "git\x0bstatus",
        "git\x0cstatus",
        "ls\x00evil",
        "\x1bls",
    ),
    *(
        "ls\x7f",
        "ls \x01",
        "'ls\x01'",
        "g\u200dit status",
        "\u202egit status",
        "ｇit status",
        "git status\u037e evil \u037e"[:4],
    ),
    # Options before the named word.
    *("git -c core.fsmonitor=evil status", "git -c core.pager=evil log", "git --exec-path=/tmp status"),
    *(
        "git -C /tmp status",
        "git --git-dir=x status",
        "git --paginate log",
        "git -p log",
        "git --no-pager log",
    ),
    # Redirections and here-documents.
    *(
        "ls > x",
        "ls >> x",
        "ls >| x",
        "ls 2> x",
        "ls &> x",
        "ls >& x",
        "ls < x",
        "ls <> x",
        "ls 2>&1",
        "ls 9<&-",
    ),
    *(
        "ls {x}> y",
        "ls <<< x",
        "cat <<E\nx\nE",
        "cat <<'E'\nx\nE",
        "cat <<-E\n\tx\n\tE",
        "cat <<E; evil\nE\nE",
    ),
    *("cat <(evil)", "cat >(evil)", "ls | tee >(evil)", "git status >(evil)", "cat <<\\E\n$(evil)\nE\nevil"),
    # Words that only look quoted, and comments that do not begin.
    *("ls 'a'; evil 'b'", 'ls "a"; evil "b"', "ls 'a\\'; evil #'", 'ls "a\\\\"; evil #"', "ls a#; evil"),
    *(
        "ls '#'; evil",
        "ls \\#; evil",
        "ls ''#; evil",
        "ls $'a\\'b'; evil",
        "ls $'a' ; evil '",
        "ls \\\\; evil",
    ),
    *(
        "ls \\'; evil \\'",
        "echo \\\n; evil",
        "ls 'x",
        'ls "x',
        "ls \\",
        "ls $(",
        "ls `",
        "ls ${",
        "ls ((",
        "ls ))",
    ),
    *(
        "ls }",
        "{ ls",
        "( ls",
        "ls )",
        "fi",
        "then ls",
        "do ls",
        "done",
        "esac",
        "ls;; ls",
        "ls & & ls",
        "| ls",
    ),
    # Builtins that change what later commands do.
    *("export PATH=/tmp; ls", "PATH=/tmp ls", "LD_PRELOAD=/tmp/x.so ls", "BASH_ENV=x ls", "IFS=l ls"),
    *(
        "GIT_EXTERNAL_DIFF=evil git diff",
        "GIT_PAGER=evil git log",
        "PAGER=evil git log",
        "git status A=b; B=c",
    ),
    *("alias ls=evil", "unalias ls", "hash -p /tmp/evil ls", "enable -f x ls", "set -k", "shopt -s extdebug"),
    *("ls !(x)", "ls @(a|b)", "ls ?(a)", "ls *(a)", "ls +(a)", "echo ${x@P}", "echo ${!x}", "echo $((x))"),
    *(
        "echo $x",
        'echo "$x"',
        "echo ${x}",
        "echo $[1]",
        "echo $'x'",
        'echo $"x"',
        "printf * x",
        "test *",
        "test -R x",
    ),
    *(
        "",
        " ",
        "\n",
        "#",
        "# ls",
        ";",
        "&&",
        "exit; ls",
        "wait; ls",
        "declare -f",
        "typeset x",
        "[ -f x ]",
        "[[ -f x ]]",
    ),
]


def _all() -> list[str]:
    placed = [place.replace("§", each) for each in _SUBSTITUTED for place in _PLACES]
    return list(dict.fromkeys([*(each.replace("§", "evil") for each in (*_JOINED, *placed)), *_OTHERS]))


COMMANDS = _all()
