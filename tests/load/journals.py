"""Journals of threads whose workspaces travel: a command for each step, and what each step must find."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["KINDS", "Journal", "command_of", "kind_of", "new_token"]

KINDS = ("quick", "quick", "slow", "large", "file")
"""What a step does: see `command_of`. A `file` step first writes the file `written` with the file tool."""
_LINES = ("runs", "journal", "twice", "latest", "written", "torn")
_SHOWN = 400
"""Steps of the journal that a command prints."""
_MIDDLE = {
    "slow": "sleep 1",
    "large": "head -c 2000000 /dev/urandom > large && sha256sum large > sums",
}
_COMMAND = """touch journal latest written
echo 'runs {token}'
tail -n {shown} journal | sed 's/^/journal /'
sort journal | uniq -d | sed 's/^/twice /'
echo "latest $(cat latest)"; echo "written $(cat written)"
test ! -e sums || sha256sum -c --quiet sums 2>&1 | sed 's/^/torn /'
echo '{token}' >> journal
{middle}
echo '{token}' > latest"""


def kind_of(token: str) -> str:
    return token.rpartition("-")[2]


def command_of(token: str) -> str:
    """Return the command of a step: it prints what the workspace holds, and appends to the journal."""
    return _COMMAND.format(token=token, shown=_SHOWN, middle=_MIDDLE.get(kind_of(token), ":"))


def new_token(server: str, number: int, kind: str) -> str:
    """Return the name of a step, from the name of its server."""
    return f"{server}-{number}-{kind}"


@dataclass
class Journal:
    """What is known of one thread. Each token stands for one step.

    An acknowledged step is in every later state of the workspace. Another step is there whole or not at all.
    """

    begun: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    """Steps whose command was seen to run."""
    gone: set[str] = field(default_factory=set)
    """Steps of which was said that their files are lost, or that they ran nothing."""
    faults: list[str] = field(default_factory=list)
    _at_begin: dict[str, int] = field(default_factory=dict)
    """Token -> number of acknowledged steps when it began."""

    def begins(self, token: str) -> None:
        if token not in self._at_begin:
            self.begun.append(token)
            self._at_begin[token] = len(self.acknowledged)

    def runs(self, token: str) -> None:
        if token in self.ran:
            self.faults.append(f"{token} ran twice")
        self.ran.append(token)

    def kept(self, token: str) -> None:
        self.acknowledged.append(token)

    def ended(self, token: str, exit_code: int, output: str) -> None:
        """Check what a step has printed."""
        held = _parsed(output)
        if exit_code != 0 or held["runs"] != [token] or held["twice"] or held["torn"]:
            self.faults.append(f"{token}: exit code {exit_code}, {output[-1000:]}")
        self._check(token, held["journal"], held["latest"][-1:], held["written"][-1:])

    def _check(self, token: str, journal: list[str], latest: list[str], written: list[str]) -> None:
        before = self.acknowledged[: self._at_begin[token]]
        if missing := [each for each in before[-_SHOWN // 2 :] if each not in journal]:
            self.faults.append(f"{token}: the acknowledged {missing} are missing in {journal[-20:]}")
        if gone := self.gone & set(journal):
            self.faults.append(f"{token}: {gone} are in the journal, and were said to be lost")
        for server in {each.partition("-")[0] for each in journal}:
            own = [self.begun.index(each) for each in journal if each.startswith(f"{server}-")]
            if own != sorted(set(own)):
                self.faults.append(f"{token}: the journal has another order: {journal}")
        if latest != (journal[-1:] or [""]):
            self.faults.append(f"{token}: half a step is left: {latest} after {journal[-1:]}")
        files = [each for each in before if kind_of(each) == "file"]
        if files and (written == [""] or self.begun.index(written[0]) < self.begun.index(files[-1])):
            self.faults.append(f"{token}: an old file is back: {written}, acknowledged was {files[-1]}")


def _parsed(output: str) -> dict[str, list[str]]:
    held: dict[str, list[str]] = {
        key: [] for key in ("runs", "journal", "twice", "latest", "written", "torn")
    }
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        if key in held:
            held[key].append(value)
    return held
