"""A recorded execution is returned as it was, or says what is missing."""

from __future__ import annotations

import json
from dataclasses import replace

from libs.exec_tool.execution_record import ExecutionRecord
from libs.exec_tool.outcome import ExecError, ExecResult, Metrics


def test_file_that_a_later_program_changed_is_not_returned_as_this_programs() -> None:
    record = ExecutionRecord(contents=False)
    result = ExecResult(files={"same": b"1", "changed": b"2", "removed": b"3"}, note="Noted.")
    told = json.loads(json.dumps(record.form.encode(result)))
    later = ExecutionRecord(contents=False)
    again = later.with_files(later.form.decode(told), {"same": b"1", "changed": b"4", "other": b"5"})
    assert dict(again.files) == {"same": b"1"}
    assert again.note == (
        "Noted. 2 of the program's files are not returned, because they were changed or removed since: "
        "'changed'."
    )


def test_record_with_contents_needs_no_kept_files() -> None:
    record = ExecutionRecord(contents=True)
    told = json.loads(json.dumps(record.form.encode(ExecResult(files={"a": bytes(range(256))}))))
    assert record.form.decode(told).files == {"a": bytes(range(256))}


def test_execution_in_the_form_of_a_command() -> None:
    failed = ExecError("runtime", "It failed.", "Mend it.")
    ran = ExecResult("out\n", "err\n", error=failed, metrics=Metrics(run=1.5, exit_code=1)).as_run_result()
    assert (ran.output, ran.exit_code, ran.seconds, ran.interrupted) == ("out\nerr\n", 1, 1.5, None)
    assert not (ran.truncated or ran.timed_out)
    for kind in ("timeout", "cpu"):
        slow = ExecError(kind, "Over the limit.", "Use less time.")
        assert ExecResult(error=slow, metrics=Metrics(exit_code=124)).as_run_result().timed_out
    assert ExecResult("1\n[… 9 characters left out …]\n7\n").as_run_result().truncated
    killed = ExecResult.failed("interrupted", "The program was killed.", "Look first.").as_run_result()
    assert (killed.output, killed.exit_code) == ("The program was killed. Look first.", 125)
    assert killed.interrupted == "ended"
    failed_start = ExecResult.failed("sandbox", "The sandbox ended.", "Look first.")
    assert failed_start.as_run_result().interrupted is None
    for stdout, output in (("", ""), ("out", "out\n")):
        died = replace(failed_start, stdout=stdout, sandbox_died=True).as_run_result()
        assert (died.output, died.interrupted) == (f"{output}The sandbox ended. Look first.", "ended")
