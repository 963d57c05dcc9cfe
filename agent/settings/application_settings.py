"""`Settings`: every variable that this application reads, and the values derived from them."""

from __future__ import annotations

import os
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from agent.settings.cluster_settings import ClusterSettings
from agent.settings.dotenv_file import near_names, variables_in
from agent.settings.egress_settings import EgressSettings
from agent.settings.exec_settings import ExecSettings
from agent.settings.mcp_settings import McpSettings
from agent.settings.sandbox_settings import SandboxSettings
from agent.settings.server_settings import ServerSettings
from agent.settings.setting_types import ModelName, Names, PathPatterns, SkillFolders, Url
from agent.settings.snapshot_settings import SnapshotSettings
from agent.settings.state_paths import LEARNED, LITE_ROOT, ROOT, RULES, THREADS
from libs.sandbox import LEARNED_MOUNT, OWN_MOUNT, refuse_as_workspace, refuse_unwritable, thread_folder

__all__ = ["Settings"]


class Settings(
    SandboxSettings,
    ClusterSettings,
    SnapshotSettings,
    EgressSettings,
    McpSettings,
    ExecSettings,
    ServerSettings,
):
    """Every variable of this application, from the environment or else from `.env`; empty means unset.

    The docstring of a field is its text in `.env.example` and docs/configuration.md.
    """

    model_config = SettingsConfigDict(
        defer_build=True,  # builds the schema at the first use: importing is three times faster
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        env_file_encoding="utf-8",
    )

    workspace_dir: Path = Field(Path("workspace"), validate_default=True)
    """Folder that is the agent's disk, mounted at /workspace. Made if it is missing."""
    skills_dirs: SkillFolders = ()
    """More folders of skills, comma-separated, each mounted read-only at /skills.d/<folder name>."""
    skills_trusted: Names = ()
    """Skills of SKILLS_DIRS that may be used, comma-separated: `<folder>/<skill>`, or just `<skill>`."""
    skills_prompt_chars: int = Field(16_000, ge=2_000, le=1_000_000)
    """Characters that the list of skills may take in the prompt. Longer descriptions are shortened."""
    skills_evolve: bool = Field("0", validate_default=True)
    """Whether the deep and the code-block agent may propose skills, in /workspace/skills. A person approves \
each skill. An approved skill is kept in `.code-agent/skills`, mounted read-only at /skills.d/learned, for \
every thread."""

    model: ModelName | None = None
    """Chat model: `provider:model` (as in `anthropic:claude-sonnet-4-5`), `local`, `local:<file.gguf>` or \
`scripted:<file>`. \
Unset: OpenAI if one of the variables below is set, else `local`."""
    openai_api_key: SecretStr | None = None
    """Key for OpenAI. Other providers have their own variable, such as ANTHROPIC_API_KEY."""
    openai_base_url: Url | None = None
    """OpenAI-compatible server, such as http://localhost:11434/v1 for Ollama. Needs no key."""
    openai_model: str = "gpt-5-mini"
    """Model to ask of OpenAI, or of the server at OPENAI_BASE_URL."""
    openai_lite_model: str | None = None
    """Model that `/run-lite` asks. Unset: OPENAI_MODEL. A small model without reasoning is enough: replies \
have at most 600 tokens."""
    openai_lite_base_url: Url | None = None
    """OpenAI-compatible server that `/run-lite` asks. Unset: OPENAI_BASE_URL, else OpenAI."""
    lite_lenient_fences: bool = Field("0", validate_default=True)
    """Whether `/run-lite` accepts a reply in a Markdown fence."""

    approvals: Literal["ask", "effects", "auto"] = "ask"
    """`ask`: a person approves each command, edit and deletion. `effects`: a command or program runs at \
once, without network, and a person is asked about what it changed (docs/approvals.md). `auto`: nobody is \
asked."""
    effects_free: PathPatterns = ("/results/**", "/scripts/**")
    """With `APPROVALS=effects`: patterns of files that may be made and changed without a question. \
Deletions are always asked about."""
    approval_rules: Path | None = None
    """File of rules that allow or deny calls without a question (docs/approvals.md). Unset: \
`.code-agent/approvals.toml`, where that exists. Must be outside of the workspace."""
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    """`batched`: one question about all calls of a reply. `per_call`: one question for each call. The names \
are LangChain's."""
    run_max_calls: int = Field(60, ge=1, le=100_000)
    """Model calls that one run may make. A call that summarizes a long conversation does not count."""
    run_max_seconds: float = Field(1800, ge=1, le=604_800)
    """Seconds that models and tools may work in one run; waiting for approval does not count."""
    run_max_tokens: int = Field(2_000_000, ge=1, le=1_000_000_000_000)
    """Tokens that one run may use, input and output together, without those of summaries."""

    setup_engine: bool = Field("1", validate_default=True)
    """Whether `code-agent setup` may install Docker Engine where no Engine answers (Debian, as root)."""

    _dotenv: Path | None = PrivateAttr(None)

    @field_validator("workspace_dir")
    @classmethod
    def _workspace_is_safe(cls, value: Path) -> Path:
        value = Path(os.path.expanduser(value))  # noqa: PTH111 - leaves an unknown user as it is
        refuse_as_workspace(value)
        refuse_unwritable(value)
        if ROOT.is_relative_to(value.resolve()):
            raise ValueError("holds this program: the agent could change it")
        if value.resolve().is_relative_to(LITE_ROOT):
            raise ValueError("is the folder of /run-lite: a command could put links there")
        return value

    @model_validator(mode="after")
    def _skills_apart(self) -> Settings:
        workspace = self.workspace_dir.resolve()
        for path in self.skills_dirs:
            if workspace.is_relative_to(path) or path.is_relative_to(workspace):
                raise ValueError(
                    f"SKILLS_DIRS={path}: must be apart from the workspace, as skills are read-only"
                )
        return self

    @model_validator(mode="after")
    def _state_apart(self) -> Settings:
        workspace = self.workspace_dir.resolve()
        if THREADS.parent.resolve().is_relative_to(workspace):
            raise ValueError(
                f"{THREADS.parent}: the working directory is in the workspace, where commands could change "
                "threads and what a person has approved: start this elsewhere, or set WORKSPACE_DIR"
            )
        place = self.snapshots_url.removeprefix("file://")
        if "://" not in place and Path(place).resolve().is_relative_to(workspace):
            raise ValueError(
                f"SNAPSHOTS_URL={self.snapshots_url}: is in the workspace, where commands could change it"
            )
        if self.rules_path.resolve().is_relative_to(workspace):
            raise ValueError(
                f"APPROVAL_RULES={self.rules_path}: is in the workspace, where commands could change it"
            )
        if self.mcp_config and self.mcp_config.resolve().is_relative_to(workspace):
            raise ValueError(
                f"MCP_CONFIG={self.mcp_config}: is in the workspace, where commands could change which "
                "programs run on this machine"
            )
        return self

    @model_validator(mode="after")
    def _learned_apart(self) -> Settings:
        if not self.skills_evolve:
            return self
        if self.several_owners:
            raise ValueError(
                "SKILLS_EVOLVE=1: AUTH_TOKENS has several owners, and what one of them approves would steer "
                "the agents of all: leave it unset, and put skills that you have read into SKILLS_DIRS"
            )
        return self

    @model_validator(mode="after")
    def _workspaces_can_travel(self) -> Settings:
        """Refuse a cluster whose workspaces could not be kept, or which a second server could not use."""
        if self.sandbox_cluster is None:
            return self
        if self.scope != "thread":
            raise ValueError("SANDBOX_CLUSTER: each thread needs its own sandbox: set SANDBOX_SCOPE=thread")
        shared = self.database_url is not None and "snapshots_url" in self.model_fields_set
        if self.app_env == "production" and not shared:
            raise ValueError(
                "SANDBOX_CLUSTER: with APP_ENV=production, set DATABASE_URL and SNAPSHOTS_URL, which all "
                "servers of the cluster share"
            )
        return self

    @property
    def several_owners(self) -> bool:
        """Whether AUTH_TOKENS has tokens of more than one owner."""
        return len({token.owner for token in self.auth_tokens}) > 1

    @property
    def rules_path(self) -> Path:
        """APPROVAL_RULES, or the place of the rules file that need not exist."""
        return self.approval_rules or RULES

    @property
    def skill_folders(self) -> dict[str, Path]:
        """Every folder of skills: path inside the sandbox -> folder on the host."""
        own = {OWN_MOUNT: ROOT / "skills"} | {f"/skills.d/{path.name}": path for path in self.skills_dirs}
        # First in the list: an approved change replaces the skill that it was copied from.
        return {LEARNED_MOUNT: LEARNED.absolute(), **own} if self.skills_evolve else own

    @property
    def agents_file(self) -> Path | None:
        """AGENTS.md beside `.env`; None where no `.env` is looked for."""
        return self._dotenv.absolute().with_name("AGENTS.md") if self._dotenv else None

    @property
    def scope(self) -> Literal["shared", "thread"]:
        """SANDBOX_SCOPE; `thread` where AUTH_TOKENS is set, so that no owner sees the files of another."""
        return "thread" if self.auth_tokens else self.sandbox_scope

    def workspace_of(self, thread: str) -> Path:
        """Return the folder on the host that is the workspace of a thread."""
        if self.scope == "shared":
            return self.workspace_dir
        return self.workspace_dir / "threads" / thread_folder(thread)

    @property
    def exec_disk_used(self) -> int:
        """Bytes of the working directory of the one-tool agent's programs, which is memory of the sandbox."""
        return min(self.exec_disk, self.sandbox_memory // 4)

    @property
    def models_dir(self) -> Path:
        """Folder of fetched models: below XDG_CACHE_HOME if that is absolute, else `~/.cache`."""
        return _cache() / "models"

    @property
    def packages_dir(self) -> Path:
        """Folder of packages for programs of the one-tool agent."""
        return _cache() / "packages"

    @property
    def chosen_model(self) -> str:
        """The chosen model in the form of MODEL: MODEL, else OpenAI's variables, else `local`."""
        if self.model is not None:
            return self.model
        openai = {"openai_api_key", "openai_base_url"} & self.model_fields_set
        return f"openai:{self.openai_model}" if openai else "local"

    def secret(self, variable: str) -> SecretStr | None:
        """Return the value of a provider's key variable, from the environment or else from `.env`."""
        value = os.environ.get(variable) or self.dotenv().get(variable)
        return SecretStr(value) if value else None

    def given(self) -> dict[str, str]:
        """Return the settings and the proxies that the environment sets, valid or not."""
        names = {name.upper() for name in type(self).model_fields}
        return {
            name: value
            for name, value in os.environ.items()
            if value and (name.upper() in names or name.upper().endswith("_PROXY"))
        }

    def dotenv(self) -> dict[str, str]:
        """Return all variables in `.env`, also those of other programs."""
        return variables_in(self._dotenv) if self._dotenv else {}

    def near_settings(self) -> dict[str, str]:
        """Return the variables in `.env` that are no setting but have nearly the name of one -> the setting.

        Variables that EGRESS_CREDENTIALS or SANDBOX_ENV_ALLOW names are meant as they are.
        """
        meant = [*(rule.secret for rule in self.egress_credentials), *self.sandbox_env_allow]
        names = [name for name in self.dotenv() if not any(fnmatchcase(name, each) for each in meant)]
        return near_names(names, type(self).model_fields)

    def misspelt(self) -> list[str]:
        """Return a sentence for each variable of `near_settings`."""
        return [
            f"{name} in {self._dotenv} is not a setting. Did you mean {setting}?"
            for name, setting in sorted(self.near_settings().items())
        ]

    def environment(self) -> dict[str, str]:
        """Return the variables of the host: those of the environment and of `.env`. Commands may get some.

        The environment overrides `.env`, except with an empty variable.
        """
        given = {name: value for name, value in os.environ.items() if value}
        return {**os.environ, **self.dotenv(), **given}

    def export_dotenv(self) -> None:
        """Put the variables of packages in `.env` into the environment, because packages read only that.

        A variable of the environment wins, unless an earlier call put it there. A variable that an earlier
        call put there, and that is no longer in the file, is removed. Settings are not exported: as variables
        of the environment they would win over a later change of the file.
        """
        if self._dotenv is None:  # the variables of other settings stay
            return
        found = self.dotenv()
        for name in _exported.keys() - found.keys():
            if os.environ.get(name) == _exported.pop(name):
                del os.environ[name]
        settings = {name.upper() for name in type(self).model_fields}
        for name, value in found.items():
            if name.upper() not in settings and os.environ.get(name, "") in ("", _exported.get(name)):
                os.environ[name] = _exported[name] = value

    def variables_of_programs(self, keys_in_use: Collection[str] = ()) -> dict[str, str]:
        """Return the variables of the host that programs of the one-tool agent see.

        Args:
            keys_in_use: keys of the models in use. EXEC_PASS_KEYS passes no variable with such a value;
                SANDBOX_ENV_ALLOW passes each variable that it names.
        """
        placeholders = {rule.secret for rule in self.egress_credentials}

        def passed(name: str, value: str) -> bool:
            if any(fnmatchcase(name, pattern) for pattern in self.env_patterns):
                return True
            key = name.endswith("_API_KEY") or name.startswith(("API_KEY_", "BASE_URL_"))
            return self.exec_pass_keys and key and name not in placeholders and value not in keys_in_use

        return {name: value for name, value in self.environment().items() if passed(name, value)}


_exported: dict[str, str] = {}
"""The variables that `export_dotenv` has put into the environment of this process."""


def _cache() -> Path:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "code-execution-agent"
