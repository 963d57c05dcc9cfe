"""End the processes that a program left running."""

__all__ = ["END"]

END = """\
ended=0
for turn in {1..40}; do
  left=()
  running=()
  of_program=0
  for at in /proc/[0-9]*/stat; do
    line=
    read -rd '' line 2>/dev/null < "$at"
    pid=${line%% *}
    fields=(${line##*) })
    # Workers are children of PID 1, and nothing else is. A thread may go on where the first has ended.
    [[ pid -gt 1 && pid -ne $$ && fields[1] -gt 1 ]] || continue
    [[ ${fields[0]} != [ZX] || fields[17] -gt 1 ]] || continue
    left+=("$pid")
    [[ ${fields[0]} = [TZ] ]] || running+=("$pid")
    # Read `environ` before `cmdline`, because a worker may become a shell between the two reads. The
    # environment of a worker cannot be read, and the command line of a waiting shell is known.
    { : < "${at%stat}environ"; } 2>/dev/null || continue
    words=()
    mapfile -d '' words 2>/dev/null < "${at%stat}cmdline"
    # Do not count a process that has just ended, a shell that waits for the next command, or a helper that
    # Python ends by itself. The environment tells nothing: a program may give a process any environment. The
    # environment of a forked worker cannot be read.
    words=${words[*]}
    [[ ! $words || $words = *BASH_EXECUTION_STRING* ]] && continue
    [[ $words = *"from multiprocessing."@(resource_tracker|forkserver)" import main"* ]] || ((++of_program))
  done
  ((ended)) || ended=$of_program
  [ ${#left[@]} -eq 0 ] && break
  # A stopped process cannot fork. Otherwise new ones would take the place of those that are killed.
  if ((${#running[@]} && turn < 20)); then
    kill -STOP "${running[@]}" 2>/dev/null
  else
    kill -KILL "${left[@]}" 2>/dev/null
  fi
done
echo "left $ended"
[[ -r /workspace && -x /workspace ]] || chmod u+rwx /workspace
"""
"""Kills processes that the program left running, so that no file changes, and prints their number. Makes the
workspace readable. Starts no process, except for a workspace that is not readable."""
