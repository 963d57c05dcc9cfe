"""Everything `code-agent run` needs: the machine, the settings, a model, sound skills."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import Settings, SettingsError, load_settings
from agent.doctor import Check, doctor
from agent.reloading import reload_check
from libs.middleware.skill_files import SkillFolders, validate_skills
from libs.sandbox.errors import program

__all__ = ["check_all"]


def check_all() -> list[Check]:
    """Look at everything; changes nothing and raises nothing for what it finds."""
    try:
        settings = load_settings()
    except SettingsError as error:
        hint = "Change it in the environment or in .env; docs/configuration.md lists what is allowed."
        # The rest is looked at as it would be without any setting: it may be at fault too.
        settings = Settings.model_construct()
        checks = [Check("settings", False, str(error), hint)]
    else:
        checks = [Check("settings", True, "valid")]
    checks += [_model_check(settings), *_skill_checks(settings)]
    machine = doctor(workspace=settings.workspace_dir, image=settings.image, runtime=settings.sandbox_runtime)
    return [*checks, *machine, reload_check(settings.workspace_dir)]


def _model_check(settings: Settings) -> Check:
    from agent.models import build_model
    from libs.models.deferred import DeferredChatModel, ModelUnavailable
    from libs.models.scripted import ScriptError

    try:
        model = build_model(settings)
        if isinstance(model, DeferredChatModel):
            model.build()
            return Check("model", True, f"{model.label} is configured (it was not called)")
        return Check("model", True, f"{settings.model}: a script that is played, not a model")
    except (ModelUnavailable, ScriptError) as error:
        reason, _, hint = str(error).partition(". ")
        return Check("model", False, reason, hint)


def _skill_checks(settings: Settings) -> Iterator[Check]:
    folders = settings.skill_folders
    problems = [problem for folder in folders.values() for problem in validate_skills(folder)]
    if problems:
        yield Check("skills", False, "; ".join(map(str, problems)), f"{program()} skills validate")
    else:
        found = SkillFolders(folders, trusted=settings.skills_trusted).scan()
        usable = sum(skill.problem is None for skill in found)
        yield Check("skills", True, f"{len(found)} valid, {usable} of them trusted")
