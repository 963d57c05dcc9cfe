"""Checks everything that `code-agent run` needs. Each failed check says how to mend it."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.settings import Settings, SettingsError, checked_settings, unchecked_settings
from libs.backends.docker import host_certificates, image_state
from libs.middleware.skills import SkillFolders, validate_skills
from libs.sandbox import SandboxError, program, refuse_as_workspace, refuse_unwritable
from libs.sandbox.docker import connect, endpoint, explained
from libs.sandbox.host import blocking

__all__ = ["Check", "check_all", "doctor", "reload_check"]

_NEEDED_BYTES = 2 * 1024**3  # for building the image
_OF_SETTINGS = {"image", "runtime", "workspace"}
"""Checks of `doctor` that depend on settings."""
_OF_ENGINE = {"Docker Engine", "runtime", "limits", "image", "disk"}
"""Checks of `doctor` that matter only where sandboxes run on this machine."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    """What to do; empty for a passed check."""
    warning: bool = False
    """Whether a run is possible although the check has failed."""


def doctor(*, workspace: Path, image: str, runtime: str | None = None) -> list[Check]:
    """Check this machine. Changes nothing; a problem is a failed check, not an exception."""
    checks = _engine_checks(image, runtime)
    return [*checks, _workspace_check(workspace), _trust_check()]


def _engine_checks(image: str, runtime: str | None) -> list[Check]:
    try:
        with closing(connect(timeout=10)) as client, explained():
            info: dict[str, Any] = client.info()
            state = image_state(client, image)
        engine = Check("Docker Engine", True, f"{info['ServerVersion']} at {endpoint()}")
    except SandboxError as error:
        return [Check("Docker Engine", False, str(error), error.hint)]
    missing = {"missing": "is missing", "stale": "is stale: it was built from other source files"}.get(state)
    built = Check(
        "image", not missing, f"{image} {missing or 'is current'}", f"{program()} setup" if missing else ""
    )
    disk = _disk_check(Path(info["DockerRootDir"]))
    return [engine, _runtime_check(info, runtime), _limits_check(info), built, disk]


def _runtime_check(info: dict[str, Any], runtime: str | None) -> Check:
    """Check that the Engine knows the container runtime of sandboxes."""
    if runtime is None:
        return Check("runtime", True, f"{info['DefaultRuntime']}, the Engine's default")
    if runtime in info["Runtimes"]:
        return Check("runtime", True, f"{runtime} (SANDBOX_RUNTIME)")
    known = ", ".join(sorted(info["Runtimes"]))
    hint = f"Unset SANDBOX_RUNTIME, or choose {known}; `make setup RUNTIME=runsc` installs gVisor."
    return Check("runtime", False, f"the Engine does not know {runtime} (SANDBOX_RUNTIME)", hint)


def _limits_check(info: dict[str, Any]) -> Check:
    """Check that the kernel enforces the limits of containers."""
    needed = {"MemoryLimit": "memory", "CpuCfsQuota": "CPU", "PidsLimit": "processes"}
    absent = [what for key, what in needed.items() if not info.get(key)]
    version = f"cgroup v{info.get('CgroupVersion', '1')}"
    if absent:
        hint = "Enable these cgroup controllers in the kernel; a rootless Engine needs them delegated."
        return Check("limits", False, f"{version}: not enforced for {', '.join(absent)}", hint)
    return Check("limits", True, f"{version}: memory, CPU and processes are limited")


def _disk_check(root: Path) -> Check:
    if not root.is_dir():
        return Check("disk", True, f"{root} is not on this machine (Docker Desktop keeps its own disk)")
    free = shutil.disk_usage(root).free
    detail = f"{free / 1024**3:.1f} GiB free in {root}"
    enough = free >= _NEEDED_BYTES
    return Check(
        "disk", enough, detail, "" if enough else "Free some: `docker system df`, `docker system prune`."
    )


def _workspace_check(workspace: Path) -> Check:
    try:
        refuse_as_workspace(workspace)
        refuse_unwritable(workspace)
    except ValueError as error:
        return Check("workspace", False, f"{workspace} {error}", "Set the folder with WORKSPACE_DIR.")
    return Check("workspace", True, f"{workspace.absolute()} can be written")


def _trust_check() -> Check:
    count = len(host_certificates())
    if not count:
        return Check("CA certificates", True, "none found on this host: the image keeps those of its base")
    return Check("CA certificates", True, f"{count} of this host are trusted in the image")


def check_all() -> list[Check]:
    """Check everything. Changes nothing, but starts MCP servers. A problem is a failed check."""
    try:
        settings = checked_settings()
    except SettingsError as error:
        hint = (
            "Change it in the environment or in .env; docs/configuration.md lists what is allowed. "
            "The checks that depend on settings follow when all settings are valid."
        )
        wrong = [Check("settings", False, line, hint) for line in str(error).splitlines()]
        defaults = unchecked_settings(None)
        machine = doctor(workspace=defaults.workspace_dir, image=defaults.image)
        return wrong + [check for check in machine if check.name not in _OF_SETTINGS]
    hint = "Correct the name, or remove the line."
    checks = [Check("settings", False, sentence, hint, warning=True) for sentence in settings.misspelt()]
    checks = checks or [Check("settings", True, "valid")]
    checks += [
        _model_check(settings),
        _skill_check(settings),
        _agents_file_check(settings),
        _approvals_check(settings),
        *_server_checks(settings),
    ]
    machine = doctor(workspace=settings.workspace_dir, image=settings.image, runtime=settings.sandbox_runtime)
    if settings.sandbox_cluster:
        # Only the one-tool agent needs the Engine of this machine.
        machine = [replace(each, warning=each.name in _OF_ENGINE) for each in machine]
    return [*checks, *machine, reload_check(settings.workspace_dir)]


def _model_check(settings: Settings) -> Check:
    from agent.models import build_model, unused_keys
    from libs.models import DeferredChatModel, ModelUnavailable, ScriptError

    try:
        model = build_model(settings)
        if isinstance(model, DeferredChatModel):
            model.build()
            state = f"{model.label} is configured (it was not called)"
            return Check("model", True, ". ".join(filter(None, (state, unused_keys(settings)))))
        return Check("model", True, f"{settings.model}: a script that is played, not a model")
    except (ModelUnavailable, ScriptError) as error:
        reason, _, hint = str(error).partition(". ")
        return Check("model", False, reason, f"{unused_keys(settings)} {hint}".strip())


def _skill_check(settings: Settings) -> Check:
    folders = settings.skill_folders
    there = [folder for folder in folders.values() if folder.exists()]  # LEARNED is made with the first skill
    if problems := [str(problem) for folder in there for problem in validate_skills(folder)]:
        return Check("skills", False, "; ".join(problems), f"{program()} skills validate", warning=True)
    found = SkillFolders(folders, trusted=settings.skills_trusted).scan()
    usable = sum(skill.problem is None for skill in found)
    return Check("skills", True, f"{len(found)} valid, {usable} of them trusted")


def _agents_file_check(settings: Settings) -> Check:
    from agent.parts import AgentsFile

    file = AgentsFile(settings)
    notes = file.read()
    if notes.problem:
        return Check("AGENTS.md", False, notes.problem, notes.hint, warning=True)
    if not notes.text:
        return Check("AGENTS.md", True, "no file beside .env, or an empty file: prompts have no notes")
    return Check("AGENTS.md", True, f"{file.path}: {len(notes.text):,} characters, read at each run")


def _approvals_check(settings: Settings) -> Check:
    """Tell the setting, and check the rules file."""
    from agent.parts import checked_rules

    try:
        rules = checked_rules(settings).rules()
    except SettingsError as error:
        return Check("approvals", False, str(error), "Mend the file: docs/approvals.md shows its form.")
    state = f"APPROVALS={settings.approvals}"
    if rules.path is None:
        return Check("approvals", True, f"{state}; no {settings.rules_path}: no rule allows or denies a call")
    count = Counter(rule.decision for rule in rules.all)
    by_decision = ", ".join(f"{count[decision]} {decision}" for decision in ("allow", "ask", "deny"))
    return Check("approvals", True, f"{state}; {rules.path}: {by_decision}; the examples of the rules hold")


def _server_checks(settings: Settings) -> list[Check]:
    """Connect to each MCP server."""
    from agent.parts import servers_of

    servers = servers_of(settings)
    if servers is None:
        return []
    hint = "Mend the server or its entry in the file of MCP_CONFIG; docs/servers.md shows its form."
    return [
        Check(
            f"server {name}", not problem, problem or f"connected: {count:,} functions", hint * bool(problem)
        )
        for name, (count, problem) in blocking(servers.check)().items()
    ]


def reload_check(workspace: Path) -> Check:
    """Look for a server that restarts when a file in the workspace changes. Its runs wait for restarts."""
    import psutil

    workspace = workspace.resolve()
    watching = [
        f"process {process.info['pid']} in {process.info['cwd']}"
        for process in psutil.process_iter(["pid", "cmdline", "cwd"])
        if _reloads(process.info["cmdline"] or [])
        and process.info["cwd"]
        and workspace.is_relative_to(process.info["cwd"])
    ]
    if not watching:
        return Check("reload", True, "no server watches the workspace; `make dev` starts one that does not")
    return Check(
        "reload",
        False,
        f"`langgraph dev` watches the workspace ({', '.join(watching)}): it restarts with every .py file "
        "that the agent writes, and its runs wait for each restart",
        "End that server, and start it with `make dev`, or with `langgraph dev --no-reload "
        "--n-jobs-per-worker 10`.",
        warning=True,
    )


def _reloads(command: list[str]) -> bool:
    """Return whether a command line is that of a reloading server."""
    names = [Path(part).name for part in command[:3]]
    return "langgraph" in names and "dev" in command and "--no-reload" not in command
