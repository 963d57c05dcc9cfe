"""Forty tasks that measure the code-block agent with the configured model, else the local one: `make eval`.

    python -m tests.eval [all|dev|practice|held-out|KIND|TASK]
        [--jobs 1] [--seconds 300] [--model provider:model]

`dev` is ten of them, one of each kind, for work on prompt and loop; `all` is what is quoted. Beside the forty
there are 20 of `practice` and 20 of `held-out`, as hard as the forty: two of each kind in both. No prompt or
example was tried on those of `held-out`. `practice` are 20 that were held out once and have been looked at
since; prompts and skills may be tried on them as on `dev`.
A task is solved when the run ends by itself with an answer, and its check accepts that answer or the files
that were made.

How figures are reported:

- always whole: solved of total, the model, the date and the revision, steps, tokens and wall time, and the
  machine where time is named. The JSON report in tests/artifacts/eval/, beside the transcripts, has it all;
- of one run that was not picked from several. Of several runs all are named: a model that draws its words at
  random may differ by a few tasks from run to run;
- the ten of `dev` are never quoted as a result: prompts are tuned on them;
- the figure of `practice` is quoted under its own name or not at all;
- `held-out` is quoted beside `all`, never added to it, and never run to choose between two prompts;
- failed tasks are named. A task is changed only where its text or its check was wrong, and then everything
  that is still quoted is measured again.

A held-out set is spent once the prompts, the loop or the skills are changed by somebody who knows what a
model made of it. It is `practice` then, and 20 others take its place, written by somebody who has not read
what the agent is told, and as hard as the forty: as many steps, techniques and words, but other ones.

Prompt, loop and skills may be improved for a kind of task, never for one of these: other tasks of the same
kinds must gain as well. No text of a task and no answer may appear in what the agent is told, those of
`practice` and `held-out` included.

Nothing here decides whether the tests pass. What does: tests/unit/test_eval_tasks.py holds each check against
its reference solution and wrong ones; tests/integration/test_eval.py plays a few with a scripted model.
"""
