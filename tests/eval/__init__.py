"""Measure the code-block agent on tasks with the configured model, else the local one: `make eval`.

    python -m tests.eval [dev|practice|held-out|TASK] [--seconds 300] [--model provider:model]

- `dev`: ten tasks, one of each kind, for work on prompt and loop. Never quoted.
- `practice`: 20 tasks that were held out once. Prompts and skills may be tried on them. Quoted only by name.
- `held-out`: 20 tasks that no prompt or example was tried on. Never run to choose between two prompts.

A task is solved if the run ends by itself with an answer, and the task's check accepts the answer or the
files.

A quoted result names solved of total, model, date, revision, steps, tokens and wall time. The report in
tests/artifacts/eval/, beside the transcripts, has them all. The result is from one run that was not chosen
among several. A task changes only if its text or check was wrong; then all quoted results are measured again.

A held-out set is used up when somebody who knows a model's results on it changes prompts, loop or skills. The
set then becomes `practice`, and somebody who has not read the agent's prompts writes 20 new tasks. Prompts
and skills may be improved for a kind of task, never for a single task, and contain no task text and no
answer.

No result decides whether the tests pass. `test_eval_tasks.py` checks the checks and the data of the tasks.
"""
