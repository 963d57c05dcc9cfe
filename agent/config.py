"""What this installation is: its settings, and the model and the computer that are made from them.

Nothing else reads the environment or `.env`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dotenv import dotenv_values
from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsConfigDict

from agent.egress_settings import EgressSettings, check_secrets
from agent.exec_settings import ExecSettings
from agent.sandbox_settings import SandboxSettings
from agent.server_settings import ServerSettings
from agent.setting_types import ModelName, Names, SkillFolders, Url
from libs.middleware.skill_mounts import LEARNED_MOUNT, OWN_MOUNT
from libs.sandbox.workspace import refuse_as_workspace, thread_folder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from libs.backends.workspace import WorkspaceBackend
    from libs.middleware.approvals import DecisionType

__all__ = [
    "COMMANDS",
    "INTERRUPT_ON",
    "LEARNED",
    "LITE_ROOT",
    "MEMORY",
    "ROOT",
    "Settings",
    "SettingsError",
    "build_backend",
    "build_model",
    "load_settings",
    "unchecked_settings",
]

ROOT = Path(__file__).absolute().parent.parent
"""The checkout: `skills/` is in it."""

LITE_ROOT = ROOT / "sandbox-lite"
"""The folder that `/run-lite` works in."""

LEARNED = Path(".code-agent/skills/learned")
"""The skills that agents have proposed and a person has approved, in the working directory."""

MEMORY = Path(".code-agent/memory.sqlite")
"""Messages, values and files of the one-tool agent's threads, in the working directory."""

COMMANDS = Path(".code-agent/commands.sqlite")
"""Which commands have begun and how they ended, in the working directory, beside the threads."""

INTERRUPT_ON: Mapping[str, Sequence[DecisionType]] = {
    "execute": ("approve", "reject"),
    "edit_file": ("approve", "reject"),
    "delete": ("approve", "reject"),
    "execute_code": ("approve", "reject"),
}
"""What a person must approve, in every graph and subagent, and the answers that are offered."""


class SettingsError(Exception):
    """A setting has a value it cannot have: one line each with its name, the value and what is allowed."""


class Settings(SandboxSettings, EgressSettings, ExecSettings, ServerSettings):
    """Every variable this application reads, from the environment or else from `.env`; empty means unset.

    What stands below each is its text in `.env.example` and docs/configuration.md.
    """

    model_config = SettingsConfigDict(
        defer_build=True,  # until the first is made: importing this costs a third
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        env_file_encoding="utf-8",
    )

    workspace_dir: Path = Path("workspace")
    """Folder that is the agent's disk, mounted at /workspace. Made if it is missing."""
    skills_dirs: SkillFolders = ()
    """More folders of skills, comma-separated, each mounted read-only at /skills.d/<folder name>."""
    skills_trusted: Names = ()
    """Skills of SKILLS_DIRS that may be used, comma-separated: `<folder>/<skill>`, or just `<skill>`."""
    skills_prompt_chars: int = Field(16_000, ge=2_000, le=1_000_000)
    """Characters that the list of skills may take in the prompt; descriptions are shortened to fit."""
    skills_evolve: bool = Field("0", validate_default=True)
    """Whether the deep and the code-block agent may propose skills, in /workspace/skills. A person approves \
each; it then lives in `.code-agent/skills`, mounted read-only at /skills.d/learned, for every thread."""

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
    """Model that `/run-lite` asks. Unset: OPENAI_MODEL. A small one without reasoning does: its replies \
have at most 600 tokens."""
    openai_lite_base_url: Url | None = None
    """OpenAI-compatible server that `/run-lite` asks. Unset: OPENAI_BASE_URL, else OpenAI."""
    lite_lenient_fences: bool = Field("0", validate_default=True)
    """Whether `/run-lite` takes a reply in a Markdown fence for one without."""

    approvals: Literal["ask", "auto"] = "ask"
    """`ask`: a person approves each command, edit and deletion. `auto`: nobody is asked."""
    run_max_calls: int = Field(60, ge=1, le=100_000)
    """Model calls one run may make."""
    run_max_seconds: float = Field(1800, ge=1, le=604_800)
    """Seconds a model or a tool may be at work in one run; waiting for approval does not count."""
    run_max_tokens: int = Field(2_000_000, ge=1, le=1_000_000_000_000)
    """Tokens one run may use, input and output together."""

    setup_engine: bool = Field("1", validate_default=True)
    """Whether set-up may install Docker Engine where none answers (Debian, as root)."""

    _dotenv: Path | None = PrivateAttr(None)

    @field_validator("workspace_dir")
    @classmethod
    def _of_its_own(cls, value: Path) -> Path:
        refuse_as_workspace(value)
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
    def _learned_apart(self) -> Settings:
        if not self.skills_evolve:
            return self
        if LEARNED.resolve().is_relative_to(self.workspace_dir.resolve()):
            raise ValueError(
                "SKILLS_EVOLVE=1: the working directory is in the workspace, where commands could change "
                "what a person has approved: start this elsewhere"
            )
        if len({token.owner for token in self.auth_tokens}) > 1:
            raise ValueError(
                "SKILLS_EVOLVE=1: AUTH_TOKENS has several owners, and what one of them approves would steer "
                "the agents of all: leave it unset, and put skills that you have read into SKILLS_DIRS"
            )
        return self

    @property
    def skill_folders(self) -> dict[str, Path]:
        """Path inside the sandbox -> folder on the host, of every folder of skills."""
        own = {OWN_MOUNT: ROOT / "skills"} | {f"/skills.d/{path.name}": path for path in self.skills_dirs}
        # First: one that was changed takes the place of the one that it was made of.
        return {LEARNED_MOUNT: LEARNED.absolute(), **own} if self.skills_evolve else own

    @property
    def scope(self) -> Literal["shared", "thread"]:
        """SANDBOX_SCOPE, or `thread` where threads have owners: no owner sees another's files."""
        return "thread" if self.auth_tokens else self.sandbox_scope

    def workspace_of(self, thread: str) -> Path:
        """The folder on the host that is the workspace of a thread."""
        if self.scope == "shared":
            return self.workspace_dir
        return self.workspace_dir / "threads" / thread_folder(thread)

    @property
    def exec_disk_used(self) -> int:
        """Bytes of the working directory of a program of the one-tool agent: it takes memory of the
        sandbox."""
        return min(self.exec_disk, self.sandbox_memory // 4)

    @property
    def models_dir(self) -> Path:
        """Where fetched models are kept: below XDG_CACHE_HOME if that is absolute, else `~/.cache`."""
        return _cache() / "models"

    @property
    def packages_dir(self) -> Path:
        """Where packages of programs are kept, beside the models."""
        return _cache() / "packages"

    @property
    def chosen_model(self) -> str:
        """The model that is asked for, as MODEL names it: MODEL, else OpenAI's variables, else `local`."""
        if self.model is not None:
            return self.model
        openai = {"openai_api_key", "openai_base_url"} & self.model_fields_set
        return f"openai:{self.openai_model}" if openai else "local"

    def secret(self, variable: str) -> SecretStr | None:
        """The value of a provider's key variable, from the environment or else from `.env`."""
        value = os.environ.get(variable) or self.dotenv().get(variable)
        return SecretStr(value) if value else None

    def given(self) -> dict[str, str]:
        """What the environment sets of this class's variables, valid or not, and the proxies it names."""
        names = {name.upper() for name in type(self).model_fields}
        return {
            name: value
            for name, value in os.environ.items()
            if value and (name.upper() in names or name.upper().endswith("_PROXY"))
        }

    def dotenv(self) -> dict[str, str]:
        """What `.env` sets, known to this application or not."""
        found = dotenv_values(self._dotenv) if self._dotenv else {}
        return {name: value for name, value in found.items() if value}

    def let_in(self) -> dict[str, str]:
        """The variables of the environment that commands may see."""
        return {
            name: value
            for name, value in os.environ.items()
            if any(fnmatchcase(name, pattern) for pattern in self.env_patterns)
        }

    def passed_keys(self, own: Collection[str]) -> dict[str, str]:
        """The variables that programs of the one-tool agent see, where EXEC_PASS_KEYS is on.

        Args:
            own: variables that are this application's own: never passed.
        """
        if not self.exec_pass_keys:
            return {}
        return {
            name: value
            for name, value in os.environ.items()
            if (name.endswith("_API_KEY") or name.startswith(("API_KEY_", "BASE_URL_"))) and name not in own
        }


def _cache() -> Path:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "code-execution-agent"


def load_settings(env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over `env_file`.

    Raises:
        SettingsError: one or more settings cannot have the value they have.
    """
    try:
        settings = Settings(_env_file=env_file, **overrides)  # type: ignore[call-arg]
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(details) for details in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{env_file}: cannot be read: {error}") from error
    settings._dotenv = env_file
    if lines := check_secrets(settings.egress_credentials, settings.secret):
        raise SettingsError("\n".join(lines))
    return settings


def unchecked_settings(env_file: Path | None = Path(".env")) -> Settings:
    """Settings for where `load_settings` has refused them: the defaults, and what `env_file` holds."""
    settings = Settings.model_construct()
    settings._dotenv = env_file
    return settings


def _explain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name, value = str(error["loc"][0]), str(error["input"])
    # What has a wrong form may be a secret in the wrong place; a URL may hold a password.
    hidden = name in {"auth_tokens", "egress_credentials"} or "@" in value
    shown = "" if hidden else f"={value[:80]}{'…' * (len(value) > 80)}"
    return f"{name.upper()}{shown}: {message[0].lower()}{message[1:]}"


def build_model(settings: Settings, spec: str | None = None) -> BaseChatModel:
    """Make the chat model that `spec` names, as MODEL does, else that of the settings.

    See `agent.models.build_model`.
    """
    from agent.models import build_model as build

    return build(settings.model_copy(update={"model": spec}) if spec else settings)


def build_backend(settings: Settings) -> WorkspaceBackend:
    """Make the agent's computer. Needs no Docker: the container starts at the first command."""
    from agent.doors import doors
    from agent.known_secrets import secret_filter
    from agent.suspected import suspected
    from libs.backends.docker import DockerExecutionBackend
    from libs.backends.workspace import WorkspaceBackend
    from libs.sandbox.records import CommandRecords

    folders = settings.skill_folders
    if settings.skills_evolve:
        from libs.middleware.skill_overlay import SkillOverlay

        Path(LEARNED.parts[0]).mkdir(mode=0o700, exist_ok=True)  # threads will be in there, too
        SkillOverlay(folders[LEARNED_MOUNT]).make()
    sandbox = DockerExecutionBackend(
        settings.workspace_dir.absolute(),
        skills_dir=folders[OWN_MOUNT],
        extra_skills=[folder for mount, folder in folders.items() if mount != OWN_MOUNT],
        limits=settings.limits,
        env_allow=settings.env_patterns,
        image=settings.image,
        runtime=settings.sandbox_runtime,
        scope=settings.scope,
        warm=settings.sandbox_warm,
        idle_seconds=settings.sandbox_idle_seconds,
        redact=secret_filter(settings),
        egress=doors(settings),
        suspect=suspected,
        records=CommandRecords(COMMANDS),
    )
    return WorkspaceBackend(sandbox, read_only=list(folders))
