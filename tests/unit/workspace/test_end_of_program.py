"""A program that ends while snapshots are kept or removed ends as usual."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import python

KEEP = """
    import hashlib, threading
    from libs.sandbox.host import core
    from libs.workspace import Contents

    contents = Contents({place!r})
    begun = threading.Event()

    async def keep():
        try:
            while True:
                await contents.put("place", [(hashlib.sha256(b"content").hexdigest(), b"content")])
                begun.set()
        except RuntimeError:
            pass  # the program ends, and its threads take no more calls

    for _ in range(8):
        core().spawn(keep())
    begun.wait()
"""
PRUNE = """
    import asyncio, threading, time
    from libs.sandbox.host import core
    from libs.workspace.prune import BackgroundPrune

    asked = threading.Event()

    class Pruner:
        async def is_due(self, most):
            asked.set()
            while threading.main_thread().is_alive():
                await asyncio.sleep(0.01)
            await asyncio.to_thread(bool)
            print("a call was taken")

    async def captured():
        BackgroundPrune(Pruner(), 0).captured()

    def wait():
        threading.main_thread().join()
        time.sleep(0.3)

    core().spawn(captured())
    asked.wait()
    threading.Thread(target=wait).start()  # Python ends after this thread
"""


def ends_in_silence(program: str) -> None:
    with python(program) as process:
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize("_", range(5))
def test_program_that_ends_while_contents_are_kept_is_not_aborted(tmp_path: Path, _: int) -> None:
    """A thread of `obstore` that needs Python after its end aborts the process, about one time in five."""
    ends_in_silence(KEEP.format(place=str(tmp_path)))


def test_prune_that_cannot_go_on_at_the_end_of_the_program_logs_nothing() -> None:
    ends_in_silence(PRUNE)
