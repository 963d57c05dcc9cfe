"""The slash commands of a conversation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import nullcontext

from agent.chat.chat_session import Chat, Command, tasks
from agent.chat.rewind_commands import fork, rewind
from agent.listing import is_plot
from agent.models import shown_name
from agent.run import GRAPH_IDS, agent_of, model_in
from agent.terminal import NoSuchGrant, grant_lines, grants_of
from agent.terminal.terminal_plots import show_plot
from agent.threads import held
from libs.middleware.unfinished import is_unfinished
from libs.sandbox import in_one_line

__all__ = ["COMMANDS"]

_THREADS = 20
_FILES = 200


async def _help(chat: Chat, _: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        chat.view.say(f"{command.usage:<{width}}  {command.about}")
    chat.view.say(
        "Any other line is a message to the agent. Alt-Enter starts a new line, Tab completes, arrow keys "
        "recall earlier lines."
    )
    chat.view.say("Ctrl-C stops the run; a second Ctrl-C, or Ctrl-D, ends the program.")


async def _new(chat: Chat, thread_id: str) -> None:
    thread_id = thread_id or secrets.token_hex(4)
    if await agent_of(chat.runtime.threads, thread_id) is not None:
        chat.complain(f"There is a thread {thread_id} already: /thread {thread_id} continues it.", 2)
        return
    await chat.go_to(thread_id)


async def _threads(chat: Chat, _: str) -> None:
    found = await chat.runtime.threads.newest(_THREADS)
    for thread_id in found:
        name = await agent_of(chat.runtime.threads, thread_id)
        state = await chat.runtime.state(thread_id)
        if name is None or state is None:
            continue
        asked = next(tasks(state.values.get("messages", [])), "").split("\n")[0][:60]
        mark = "*" if thread_id == chat.thread_id else " "
        waits = ""
        if is_unfinished(state):
            waits = "  waits for approval" if state.interrupts else "  last run interrupted"
        when = (state.created_at or "")[:16].replace("T", " ")
        model = model_in(state.metadata or {})
        shown = f"  ({model})" if model else ""
        chat.view.say(f"{mark} {thread_id}  {when}  {name}  {asked}{shown}{waits}")
    if not found:
        chat.view.say("There is no thread yet.")
    await chat.refresh()


async def _thread(chat: Chat, thread_id: str) -> None:
    if not thread_id:
        await chat.introduce()
    elif await agent_of(chat.runtime.threads, thread_id) is None:
        chat.complain(f"There is no thread {thread_id}: /threads lists them, /new {thread_id} begins it.", 2)
    else:
        await chat.go_to(thread_id)


async def _agent(chat: Chat, name: str) -> None:
    names = ["auto", *GRAPH_IDS]
    if not name:
        current = await chat.runtime.agent(chat.thread_id, chat.asked)
        chat.view.say(f"{current}. There are: {', '.join(names)}.")
        return
    if name not in names:
        chat.complain(f"There is no agent {name}. There are: {', '.join(names)}.", 2)
        return
    belongs = await agent_of(chat.runtime.threads, chat.thread_id)
    before, chat.asked = chat.asked, name
    thread_id = chat.thread_id
    if belongs is not None and name not in ("auto", belongs):
        thread_id = secrets.token_hex(4)
        chat.view.say(f"Thread {chat.thread_id} stays with its {belongs} agent; a new one begins.", "dim")
    try:
        await chat.runtime.agent(thread_id, chat.asked)
    except Exception:
        chat.asked = before
        raise
    await chat.go_to(thread_id)


async def _model(chat: Chat, spec: str) -> None:
    if not spec:
        chat.view.say(shown_name(chat.runtime.model))
        return
    from agent.config import build_model
    from agent.settings import load_settings

    settings = await asyncio.to_thread(load_settings, model=spec)
    before = chat.runtime.model
    chat.runtime.use(await asyncio.to_thread(build_model, settings))
    try:
        await chat.introduce()
    except Exception:
        chat.runtime.use(before)
        raise
    chat.options = ("--model", spec)


async def _approvals(chat: Chat, words: str) -> None:
    what, _, which = words.partition(" ")
    which = which.strip()
    if what not in ("", "revoke") or (what == "revoke") != bool(which):
        chat.complain("Say /approvals, /approvals revoke NUMBER, or /approvals revoke all.", 2)
        return
    async with held(chat.thread_id) if which else nullcontext():
        try:
            grants = await grants_of(chat.runtime.threads, chat.thread_id, revoked=which) or []
        except NoSuchGrant as error:
            chat.complain(str(error), 2)
            return
    if which:
        chat.view.say(f"Revoked. Approvals that still hold: {len(grants)}.")
    if grants or not which:
        chat.view.say("\n".join(grant_lines(grants)), whole=True)


async def _files(chat: Chat, folder: str) -> None:
    found = await chat.runtime.listing(chat.thread_id)
    begin = folder.strip("/").removeprefix("workspace/")
    paths = sorted(path for path in found if f"{path}/".startswith(f"{begin}/" if begin else ""))
    paths = [path for path in paths if not path.endswith("/.gitkeep")]
    for path in paths[:_FILES]:
        changed, size, _ = found[path]
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(changed / 1e9))
        chat.view.say(f"{size:>12,}  {when}  {in_one_line(path)}", whole=True)
    if len(paths) > _FILES:
        chat.view.say(f"and {'at least ' if found.cut_at else ''}{len(paths) - _FILES:,} more")
    if not paths:
        among = f", among the first {len(found):,} of the workspace" if found.cut_at else ""
        chat.view.say(f"There is no file in {begin or 'data, scripts or results'}{among}.")


async def _skills(chat: Chat, _: str) -> None:
    from libs.middleware.skills import SkillFolders

    settings = chat.runtime.settings
    folders = SkillFolders(settings.skill_folders, trusted=settings.skills_trusted)
    for skill in await asyncio.to_thread(folders.scan):
        first = str(skill.description).split("\n")[0]
        chat.view.say(f"{skill.name}: {f'UNUSABLE: {skill.problem}' if skill.problem else first}")


async def _show(chat: Chat, words: str) -> None:
    what, _, path = words.partition(" ")
    if what != "plot":
        chat.complain("Say /show plot, or /show plot PATH.", 2)
        return
    path = path.strip().lstrip("/").removeprefix("workspace/")
    if not path:
        found = await chat.runtime.listing(chat.thread_id)
        plots = [name for name in found if is_plot(name)]
        if not plots:
            chat.view.say("There is no plot yet.")
            return
        path = max(plots, key=lambda name: found[name][0])
    chat.view.say(path, "magenta")
    with chat.runtime.within(chat.thread_id) as computer:
        if reason := await show_plot(path, computer, chat.console):
            folder = await chat.runtime.folder_of(chat.thread_id)
            where = f" On this machine: {folder.absolute() / path}" if folder else ""
            chat.view.say(f"Not shown: {reason}.{where}", "yellow")


async def _continue(chat: Chat, _: str) -> None:
    await chat.turn(None)


async def _stop(chat: Chat, _: str) -> None:
    with chat.runtime.within(chat.thread_id) as computer:
        await asyncio.to_thread(computer.reset)
    chat.view.say("Everything in the sandbox has ended; the files stay. The next command starts it again.")


async def _exit(chat: Chat, _: str) -> None:
    chat.ended = True


COMMANDS: Mapping[str, Command] = {
    "/help": Command("/help", "list the commands", _help),
    "/new": Command("/new [ID]", "begin a thread", _new),
    "/threads": Command("/threads", "list the latest threads", _threads),
    "/thread": Command(
        "/thread [ID]",
        "continue a thread; without ID: show the current thread",
        _thread,
        lambda c: c.threads,
    ),
    "/agent": Command("/agent [NAME]", "show or change the agent", _agent, lambda _: ["auto", *GRAPH_IDS]),
    "/model": Command(
        "/model [SPEC]",
        "show or change the model: provider:model, local, local:FILE.gguf or scripted:FILE",
        _model,
        lambda _: ["local", "openai:", "anthropic:", "scripted:"],
    ),
    "/approvals": Command(
        "/approvals [revoke N|all]",
        "list or revoke approvals for the rest of the thread",
        _approvals,
        lambda _: ["revoke", "revoke all"],
    ),
    "/files": Command(
        "/files [FOLDER]", "list the files of the workspace", _files, lambda _: ["data", "scripts", "results"]
    ),
    "/skills": Command("/skills", "list the skills", _skills),
    "/show": Command(
        "/show plot [PATH]",
        "draw the newest plot, or the plot at PATH",
        _show,
        lambda c: ["plot", *(f"plot {path}" for path in c.files if is_plot(path))],
    ),
    "/rewind": Command(
        "/rewind [N|undo] [dry]",
        "list the turns; go back to the end of turn N, conversation and files; `dry` only shows it",
        rewind,
        lambda _: ["undo"],
    ),
    "/fork": Command("/fork [N]", "copy the thread as it was after turn N, and change to the copy", fork),
    "/continue": Command("/continue", "answer pending approvals, or resume an interrupted run", _continue),
    "/stop": Command("/stop", "during a run: stop it; otherwise end all processes in the sandbox", _stop),
    "/exit": Command("/exit", "end the program; the thread stays", _exit),
}
